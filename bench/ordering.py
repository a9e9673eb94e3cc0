"""How long the search for an order takes, and how far from the best it stays: stars, chains, cliques of 8 relations.

python bench/ordering.py [--repeats 3]
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from covey_planner.ordering.search import order
from support.orders import chain, cheapest, clique, problem, seconds, star


def main() -> None:
    """Print a line for each shape."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    for name, edges, relations, filters in (
        ("star", star(8), 8, 8),
        ("chain", chain(8), 8, 8),
        ("clique", clique(8), 8, 0),
        ("clique with filters", clique(8), 8, 8),
        ("star of 12", star(12), 12, 12),
    ):
        times, complete = [], 0
        for seed in range(repeats):
            posed = problem(Random(seed), edges, relations, filters)
            begin = time.process_time()
            complete += order(posed, seconds).complete
            times.append(1e3 * (time.process_time() - begin))
        print(
            f"{name:20} {len(posed.predicates):3} conditions: {max(times):6.0f} ms at most, "
            f"{sorted(times)[len(times) // 2]:6.0f} in the middle, {complete} of {repeats} complete"
        )
    worst = 1.0
    for seed in range(20 * repeats):
        random = Random(seed)
        relations = random.randint(2, 5)
        edges = random.choice([star, chain, clique])(relations)
        posed = problem(random, edges, relations, random.randint(0, max(0, 9 - len(edges))))
        worst = max(worst, seconds(order(posed, seconds).work) / cheapest(posed))
    print(f"{20 * repeats} random problems of up to 5 relations: at most {worst:.4f} times the best")


if __name__ == "__main__":
    main()
