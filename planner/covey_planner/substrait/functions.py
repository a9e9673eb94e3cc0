"""Substrait's function names in, the SQL they stand for out; which extension defines them. Reads no plan.

A rendering is a call's name (`upper`), a template (`{0} + {1}`), or an operator between any number of arguments
(`* AND`).
"""

from __future__ import annotations

from dataclasses import dataclass

AI = "extension:covey:functions_ai"
"""The AI functions; `ai_functions.yaml` describes them."""

DUCKDB = "extension:covey:functions_duckdb"
"""Functions that go by DuckDB's name and mean what DuckDB means, where Substrait has none."""

AI_NAMES = frozenset({"ai_filter", "ai_score", "ai_classify", "ai_sentiment", "ai_count_tokens", "prompt"})
"""The functions of the extension `AI`."""


@dataclass(frozen=True)
class Function:
    """extension: the part of its name after `functions_`. any: its signature is of arguments of any type.

    gives: the DuckDB type of every result, where it is always the same.
    """

    name: str
    extension: str
    sql: str
    any: bool = False
    gives: str | None = None

    @property
    def urn(self) -> str:
        """The extension that defines it."""
        return f"extension:io.substrait:functions_{self.extension}"


def _table(extension: str, text: str, any: bool = False, gives: str | None = None) -> list[Function]:
    """Functions written `name sql`, one a line."""
    pairs = (line.strip().split(" ", 1) for line in text.strip().splitlines())
    return [Function(name, extension, (sql or [name])[0], any, gives) for name, *sql in pairs]


_SCALAR = [
    *_table("comparison", "equal {0} = {1}\nnot_equal {0} <> {1}\nlt {0} < {1}\nlte {0} <= {1}", True),
    *_table("comparison", "gt {0} > {1}\ngte {0} >= {1}\nbetween {0} BETWEEN {1} AND {2}", True),
    *_table("comparison", "is_null {0} IS NULL\nis_not_null {0} IS NOT NULL", True),
    *_table("comparison", "is_not_distinct_from {0} IS NOT DISTINCT FROM {1}", True),
    *_table("comparison", "is_distinct_from {0} IS DISTINCT FROM {1}", True),
    *_table("comparison", "coalesce\nnullif\nleast_skip_null least\ngreatest_skip_null greatest", True),
    *_table("comparison", "is_nan isnan\nis_finite isfinite\nis_infinite isinf"),
    *_table("comparison", "is_true {0} IS TRUE\nis_false {0} IS FALSE"),
    *_table("comparison", "is_not_true {0} IS NOT TRUE\nis_not_false {0} IS NOT FALSE"),
    *_table("boolean", "and * AND\nor * OR\nnot NOT {0}\nxor {0} <> {1}"),
    *_table("arithmetic", "add {0} + {1}\nsubtract {0} - {1}\nmultiply {0} * {1}\ndivide {0} / {1}"),
    *_table("arithmetic", "negate - {0}\nmodulus {0} % {1}\nmod {0} % {1}\npower pow\nabs\nsign\nfactorial"),
    *_table(
        "arithmetic", "sqrt\nexp\nsin\ncos\ntan\nasin\nacos\natan\natan2\nradians\ndegrees", gives="DOUBLE"
    ),
    *_table("arithmetic", "bitwise_and {0} & {1}\nbitwise_or {0} | {1}\nbitwise_xor xor\nbitwise_not ~ {0}"),
    *_table("rounding", "ceil\nfloor\nround"),
    *_table("logarithmic", "ln\nlog10\nlog2\nlogb log({1}, {0})", gives="DOUBLE"),
    *_table(
        "string", "concat * ||\nlike {0} LIKE {1}\nupper\nlower\nsubstring\nstarts_with\nends_with\ncontains"
    ),
    *_table("string", "char_length length\noctet_length strlen\nstrpos", gives="BIGINT"),
    *_table("string", "trim\nltrim\nrtrim\nlpad\nrpad\nleft\nright\nreverse\nrepeat\nreplace\nconcat_ws"),
    *_table("string", "regexp_match_substring regexp_extract"),
    *_table("datetime", "extract\ndate_part", gives="DOUBLE"),
]
_AGGREGATE = [
    *_table("aggregate_generic", "count", True, "BIGINT"),
    *_table("aggregate_generic", "any_value", True),
    *_table("aggregate_approx", "approx_count_distinct", True, "BIGINT"),
    *_table("arithmetic", "sum\nmin\nmax\nmode\nproduct"),
    *_table("arithmetic", "avg\nstd_dev stddev_samp\nvariance var_samp\ncorr\nmedian", gives="DOUBLE"),
    *_table("boolean", "bool_and\nbool_or"),
    *_table("string", "string_agg"),
]

SCALAR = {function.name: function for function in _SCALAR}
"""Scalar functions by Substrait's name."""

AGGREGATE = {function.name: function for function in _AGGREGATE}
"""Aggregate functions by Substrait's name."""

OPTIONS = {
    ("like", "case_sensitivity", "CASE_INSENSITIVE"): "{0} ILIKE {1}",
    ("std_dev", "distribution", "POPULATION"): "stddev_pop",
    ("variance", "distribution", "POPULATION"): "var_pop",
}
"""Options, as (function, option, value), that give a function another rendering; no other option changes one."""

_SAME = """coalesce nullif abs sqrt exp sin cos tan asin acos atan atan2 radians degrees ceil floor ln log10 log2
    upper lower substring starts_with ends_with contains strpos lpad rpad reverse repeat replace concat_ws count
    any_value approx_count_distinct sum min max avg corr bool_and bool_or string_agg"""
_OTHER = {
    "least": "least_skip_null",
    "greatest": "greatest_skip_null",
    "isnan": "is_nan",
    "isfinite": "is_finite",
    "isinf": "is_infinite",
    "pow": "power",
    "power": "power",
    "ceiling": "ceil",
    "log": "log10",
    "mod": "modulus",
    "ucase": "upper",
    "lcase": "lower",
    "substr": "substring",
    "len": "char_length",
    "length": "char_length",
    "strlen": "octet_length",
    "instr": "strpos",
    "prefix": "starts_with",
    "suffix": "ends_with",
    "mean": "avg",
    "stddev": "std_dev",
    "stddev_samp": "std_dev",
    "variance": "variance",
    "var_samp": "variance",
    "count_star": "count",
}
FROM_DUCKDB = {**{name: name for name in _SAME.split()}, **_OTHER}
"""DuckDB's functions that mean what one of Substrait's means."""

_DECIMAL = frozenset({"add", "subtract", "multiply", "divide", "modulus", "abs", "sum", "avg", "min", "max"})
_DATES = frozenset({"add", "subtract", "min", "max"})
_TIMES = ("date", "ts", "tstz", "pts", "ptstz", "pt", "iyear", "iday", "icompound")
_NUMBERS = ("i8", "i16", "i32", "i64", "fp32", "fp64")


def placed(function: Function, arguments: list[str]) -> Function | None:
    """The function with the extension that defines it for arguments of these short types; None where none does."""
    if function.extension == "arithmetic" and not function.any:
        if "dec" in arguments:
            return _in(function, "arithmetic_decimal") if function.name in _DECIMAL else None
        if any(kind in _TIMES for kind in arguments):
            return _in(function, "datetime") if function.name in _DATES else None
        if not all(kind in _NUMBERS for kind in arguments):
            return None
    if function.extension == "rounding" and "dec" in arguments:
        return _in(function, "rounding_decimal")
    return function


def _in(function: Function, extension: str) -> Function:
    return Function(function.name, extension, function.sql, function.any, function.gives)


def render(sql: str, arguments: list[str]) -> str:
    """The SQL of a call, in parentheses where it is an operation."""
    if sql.startswith("* "):
        return f"({f' {sql[2:]} '.join(arguments)})"
    if "{" in sql:
        return f"({sql.format(*arguments)})"
    return f"{sql}({', '.join(arguments)})"
