"""The AI functions by name: which are answered, which are not yet, which need generation; never touches a
statement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MENTION = re.compile(r"\bAI\s*(?:\.\s*[A-Z_]+|_[A-Z_]+)\s*\(", re.IGNORECASE)
"""Text without a match calls no AI function; a match may still be inside a string or a comment."""

BOOLEAN = frozenset({"AI_FILTER", "AI.IF"})
"""Answered by yes or no."""

SCORE = frozenset({"AI_SCORE", "AI.SCORE"})
"""Answered by the probability of yes."""

CLASSIFY = frozenset({"AI_CLASSIFY", "AI.CLASSIFY"})
"""Answered by one of the labels given."""

LABEL = CLASSIFY | {"AI_SENTIMENT"}
"""Answered by one of some labels."""

_ASK = "ask yes/no questions with AI_FILTER instead"
_LIST = "aggregate the rows that AI_FILTER selects with string_agg or list instead"
GENERATING: Mapping[str, str] = {
    "AI_COMPLETE": _ASK,
    "AI_GENERATE": _ASK,
    "AI_EXTRACT": "select rows with AI_FILTER and cut the text with regexp_extract instead",
    "AI_MAP": _ASK,
    "AI_TRANSLATE": _ASK,
    "AI_AGG": _LIST,
    "AI_SUMMARIZE_AGG": _LIST,
    "AI_SUMMARIZE": _LIST,
    "AI_TRANSCRIBE": "load the transcripts as a table instead",
    "AI_PARSE_DOCUMENT": "load the parsed documents as a table instead",
    "AI.GENERATE": _ASK,
    "AI.GENERATE_TEXT": _ASK,
    "AI.GENERATE_BOOL": "use AI.IF instead",
    "AI.GENERATE_INT": _ASK,
    "AI.GENERATE_DOUBLE": _ASK,
    "AI.GENERATE_TABLE": _ASK,
    "AI.EXTRACT": "select rows with AI.IF and cut the text with regexp_extract instead",
    "AI.MAP": _ASK,
    "AI.AGG": _LIST,
}
"""Functions whose answer is text to be generated, and what to use instead."""

_FILTER = "use AI_FILTER"
NOT_YET: Mapping[str, str] = {
    "AI_COUNT_TOKENS": "use length",
    "AI_SIMILARITY": _FILTER,
    "AI_EMBED": _FILTER,
}
"""Functions that are not answered yet, and what comes nearest."""

KNOWN = BOOLEAN | SCORE | LABEL | GENERATING.keys() | NOT_YET.keys()

AGGREGATES = frozenset(
    [
        "any_value",
        "approx_count_distinct",
        "approx_quantile",
        "approx_top_k",
        "arbitrary",
        "arg_max",
        "arg_max_null",
        "arg_max_nulls_last",
        "arg_min",
        "arg_min_null",
        "arg_min_nulls_last",
        "argmax",
        "argmin",
        "array_agg",
        "avg",
        "bit_and",
        "bit_or",
        "bit_xor",
        "bitstring_agg",
        "bool_and",
        "bool_or",
        "combine_aggr",
        "corr",
        "count",
        "count_if",
        "count_star",
        "countif",
        "covar_pop",
        "covar_samp",
        "decimal_average",
        "entropy",
        "favg",
        "first",
        "fsum",
        "group_concat",
        "histogram",
        "histogram_exact",
        "kahan_sum",
        "kurtosis",
        "kurtosis_pop",
        "last",
        "list",
        "listagg",
        "lttb",
        "mad",
        "max",
        "max_by",
        "mean",
        "median",
        "min",
        "min_by",
        "mode",
        "product",
        "quantile",
        "quantile_cont",
        "quantile_disc",
        "regr_avgx",
        "regr_avgy",
        "regr_count",
        "regr_intercept",
        "regr_r2",
        "regr_slope",
        "regr_sxx",
        "regr_sxy",
        "regr_syy",
        "reservoir_quantile",
        "sem",
        "skewness",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "string_agg",
        "sum",
        "sum_no_overflow",
        "sumkahan",
        "var_pop",
        "var_samp",
        "variance",
        "variant_group_object",
    ]
)
"""DuckDB's aggregate functions (a test compares them with duckdb_functions())."""
