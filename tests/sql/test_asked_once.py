"""However often a statement asks a question about the same values, and wherever, a prompt is sent once; the rows are
those of plain DuckDB.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import adbc_driver_flightsql.dbapi as dbapi
import pytest
from covey_server.estimating import Prices
from support.hash_model import HashEngine
from support.hash_server import Host, Run, client, oracle
from support.random_tables import TABLES
from support.slt import Record

STATEMENTS = {
    "pair: ON and SELECT": "SELECT a.id, b.id, {a.t,b.t} FROM a JOIN b ON {a.t,b.t} OR a.n = b.n",
    "pair: two joins of one table": "SELECT a.id, b.id, c.id FROM a JOIN b ON {a.t,b.t} JOIN b c ON {a.t,c.t}",
    "pair: self-join of two aliases": "SELECT x.id, y.id, z.id FROM a x JOIN a y ON {x.t,y.t} JOIN a z ON {x.t,z.t}",
    "pair: self-join, chained": "SELECT x.id, y.id, z.id FROM a x JOIN a y ON {x.t,y.t} JOIN a z ON {y.t,z.t}",
    "pair: self-join, negated": "SELECT x.id, y.id, z.id FROM a x JOIN a y ON {x.t,y.t} JOIN a z ON NOT {x.t,z.t}",
    "pair: values swapped": "SELECT x.id, y.id FROM a x JOIN a y ON {x.t,y.t} AND {y.t,x.t}",
    "pair: another column with the same texts": "SELECT a.id FROM a, b, c WHERE {a.t,b.t} AND {a.t,c.t}",
    "pair: HAVING": "SELECT a.n, count(*) FROM a JOIN b ON {a.t,b.t} OR b.n > 1 GROUP BY a.n, a.t, b.t "
    "HAVING {a.t,b.t} OR count(*) > 1",
    "pair: ORDER BY": "SELECT a.id, b.id FROM a, b WHERE {a.t,b.t} OR a.id = 1 ORDER BY {a.t,b.t}, a.id, b.id",
    "pair: two branches of a union": "SELECT a.id FROM a, b WHERE {a.t,b.t} UNION ALL "
    "SELECT b.id FROM b, a WHERE {a.t,b.t} AND a.n > 0",
    "pair: a subquery": "SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE {a.t,b.t} AND b.n > 1) "
    "OR (SELECT count(*) FROM b WHERE {a.t,b.t}) > 2",
    "pair: a subquery and a join": "SELECT a.id, b.id FROM a JOIN b ON {a.t,b.t} "
    "WHERE EXISTS (SELECT 1 FROM b o WHERE {a.t,o.t} AND o.n = 1)",
    "pair: outer joins": "SELECT a.id, b.id, c.id FROM a LEFT JOIN b ON {a.t,b.t} LEFT JOIN b c ON {a.t,c.t}",
    "pair: full joins": "SELECT x.id, y.id FROM (SELECT a.id FROM a FULL JOIN b ON {a.t,b.t}) x, "
    "(SELECT b.id FROM a FULL JOIN b ON {a.t,b.t}) y",
    "pair: trees": "SELECT a.id, b.id, {a.t,b.t}, {a.u,b.t} FROM a, b WHERE {a.t,b.t} OR {a.u,b.t}",
    "pair: a CTE read twice": "WITH w AS (SELECT a.id AS i, b.id AS j FROM a JOIN b ON {a.t,b.t}) "
    "SELECT x.i, y.j FROM w x JOIN w y ON x.j = y.i",
    "pair: three values": "SELECT a.id FROM a JOIN b ON {a.t,b.t,a.u} JOIN b c ON {a.t,c.t,a.u}",
    "pair: computed": "SELECT a.id, c.id FROM a JOIN b ON {upper(a.t),b.t} JOIN b c ON {upper(a.t),c.t}",
    "text: everywhere": "SELECT id, {t} FROM a WHERE {t} OR n = 1 ORDER BY {t}, id",
    "text: two aliases": "SELECT x.id, y.id FROM a x JOIN a y ON x.n = y.n WHERE {x.t} AND {y.t}",
    "text: two columns": "SELECT id FROM a WHERE {t} OR {u}",
    "text: two tables": "SELECT id FROM a WHERE {t} UNION ALL SELECT id FROM b WHERE {t}",
    "text: trees in two branches": "SELECT id FROM a WHERE {t} OR {t,u} UNION ALL SELECT id FROM a WHERE {t,u} OR {t}",
    "text: a tree, then values": "SELECT id, {t}, {u} FROM a WHERE {t} OR {u}",
    "text: CASE": "SELECT CASE WHEN {t} THEN 1 WHEN {u} THEN 2 WHEN NOT {t} THEN 3 END FROM a",
    "text: aggregates": "SELECT n, count(*) FILTER (WHERE {t}), bool_or({t}) FROM a GROUP BY n HAVING bool_or({t})",
    "text: a window and QUALIFY": "SELECT id, count(*) OVER (PARTITION BY {t}) FROM a "
    "QUALIFY count(*) OVER (PARTITION BY {t}) > 1",
    "text: a column that USING merges": "SELECT x.id, b.id FROM a x SEMI JOIN c USING (id) "
    "JOIN b ON b.n = id WHERE {x.t}",
    "text: a column that NATURAL merges": "SELECT id, b.t FROM a NATURAL ANTI JOIN d JOIN b ON b.n = a.n "
    "WHERE id > 1 AND {b.t} ORDER BY id",
    "text: an ON that reads before a comma": "SELECT x.id, z.id FROM b x, b y RIGHT JOIN b z ON x.id = z.id "
    "WHERE {z.t}",
    "label: WHERE and SELECT": "SELECT id, <t> FROM a WHERE <t> = 'a' OR <t> = 'b'",
    "label: two aliases": "SELECT x.id, <x.t>, <y.t> FROM a x JOIN a y ON x.n = y.n WHERE <x.t> <> <y.t>",
    "label: pair": "SELECT x.id, y.id, z.id FROM a x JOIN a y ON <x.t,y.t> = 'a' JOIN a z ON <x.t,z.t> = 'a'",
}


def written(sql: str) -> str:
    """A statement with `{…}` as a question about values and `<…>` as a label of them."""
    out, rest = "", sql
    while (at := min((place for place in map(rest.find, "{<") if place >= 0), default=-1)) >= 0:
        if rest[at] == "<" and rest[at + 1] in "> =":
            out, rest = out + rest[: at + 2], rest[at + 2 :]
            continue
        end = rest.index("}" if rest[at] == "{" else ">", at)
        values = rest[at + 1 : end].split(",")
        holes = " ".join(f"{{{n}}}" for n in range(len(values)))
        prompt = f"PROMPT('{holes} so?', {', '.join(values)})"
        call = f"AI_FILTER({prompt})" if rest[at] == "{" else f"AI_CLASSIFY({prompt}, ['a', 'b', 'c'])"
        out, rest = out + rest[:at] + call, rest[end + 1 :]
    return out + rest


@dataclass
class Sides:
    """The oracle, and servers: as written, optimized, and with the anchors that are cheapest."""

    oracle: Run
    runs: dict[str, tuple[Run, HashEngine]]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    host, plain = Host(), oracle()
    with ExitStack() as stack:
        stack.callback(host.close)
        runs: dict[str, tuple[Run, HashEngine]] = {}
        for way, optimizer, prices in (
            ("written", "off", None),
            ("optimized", "on", None),
            ("cheapest", "on", Prices()),
        ):
            engine = HashEngine()
            uri = stack.enter_context(host.serve(tmp_path_factory.mktemp("tokens"), engine, prices))
            run = client(stack.enter_context(dbapi.connect(uri, autocommit=True)))
            for text in (f"SET ai_optimizer = '{optimizer}'", *TABLES.strip().rstrip(";").split(";\n")):
                assert run(Record(0, "ok", text)).error is None
            runs[way] = run, engine
        for text in TABLES.strip().rstrip(";").split(";\n"):
            assert plain(Record(0, "ok", text)).error is None
        yield Sides(plain, runs)


@pytest.mark.parametrize("way", ["written", "optimized", "cheapest"])
@pytest.mark.parametrize("name", STATEMENTS)
def test_every_prompt_is_sent_once(sides: Sides, name: str, way: str) -> None:
    sql, (run, engine) = written(STATEMENTS[name]), sides.runs[way]
    engine.sent.clear()
    found = run(Record(0, "query", sql))
    expected = sides.oracle(Record(0, "query", sql))
    assert found.rows is not None, found.error
    assert expected.rows is not None, expected.error
    assert Counter(found.rows) == Counter(expected.rows)
    assert engine.sent
    often = Counter((sent.asked, sent.labels) for sent in engine.sent)
    again = {asked: times for asked, times in often.items() if times > 1}
    assert not again, sql
