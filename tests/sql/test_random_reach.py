"""What random statements are made of: every construct now and then, hardly one twice, and each dialect's own words."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from support import random_expressions
from support.random_parameters import bound
from support.random_spelling import DIALECTS
from support.random_sql import Drawn, draw

CONSTRUCTS = """
    LEFT JOIN|RIGHT JOIN|FULL JOIN|CROSS JOIN|SEMI JOIN|ANTI JOIN|JOIN LATERAL|VALUES|FROM d|, a r|WITH w AS|
    FROM w z|w y ON|RECURSIVE|CREATE OR REPLACE VIEW|QUALIFY|OVER (PARTITION BY|rank()|GROUP BY|HAVING|bool_or|
    CASE WHEN|UNION ALL|UNION SELECT|INTERSECT|EXCEPT|EXISTS|NOT EXISTS|IN (SELECT|NOT IN (SELECT|(SELECT count(*)|
    (SELECT max(|LIMIT|ORDER BY|OFFSET 1|DISTINCT|AI_FILTER(|PROMPT(|AI_SCORE(|AI_CLASSIFY(|AI_SENTIMENT(|
    AI_COUNT_TOKENS(|upper(|{1}|{2}|coalesce(|IS DISTINCT FROM|NULL|UPDATE z SET|DELETE FROM z|INSERT INTO z|
    CREATE OR REPLACE TABLE z
"""

RARE = """
    ROLLUP|CUBE|GROUPING SETS|DISTINCT ON|PIVOT|UNPIVOT|INTERSECT ALL|BY NAME|LIMIT 1)|
    = ANY (|unnest(|ROWS BETWEEN|GROUPS 1|lag(|first_value(|dense_rank(|string_agg(|histogram(|USING (id)|NATURAL|
    ASOF|POSITIONAL|output_mode|MERGE INTO|UPDATE z SET t = s.v FROM|DELETE FROM z USING|FROM e |.s.t|.l[1]|.day|
    ::DOUBLE|COLLATE|BETWEEN FALSE|greatest(
"""

WIDE = """
    EXISTS (SELECT 1 FROM (SELECT|CREATE OR REPLACE VIEW w|, x AS (SELECT|lambda each: |row_number()|LIMIT 0|) UNION (|
    ) EXCEPT (|CASE AI_CLASSIFY(|> NULL)|BETWEEN|, NULL)|it''s "so"|FROM f |INSERT INTO z (t, id)|UPDATE z SET id|
    z.t) IN (SELECT|MERGE INTO z|WITH w AS|ORDER BY (SELECT count(*)|GROUP BY CASE|IS DISTINCT FROM 'a'|/ 10.0|ELSE NOT
"""

OWN_WORDS = {
    "snowflake": (":labels[0]::VARCHAR", "COUNT_IF(", "BOOLOR_AGG(", "IFF(", "NVL(", "$$", '."ID"', "FROM A "),
    "bigquery": (
        "AI.IF((", "AI.IF(prompt => (", "AI.IF(PROMPT(", "AI.SCORE(", "AI.CLASSIFY(", "AI.COUNT_TOKENS(", "COUNTIF(",
        "LOGICAL_OR(", "IF(", "IFNULL(", "CONCAT(", "INT64", "FROM `a`", "`.id", ".`id`", "EXCEPT DISTINCT",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def found() -> list[Drawn]:
    chance = random.Random(5)
    forms = ["query"] * 8 + ["change", "view"]
    return [draw(chance.randbytes(220), chance.choice(forms)) for _ in range(3000)]


def test_rare_forms_are_there_where_they_are_wanted(
    found: list[Drawn], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = ["; ".join(statements.spelled("duckdb")) for statements in found]
    monkeypatch.setattr(random_expressions, "RARE", True)
    chance = random.Random(5)
    forms = ["query"] * 8 + ["change", "view"]
    drawn = [draw(chance.randbytes(220), chance.choice(forms)).spelled("duckdb") for _ in range(3000)]
    for construct in map(str.strip, RARE.split("|")):
        assert any(construct in text for texts in drawn for text in texts), construct
    assert not any("ROLLUP" in text for text in usual)


def test_wider_forms_are_drawn_in_all_dialects() -> None:
    chance = random.Random(5)
    drawn = [draw(chance.randbytes(220), "wide") for _ in range(1000)]
    texts = ["; ".join(statements.spelled("duckdb")) for statements in drawn]
    for construct in map(str.strip, WIDE.split("|")):
        assert any(construct in text for text in texts), construct
    assert sum(text.count("AI_") > 1 for text in texts) > 0.7 * len(texts)
    assert sum(statements.dialects == DIALECTS for statements in drawn) > len(drawn) / 2


def test_compared_literals_become_parameters() -> None:
    sql = "SELECT 1 FROM b WHERE (t = 'it''s') AND AI_SCORE('p = ''x'' ?', t) > 0.5 AND id <> 2"
    text = "SELECT 1 FROM b WHERE (t = ?) AND AI_SCORE('p = ''x'' ?', t) > ? AND id <> ?"
    assert bound(sql) == (text, ("it's", 0.5, 2))


def test_every_construct_is_there(found: list[Drawn]) -> None:
    texts = ["; ".join(statements.spelled("duckdb")) for statements in found]
    wanted = [construct.strip() for construct in CONSTRUCTS.split("|")]
    often = Counter({construct: sum(construct in text for text in texts) for construct in wanted})
    assert min(often.values()) >= 5, often.most_common()[-8:]
    assert len(set(texts)) > 0.97 * len(texts)
    assert sum("AI_" in text for text in texts) > 0.9 * len(texts)


@pytest.mark.parametrize("dialect", ["snowflake", "bigquery"])
def test_dialects_use_their_own_words(found: list[Drawn], dialect: str) -> None:
    texts = ["; ".join(statements.spelled(dialect)) for statements in found if dialect in statements.dialects]
    assert len(texts) > len(found) / 2
    for word in OWN_WORDS[dialect]:
        assert sum(word in text for text in texts) >= 5, word


def test_no_mark_is_left_and_the_end_of_the_tape_is_simple(found: list[Drawn]) -> None:
    for statements in found[:300]:
        for dialect in DIALECTS:
            assert not re.search(r"[\x00-\x1f]", "".join(statements.spelled(dialect)))
    assert draw(b"", "query").spelled("duckdb") == (
        "SELECT r1.id AS c0 FROM b r1 WHERE AI_FILTER('p?', r1.t)",
    )
