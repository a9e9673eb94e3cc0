"""A JDBC/ODBC type code (or none) in, the SQL types with their properties out; touches nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field("type_name", pa.string(), nullable=False),
        pa.field("data_type", pa.int32(), nullable=False),
        pa.field("column_size", pa.int32()),
        pa.field("literal_prefix", pa.string()),
        pa.field("literal_suffix", pa.string()),
        pa.field("create_params", pa.list_(pa.field("item", pa.string(), nullable=False))),
        pa.field("nullable", pa.int32(), nullable=False),
        pa.field("case_sensitive", pa.bool_(), nullable=False),
        pa.field("searchable", pa.int32(), nullable=False),
        pa.field("unsigned_attribute", pa.bool_()),
        pa.field("fixed_prec_scale", pa.bool_(), nullable=False),
        pa.field("auto_increment", pa.bool_()),
        pa.field("local_type_name", pa.string()),
        pa.field("minimum_scale", pa.int32()),
        pa.field("maximum_scale", pa.int32()),
        pa.field("sql_data_type", pa.int32(), nullable=False),
        pa.field("datetime_subcode", pa.int32()),
        pa.field("num_prec_radix", pa.int32()),
        pa.field("interval_precision", pa.int32()),
    ]
)

_NULLABLE = 1
_SEARCHABLE, _SEARCHABLE_FULL = 2, 3
_DATETIME = 9


@dataclass(frozen=True)
class _Type:
    """A SQL type.

    code: its JDBC/ODBC number; size: digits, characters or bits; quote: around its literals.
    """

    name: str
    code: int
    size: int | None = None
    quote: str | None = None
    radix: int | None = None
    unsigned: bool | None = None
    scale: int | None = None
    subcode: int | None = None
    params: tuple[str, ...] | None = None

    def row(self) -> dict[str, object]:
        """The type as a row of the answer."""
        return {
            "type_name": self.name,
            "data_type": self.code,
            "column_size": self.size,
            "literal_prefix": self.quote,
            "literal_suffix": self.quote,
            "create_params": None if self.params is None else list(self.params),
            "nullable": _NULLABLE,
            "case_sensitive": self.name == "VARCHAR",
            "searchable": _SEARCHABLE_FULL if self.name == "VARCHAR" else _SEARCHABLE,
            "unsigned_attribute": self.unsigned,
            "fixed_prec_scale": False,
            "auto_increment": None if self.unsigned is None else False,
            "local_type_name": self.name,
            "minimum_scale": self.scale and 0,
            "maximum_scale": self.scale,
            "sql_data_type": _DATETIME if self.subcode else self.code,
            "datetime_subcode": self.subcode,
            "num_prec_radix": self.radix,
            "interval_precision": None,
        }


def _integer(name: str, code: int, digits: int, unsigned: bool = False) -> _Type:
    return _Type(name, code, digits, radix=10, unsigned=unsigned)


_TYPES = (
    _Type("BOOLEAN", -7, 1),
    _integer("TINYINT", -6, 3),
    _integer("UTINYINT", -6, 3, True),
    _integer("BIGINT", -5, 19),
    _integer("UBIGINT", -5, 20, True),
    _Type("BLOB", -3, None, "'"),
    _integer("HUGEINT", 2, 38),
    _Type("DECIMAL", 3, 38, radix=10, unsigned=False, scale=38, params=("precision", "scale")),
    _integer("INTEGER", 4, 10),
    _integer("UINTEGER", 4, 10, True),
    _integer("SMALLINT", 5, 5),
    _integer("USMALLINT", 5, 5, True),
    _Type("FLOAT", 7, 24, radix=2, unsigned=False),
    _Type("DOUBLE", 8, 53, radix=2, unsigned=False),
    _Type("UUID", 12, 36, "'"),
    _Type("VARCHAR", 12, None, "'"),
    _Type("DATE", 91, 10, "'", subcode=1),
    _Type("TIME", 92, 15, "'", subcode=2),
    _Type("TIMESTAMP", 93, 26, "'", subcode=3),
    _Type("TIMESTAMP WITH TIME ZONE", 93, 32, "'", subcode=5),
)


def type_info(code: int | None) -> pa.Table:
    """The types with a JDBC/ODBC code, or all, ordered by code and name."""
    rows = [kind.row() for kind in _TYPES if code is None or kind.code == code]
    rows.sort(key=lambda row: (row["data_type"], row["type_name"]))
    return pa.Table.from_pylist(rows, schema=SCHEMA)
