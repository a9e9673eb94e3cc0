"""The AI functions by name: which are answered, which are not yet, which need generation; never touches a
statement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MENTION = re.compile(r"\b(?:AI\s*(?:\.\s*|_)|CORTEX\s*\.\s*)[A-Z_0-9]+\s*\(", re.IGNORECASE)
"""Text without a match calls no AI function; a match may still be inside a string or a comment."""

BOOLEAN = frozenset({"AI_FILTER", "AI.IF"})
"""Answered by yes or no."""

SCORE = frozenset({"AI_SCORE", "AI.SCORE"})
"""Answered by the probability of yes."""

CLASSIFY = frozenset({"AI_CLASSIFY", "AI.CLASSIFY"})
"""Answered by one of the labels given."""

LABEL = CLASSIFY | {"AI_SENTIMENT"}
"""Answered by one of some labels."""

COUNT = frozenset({"AI_COUNT_TOKENS", "AI.COUNT_TOKENS"})
"""Answered by the tokenizer alone: how many tokens a text has."""

_ASK = "ask yes/no questions with AI_FILTER instead"
_CUT = "select rows with AI_FILTER and cut the text with regexp_extract instead"
_LIST = "aggregate the rows that AI_FILTER selects with string_agg or list instead"
GENERATING: Mapping[str, str] = {
    "AI_COMPLETE": _ASK,
    "AI_GENERATE": _ASK,
    "AI_GEN": _ASK,
    "AI_QUERY": _ASK,
    "AI_EXTRACT": _CUT,
    "AI_MAP": _ASK,
    "AI_TRANSLATE": _ASK,
    "AI_FIX_GRAMMAR": _ASK,
    "AI_MASK": _CUT,
    "AI_REDACT": _CUT,
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
    "AI.EXTRACT": _CUT,
    "AI.MAP": _ASK,
    "AI.AGG": _LIST,
    "AI.SUMMARIZE": _LIST,
    "AI.TRANSLATE": _ASK,
    "CORTEX.COMPLETE": _ASK,
    "CORTEX.TRY_COMPLETE": _ASK,
    "CORTEX.FINETUNE": "the pinned model is used as it is",
    "CORTEX.EXTRACT_ANSWER": _CUT,
    "CORTEX.PARSE_DOCUMENT": "load the parsed documents as a table instead",
    "CORTEX.SUMMARIZE": _LIST,
    "CORTEX.TRANSLATE": _ASK,
}
"""Functions whose answer is text to be generated, and what to use instead."""

_FILTER = "use AI_FILTER to select or AI_SCORE to rank"
_SENTIMENT = "use AI_SENTIMENT(text)"
_COUNT = "use AI_COUNT_TOKENS(text)"
OTHERS: Mapping[str, str] = {
    "AI_SIMILARITY": _FILTER,
    "AI_EMBED": _FILTER,
    "AI_RANK": _FILTER,
    "AI_ANALYZE_SENTIMENT": _SENTIMENT,
    "AI_FORECAST": "use SQL's regr_slope and regr_intercept",
    "AI.SIMILARITY": _FILTER,
    "AI.EMBED": _FILTER,
    "AI.SEARCH": _FILTER,
    "AI.GENERATE_EMBEDDING": _FILTER,
    "AI.FORECAST": "use SQL's regr_slope and regr_intercept",
    "CORTEX.CLASSIFY_TEXT": "use AI_CLASSIFY(text, ['label', …])",
    "CORTEX.COUNT_TOKENS": _COUNT,
    "CORTEX.EMBED_TEXT_768": _FILTER,
    "CORTEX.EMBED_TEXT_1024": _FILTER,
    "CORTEX.ENTITY_SENTIMENT": "use AI_SENTIMENT(text), or one AI_CLASSIFY an aspect,",
    "CORTEX.SEARCH_PREVIEW": _FILTER,
    "CORTEX.SENTIMENT": _SENTIMENT,
    "CORTEX.SPLIT_TEXT_RECURSIVE_CHARACTER": "use string_split",
}
"""Other systems' functions that are not answered here, and what comes nearest."""

KNOWN = BOOLEAN | SCORE | LABEL | COUNT | GENERATING.keys() | OTHERS.keys()

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
