"""Write down of which pieces, each tokenized on its own, Quail's prompts consist, by Quail's own code.

    python bench/peers/record_prompts.py SITE > tests/operators/peer_prompts.json

SITE is the folder with the unpacked quail-engine 0.1.0; only its prompt module is imported. A tokenizer that takes
every piece of text for one token shows the pieces.
"""

from __future__ import annotations

import json
import sys
import types

from queries import QUERIES

ROWS = [
    ["the end", "a list:\n\n- one\n- two\n"],
    ["Was it good? 1,000 times {yes}", "x"],
    ["ends with a stop.", " begins with a space"],
]
ANCHORS = {"join_terms": 0, "join_claims": 1, "join_aspects": 0}
"""The argument that is the anchor; Quail's plan chooses it by cost."""


def templates(sql: str) -> list[str]:
    """The first argument of every PROMPT of a query."""
    return [part.split("'", 2)[1] for part in sql.split("PROMPT(")[1:]]


def record(site: str) -> dict[str, list[list[list[str]]]]:
    """By workload, for each question and row the pieces of the prompt."""
    package = types.ModuleType("quail")
    package.__path__ = [f"{site}/quail"]
    sys.modules["quail"] = package
    from quail.logical import prompts
    from quail.logical.nodes import ColumnRef

    def pieces(text: str) -> list[str]:
        return [text]

    def prompt(workload: str, template: str, row: list[str]) -> list[str]:
        columns = tuple(ColumnRef(alias, alias, "body") for alias in "ab")
        if workload not in ANCHORS:
            bound = prompts.bind_prompt(template, columns[:1], pieces)
            return list(prompts.render_filter_prompt_ids(bound, [row[0]], pieces))
        bound = prompts.bind_join_prompt(template, columns, pieces)
        texts = [[text] for text in row]
        return list(prompts.render_join_prompt_ids(bound, texts, ANCHORS[workload], pieces))

    return {
        name: [[prompt(name, template, row) for row in ROWS] for template in templates(sql)]
        for name, sql in QUERIES.items()
    }


if __name__ == "__main__":
    said = {"rows": ROWS, "prompts": record(sys.argv[1])}
    print(json.dumps(said, indent=1, ensure_ascii=False))
