"""Plans of other producers, for `test_substrait_producers.py`, as base64 in JSON files beside this one.

    uv pip install --target OTHER datafusion==55.0.0
    PYTHONPATH=OTHER python tests/sql/plans/make.py datafusion

    uv pip install --target ANOTHER ibis-substrait==4.0.1 substrait==0.19.0
    PYTHONPATH=ANOTHER python tests/sql/plans/make.py ibis

The first takes TPC-H's queries as well, over the tables that tpchgen-cli makes. Neither is needed to run the tests.
"""

# mypy: ignore-errors

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parents[2]


def datafusion() -> dict[str, bytes]:
    """TPC-H's queries, by name."""
    from datafusion import SessionContext
    from datafusion.substrait import Serde

    context = SessionContext()
    with tempfile.TemporaryDirectory() as folder:
        generate = ["tpchgen-cli", "parquet", "--scale-factor", "0.001", "--output-dir", folder]
        subprocess.run(generate, check=True, capture_output=True)
        for path in Path(folder).glob("*.parquet"):
            context.register_parquet(path.stem, str(path))
        text = (TESTS / "tpch" / "queries.sql").read_text("utf-8")
        parts = [part.strip() for part in text.split("\n\n") if not part.startswith("--")]
        return {
            f"q{number}": bytes(Serde.serialize_bytes(sql, context)) for number, sql in enumerate(parts, 1)
        }


def ibis() -> dict[str, bytes]:
    """Expressions over `tickets` and `products`, by the SQL that they mean."""
    import ibis
    from ibis import _
    from ibis_substrait.compiler.core import SubstraitCompiler

    kinds = {"id": "int64", "body": "string", "product": "int64", "price": "decimal(9, 2)", "opened": "date"}
    t = ibis.table(kinds, name="tickets")
    p = ibis.table({"code": "int64", "name": "string", "kind": "string"}, name="products")
    made = {
        "SELECT id, body FROM tickets WHERE id > 2": t.filter(_.id > 2).select("id", "body"),
        "SELECT id, upper(body) AS loud, length(body) AS n FROM tickets": t.select(
            "id", loud=_.body.upper(), n=_.body.length()
        ),
        "SELECT id, price * CAST(2 AS DECIMAL(9,2)) AS twice FROM tickets WHERE price BETWEEN 1 AND 20": t.filter(
            _.price.between(1, 20)
        ).select("id", twice=_.price * 2),
        "SELECT product, count(*) AS n, sum(id) AS total, avg(id) AS mean FROM tickets "
        "GROUP BY product": t.group_by("product").aggregate(n=_.count(), total=_.id.sum(), mean=_.id.mean()),
        "SELECT product, max(id) AS last FROM tickets GROUP BY product HAVING count(*) > 1": t.group_by(
            "product"
        )
        .aggregate(last=_.id.max(), n=_.count())
        .filter(_.n > 1)
        .select("product", "last"),
        "SELECT * FROM tickets JOIN products ON product = code": t.join(p, t.product == p.code),
        "SELECT * FROM tickets LEFT JOIN products ON product = code": t.left_join(p, t.product == p.code),
        "SELECT t.* FROM tickets t SEMI JOIN products ON product = code": t.semi_join(p, t.product == p.code),
        "SELECT * FROM tickets ORDER BY product DESC NULLS FIRST, id LIMIT 3 OFFSET 1": t.order_by(
            [ibis.desc("product"), "id"]
        ).limit(3, offset=1),
        "SELECT id FROM tickets UNION ALL SELECT code FROM products": t.select("id").union(
            p.select(id="code")
        ),
        "SELECT id FROM tickets INTERSECT SELECT code FROM products": t.select("id").intersect(
            p.select(id="code")
        ),
        "SELECT id FROM tickets EXCEPT SELECT code FROM products": t.select("id").difference(
            p.select(id="code")
        ),
        "SELECT id, CASE WHEN price > 10 THEN 'dear' ELSE 'cheap' END AS sort FROM tickets": t.select(
            "id", sort=ibis.case().when(t.price > 10, "dear").else_("cheap").end()
        ),
        "SELECT id FROM tickets WHERE body IN ('late', 'lost') OR body IS NULL": t.filter(
            _.body.isin(["late", "lost"]) | _.body.isnull()
        ).select("id"),
        "SELECT id, CAST(id AS VARCHAR) AS text, body LIKE '%o%' AS round FROM tickets": t.select(
            "id", text=_.id.cast("string"), round=_.body.like("%o%")
        ),
        "SELECT id, extract(year FROM opened) AS y FROM tickets WHERE opened >= DATE '2026-02-01'": t.filter(
            _.opened >= ibis.date("2026-02-01")
        ).select("id", y=t.opened.year()),
    }
    compiler = SubstraitCompiler()
    return {sql: compiler.compile(expression).SerializeToString() for sql, expression in made.items()}


if __name__ == "__main__":
    producer = sys.argv[1]
    plans = {"datafusion": datafusion, "ibis": ibis}[producer]()
    texts = {name: base64.b64encode(plan).decode() for name, plan in plans.items()}
    Path(__file__).with_name(f"{producer}.json").write_text(json.dumps(texts, indent=0) + "\n", "utf-8")
