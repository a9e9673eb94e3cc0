"""Logs of runs go in, one table of all engines and the control come out, as Markdown.

    python bench/peers/summary.py LOG…

Reads the RESULT lines of `peer.py` and `end_to_end.py --name` and the LIMIT lines of `limits.py`, wherever they stand
in the logs. Seconds are the median of the runs after the first; of a workload that ran once, that run's, in brackets.
The datasheet limit is computed for the prompts asked: 7.27 GFLOP a token in the linear layers at 1,979 TFLOP/s, 0.59
MFLOP a query-key pair at 989 TFLOP/s, all that prompts begin with alike computed once.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from queries import BEFORE

LINEAR = 2 * 36 * (2560 * 128 * (2 * 32 + 2 * 8) + 3 * 2560 * 9728) / 1979e12
"""Seconds a token of Qwen3-4B's linear layers."""

PAIR = 4 * 36 * 32 * 128 / 989e12
"""Seconds a query-key pair."""

WITHIN = 0.05
"""How far a peer may be from its seconds of before, in part of them."""

ORDER = ("filter", "three_filters", "filter_chain", "join_terms", "join_claims", "join_aspects", "traces")
ASKED_AS = {"three_filters": "filter_chain"}
"""Peers take several questions in WHERE alone."""

Key = tuple[str, str, str]
"""Workload, engine, whose prompts."""


@dataclass
class Runs:
    """The runs of one workload on one engine."""

    lines: list[dict[str, Any]] = field(default_factory=list)

    @property
    def counted(self) -> list[dict[str, Any]]:
        """Those after the first, if there are any."""
        return [line for line in self.lines if line["repeat"]] or self.lines

    @property
    def seconds(self) -> float:
        """Their median."""
        return statistics.median(line["seconds"] for line in self.counted)

    @property
    def last(self) -> dict[str, Any]:
        """The last of them, for the counts."""
        return self.counted[-1]

    @property
    def shown(self) -> str:
        """The median with the number of runs and their range."""
        if not any(line["repeat"] for line in self.lines):
            return f"({self.seconds:.2f})"
        every = [line["seconds"] for line in self.counted]
        return f"{self.seconds:.2f} ({len(every)}: {min(every):.2f}–{max(every):.2f})"


def read(logs: Sequence[Path]) -> tuple[dict[Key, Runs], dict[tuple[str, str], dict[str, Any]]]:
    """All runs, and the limits by workload and whose prompts."""
    runs: defaultdict[Key, Runs] = defaultdict(Runs)
    limits: dict[tuple[str, str], dict[str, Any]] = {}
    for log in logs:
        for text in log.read_text("utf-8", errors="replace").splitlines():
            kind, _, rest = text.partition(" ")
            if kind not in ("RESULT", "LIMIT"):
                continue
            try:
                line = json.loads(rest)
            except json.JSONDecodeError:
                continue  # cut off when the time was up
            if kind == "RESULT":
                runs[line["workload"], line["engine"], line["prompts_of"]].lines.append(line)
            else:
                limits[line["workload"], line["prompts_of"]] = line
    return dict(runs), limits


def least(limit: Mapping[str, Any], prompts: int, key: str) -> float:
    """A quantity of a workload, where so many prompts were asked: all documents', the first question's, and of the
    others in the mean as often as they were asked."""
    questions = limit["questions"]
    total = limit["documents"][key] + (questions[0][key] if questions else 0)
    if len(questions) > 1:
        others = statistics.mean(question[key] for question in questions[1:])
        total += others * max(prompts - limit["rows"], 0) / limit["rows"]
    return float(total)


def seconds_at_the_limit(limit: Mapping[str, Any], prompts: int) -> float:
    return least(limit, prompts, "fresh_tokens") * LINEAR + least(limit, prompts, "pairs") * PAIR


def row(key: Key, runs: Mapping[Key, Runs], limits: Mapping[tuple[str, str], dict[str, Any]]) -> list[str]:
    """One line of the table."""
    workload, engine, prompts_of = key
    mine, last = runs[key], runs[key].last
    limit, prompts, fresh = limits.get((workload, prompts_of)), last.get("prompts") or 0, last["fresh_tokens"]
    tokens, bound = "–", "–"
    if limit is not None:
        said = last.get("prompt_tokens")
        tokens = f"{int(said if said is not None else least(limit, prompts, 'prompt_tokens')):,}"
        at_best = seconds_at_the_limit(limit, prompts)
        bound = f"{at_best:.2f} s, {at_best / mine.seconds:.0%}"
    per_token = f"{mine.seconds / fresh * 1e6:.2f}" if fresh else "–"
    cells = [workload, engine, prompts_of, mine.shown, f"{prompts:,}", tokens, f"{fresh:,}" if fresh else "–"]
    return [*cells, per_token, bound, *ratios(key, runs)]


def ratios(key: Key, runs: Mapping[Key, Runs]) -> list[str]:
    """How many times Covey's seconds these are: with its own prompts, and with the same; for Covey itself Quail's."""
    workload, engine, prompts_of = key
    seconds = runs[key].seconds
    if engine.startswith("covey"):
        quail = runs.get((ASKED_AS.get(workload, workload), "quail", "peer"))
        return [f"Quail {quail.seconds / seconds:.2f} ×" if quail else "–", ""]
    found = []
    for whose in ("own", prompts_of):
        ours = [
            r.seconds
            for (w, e, p), r in runs.items()
            if (w, p) == (workload, whose) and e.startswith("covey")
        ]
        found.append(f"{seconds / min(ours):.2f} ×" if ours else "–")
    return found


def control(runs: Mapping[Key, Runs]) -> Iterable[str]:
    """How far each peer is from its seconds of before."""
    for engine, known in BEFORE.items():
        for workload, seconds in known.items():
            found = runs.get((workload, engine, "peer"))
            if found is not None:
                off = found.seconds / seconds - 1
                verdict = "within 5 %" if abs(off) <= WITHIN else "NOT within 5 %"
                yield f"| {engine} | {workload} | {seconds:.2f} | {found.shown} | {off:+.1%} | {verdict} |"


def main() -> None:
    logs = [Path(name) for name in sys.argv[1:]]
    runs, limits = read(logs)
    heads = (
        "workload",
        "engine",
        "prompts of",
        "seconds (runs: range)",
        "prompts",
        "prompt tokens",
        "fresh tokens",
    )
    heads += (
        "us a fresh token",
        "datasheet limit, reached",
        "to Covey, own prompts",
        "to Covey, same prompts",
    )
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    for key in sorted(runs, key=lambda key: (ORDER.index(key[0]), key[2], key[1])):
        print("| " + " | ".join(row(key, runs, limits)) + " |")
    print("\n| control | workload | before | now | off | |\n|" + "---|" * 6)
    print(*control(runs), sep="\n")
    anchors = {f"{w} on {e}: {r.last['anchor']}" for (w, e, _), r in runs.items() if r.last.get("anchor")}
    print("\nAnchors of joins:", "; ".join(sorted(anchors)) or "none said")


if __name__ == "__main__":
    main()
