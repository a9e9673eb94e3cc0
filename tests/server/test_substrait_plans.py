"""Substrait plans through the ADBC client: written, run, prepared, described, in parts, in transactions; refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import adbc_driver_flightsql.dbapi as dbapi
import adbc_driver_manager
import pytest
from support.hash_server import Host
from support.plans import call, column, number, plan_bytes, plan_of, table
from support.sql import rows, run

ANIMALS = table("animals", name="string", legs="i64", says="string")


def execute(connection: dbapi.Connection, plan: bytes, parameters: Any = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(plan, parameters)
        return cursor.fetchall()


def refusal(connection: dbapi.Connection, plan: bytes) -> str:
    with pytest.raises(dbapi.ProgrammingError) as caught:
        execute(connection, plan)
    assert caught.value.status_code == adbc_driver_manager.AdbcStatusCode.INVALID_ARGUMENT
    return str(caught.value)


def test_a_plan_is_one_row_of_bytes_and_runs(connection: dbapi.Connection) -> None:
    sql = "SELECT name, legs + 1 AS more FROM animals WHERE legs > 2 ORDER BY name DESC LIMIT 1"
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT substrait) {sql}")
        assert [(found[0], str(found[1])) for found in cursor.description] == [("plan", "binary")]
        ((plan,),) = cursor.fetchall()
    with connection.cursor() as cursor:
        cursor.execute(plan)
        assert [column[0] for column in cursor.description] == ["name", "more"]
        assert cursor.fetchall() == [("cat", 5)]


def test_a_plan_as_json(connection: dbapi.Connection) -> None:
    ((text,),) = rows(connection, "explain ( format SUBSTRAIT_JSON ) SELECT legs FROM animals")
    plan = json.loads(text)
    assert plan["version"]["producer"].startswith("covey ")
    assert plan["relations"][0]["root"]["names"] == ["legs"]


def test_plans_can_be_compared(connection: dbapi.Connection) -> None:
    plan = plan_of(connection, "SELECT a.name FROM animals a WHERE (a.legs>2)")
    assert plan == plan_of(connection, "select name\nfrom animals where legs > 2 -- the same")
    assert plan != plan_of(connection, "SELECT name FROM animals WHERE legs > 3")


def test_a_prepared_plan_takes_parameters(connection: dbapi.Connection) -> None:
    plan = plan_of(connection, "SELECT name FROM animals WHERE legs > ? AND says <> ? ORDER BY name")
    with connection.cursor() as cursor:
        schema = cursor.adbc_prepare(plan)
        assert [str(kind) for kind in schema.types] == ["int64", "string"]
        cursor.execute(plan, (3, "purr"))
        assert cursor.fetchall() == [("bee",)]
        cursor.execute(plan, (1, ""))
        assert cursor.fetchall() == [("bee",), ("cat",), ("owl",)]


def test_a_plan_is_described_without_running(connection: dbapi.Connection) -> None:
    plan = plan_of(connection, "SELECT name, count(*) AS n FROM animals GROUP BY name")
    with connection.cursor() as cursor:
        schema = cursor.adbc_execute_schema(plan)
    assert [(field.name, str(field.type)) for field in schema] == [("name", "string"), ("n", "int64")]


def test_a_plan_in_partitions(connection: dbapi.Connection) -> None:
    plan = plan_of(connection, "SELECT name FROM animals WHERE legs = 6")
    with connection.cursor() as cursor:
        partitions, schema = cursor.adbc_execute_partitions(plan)
        assert schema is not None
        assert schema.names == ["name"]
        found = []
        for partition in partitions:
            cursor.adbc_read_partition(partition)
            found += cursor.fetchall()
    assert found == [("bee",)]


def test_a_plan_sees_its_transaction(connect: Callable[..., dbapi.Connection]) -> None:
    connection = connect(autocommit=False)
    run(connection, "CREATE TABLE drafts (id INTEGER)")
    run(connection, "INSERT INTO drafts VALUES (7)")
    plan = plan_of(connection, "SELECT id FROM drafts")
    assert execute(connection, plan) == [(7,)]
    connection.rollback()
    assert "drafts" in refusal(connection, plan)


def test_what_ran_is_in_the_table_of_queries(connection: dbapi.Connection) -> None:
    execute(connection, plan_of(connection, "SELECT says AS plan_says FROM animals"))
    found = rows(
        connection, "SELECT sql FROM covey_queries WHERE sql LIKE '%plan_says%' AND sql LIKE 'SELECT \"%'"
    )
    assert ('SELECT "animals"."says" AS "plan_says" FROM "animals"',) in found


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (b"no plan at all", "the bytes are no Substrait plan"),
        (b"", "has 0 roots, not one"),
        (plan_bytes(ANIMALS, ["name", "legs"]), "2 names for 3 columns"),
        (
            plan_bytes({"filter": {"input": ANIMALS, "condition": column(7)}}, ["a", "b", "c"]),
            "field 7 of a relation",
        ),
        (plan_bytes(table("unknown", x="i64"), ["x"]), "unknown"),
        (plan_bytes(table("animals", x="i64"), ["x"]), 'column x of "animals", which has no such column'),
        (
            plan_bytes(table("animals", legs="string"), ["x"]),
            'column legs of "animals" for VARCHAR, but it is BIGINT',
        ),
        (
            plan_bytes(
                {"filter": {"input": ANIMALS, "condition": call("nothing", column(0))}}, ["a", "b", "c"]
            ),
            "the function nothing of extension:io.substrait:functions_comparison is not known",
        ),
        (
            plan_bytes(
                {"filter": {"input": ANIMALS, "condition": call("equal", column(0))}}, ["a", "b", "c"]
            ),
            "the function equal is given 1 arguments, which is too few",
        ),
        (
            plan_bytes({"filter": {"input": ANIMALS, "condition": column(0, 1)}}, ["a", "b", "c"]),
            "1 steps out, of 0",
        ),
        (plan_bytes({"reference": {"subtreeOrdinal": 0}}, ["a"]), "relation 0, which is not there or holds"),
        (plan_bytes({"extensionLeaf": {}}, ["a"]), "a relation of kind extension_leaf is not supported"),
        (
            plan_bytes({"read": {"localFiles": {"items": [{"uriFile": "/etc/passwd"}]}}}, ["a"]),
            "reading from a local_files is not supported",
        ),
        (
            plan_bytes({"set": {"inputs": [ANIMALS, ANIMALS]}}, ["a"]),
            "kind set_op_unspecified is not supported",
        ),
        (
            plan_bytes({"join": {"left": ANIMALS, "right": ANIMALS, "type": "JOIN_TYPE_LEFT_SINGLE"}}, ["a"]),
            "a join of type join_type_left_single is not supported",
        ),
        (plan_bytes(ANIMALS, ["a", "b", "c"], extensions=[])[:-9], "the bytes are no Substrait plan"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "plan",
)
def test_a_wrong_plan_is_refused(plan: bytes, message: str, connection: dbapi.Connection) -> None:
    assert message in refusal(connection, plan)


@pytest.mark.parametrize("name", ["pg_settings", "main.sqlite_temp_master"])
def test_a_plan_reads_only_what_sql_may_read(name: str, connection: dbapi.Connection) -> None:
    with pytest.raises(dbapi.Error, match="not available to SQL users"):
        execute(connection, plan_bytes(table(name, name="string"), ["x"]))


@pytest.mark.parametrize(
    "sql", ["INSERT INTO animals VALUES ('ant', 6, '')", "SET ai_optimizer = 'off'", "BEGIN"]
)
def test_only_queries_have_plans(sql: str, connection: dbapi.Connection) -> None:
    with pytest.raises(dbapi.ProgrammingError, match="only queries can be written as Substrait plans"):
        plan_of(connection, sql)
    assert rows(connection, "SELECT count(*) FROM animals") == [(3,)]


@pytest.mark.parametrize(
    ("sql", "construct"),
    [
        ("SELECT row_number() OVER (ORDER BY legs) FROM animals", r"ROW_NUMBER\(\) OVER \(ORDER BY legs\)"),
        ("SELECT DISTINCT ON (legs) name FROM animals", "DISTINCT ON"),
        ("SELECT * FROM range(3)", r"RANGE\(3\) in FROM"),
        ("SELECT a.name FROM animals a POSITIONAL JOIN animals b", "POSITIONAL JOIN"),
        ("SELECT name FROM animals USING SAMPLE 1", "SAMPLE"),
        ("SELECT {'a': legs} FROM animals", "{'a': legs}"),
        ("SELECT legs::UTINYINT FROM animals", "UTINYINT"),
        ("SELECT name FROM animals LIMIT 50%", "LIMIT of a share of the rows"),
        ("WITH RECURSIVE r AS (SELECT 1 AS x) SELECT x FROM r", "WITH RECURSIVE"),
    ],
)
def test_what_has_no_place_in_a_plan_is_named(sql: str, construct: str, connection: dbapi.Connection) -> None:
    with pytest.raises(dbapi.ProgrammingError, match=f"{construct}.*Substrait plan"):
        plan_of(connection, sql)


def test_a_wrong_statement_is_refused_before_its_plan(connection: dbapi.Connection) -> None:
    with pytest.raises(dbapi.ProgrammingError, match="lgs"):
        plan_of(connection, "SELECT lgs FROM animals")


def test_a_server_without_a_model_refuses_the_plan_of_a_question(connection: dbapi.Connection) -> None:
    with pytest.raises(dbapi.ProgrammingError, match="without a model"):
        plan_of(connection, "SELECT name FROM animals WHERE AI_FILTER('Is it big?', name)")


@pytest.fixture(scope="module")
def asking(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dbapi.Connection]:
    with host.connect(tmp_path_factory.mktemp("asking"), "duckdb", "on") as connection:
        run(connection, "CREATE TABLE notes (id INTEGER, body VARCHAR)")
        run(
            connection,
            "INSERT INTO notes VALUES (1, 'late'), (2, 'broken'), (3, NULL), (4, 'lost'), (5, 'late')",
        )
        yield connection


CALLS = [
    "AI_FILTER('Is it urgent?', body)",
    "AI_FILTER(PROMPT('Is {0} worse than {1}? {{}}', body, id))",
    "AI_FILTER(PROMPT('Is {0} urgent?', body), {'selectivity': 0.25})",
    "AI_SCORE('Is it urgent?', body)",
    "AI_CLASSIFY(body, ['good', 'bad'])",
    "AI_CLASSIFY(body, [{'label': 'good', 'description': 'all is well'}, {'label': 'bad'}])",
    "AI_CLASSIFY(body, ['good', 'bad'], {'output_mode': 'multi'})",
    "AI_CLASSIFY(body, ['good', 'bad'], {'task_description': 'So?', 'examples': [{'input': 'x', 'labels': ['bad']}]})",
    "AI_CLASSIFY(PROMPT('{0} it''s', body), ['good', 'bad'])",
    "AI_SENTIMENT(body)",
    "AI_COUNT_TOKENS(body)",
    "AI.IF(('Is ', body, ' {urgent}?'))",
    "AI.IF(prompt => PROMPT('Is {0} urgent?', body), selectivity => 0.5)",
]


@pytest.mark.parametrize("text", CALLS)
def test_every_ai_call_goes_through_a_plan(text: str, asking: dbapi.Connection) -> None:
    sql = f"SELECT id, {text} AS answer FROM notes ORDER BY id"
    assert execute(asking, plan_of(asking, sql)) == rows(asking, sql)


def test_a_pinned_anchor_is_a_value_s_number(asking: dbapi.Connection) -> None:
    sql = (
        "SELECT a.id, b.id FROM notes a JOIN notes b "
        "ON AI_FILTER(PROMPT('Are {0} and {1} alike?', a.body, b.body), {'anchor': 'b'}) ORDER BY a.id, b.id"
    )
    ((text,),) = rows(asking, f"EXPLAIN (FORMAT substrait_json) {sql}")
    assert '"key": {"string": "anchor"}, "value": {"string": "1"}' in text
    assert execute(asking, plan_of(asking, sql)) == rows(asking, sql)


def test_a_wrong_prompt_in_a_plan_is_named_without_a_place(asking: dbapi.Connection) -> None:
    plan = plan_of(asking, "SELECT id FROM notes WHERE AI_FILTER(PROMPT('Is {0} urgent?', body))")
    assert len(plan) == len(plan.replace(b"{0}", b"{7}"))
    message = refusal(asking, plan.replace(b"{0}", b"{7}"))
    assert "{7}" in message
    assert "line" not in message


@pytest.mark.parametrize("dialect", ["snowflake", "bigquery"])
def test_plans_of_other_dialects(dialect: str, asking: dbapi.Connection) -> None:
    sql = "SELECT id, AI_SCORE(PROMPT('Is {0} urgent?', body)) AS s FROM notes WHERE id < 3 ORDER BY id"
    expected = rows(asking, sql)
    run(asking, f"SET ai_dialect = '{dialect}'")
    try:
        assert execute(asking, plan_of(asking, sql)) == expected
        plain = plan_of(asking, "SELECT IFNULL(body, '?') AS b FROM notes ORDER BY id")
        assert execute(asking, plain)[2] == ("?",)
    finally:
        run(asking, "RESET ai_dialect")


def test_a_plan_by_hand_asks_as_sql_does(asking: dbapi.Connection) -> None:
    extension = [{"extensionUrnAnchor": 1, "urn": "extension:covey:functions_ai"}]
    function = {"extensionUrnReference": 1, "functionAnchor": 1, "name": "ai_filter:str_any"}
    question = {"scalarFunction": {"functionReference": 1, "outputType": {"bool": {}}}}
    question["scalarFunction"]["arguments"] = [
        {"value": {"literal": {"string": "Is it urgent?"}}},
        {"value": column(1)},
    ]
    read = table("notes", id="i32", body="string")
    relation = {
        "project": {"common": {"emit": {"outputMapping": [0, 2]}}, "input": read, "expressions": [question]}
    }
    plan = plan_bytes(
        relation, ["id", "urgent"], extensionUrns=extension, extensions=[{"extensionFunction": function}]
    )
    sql = "SELECT id, AI_FILTER('Is it urgent?', body) FROM notes"
    assert sorted(execute(asking, plan), key=str) == sorted(rows(asking, sql), key=str)


def test_number_literals(asking: dbapi.Connection) -> None:
    read = table("notes", id="i32", body="string")
    condition = call("gt", column(0), number(4))
    plan = plan_bytes({"filter": {"input": read, "condition": condition}}, ["id", "body"])
    assert execute(asking, plan) == [(5, "late")]
