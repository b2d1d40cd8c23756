"""Whether `traindbg memory` names who holds what grows, and the line, and says nothing of a training that does not leak.

Every program of tests/programs/leaks/ (one mistake each, nobody has prepared it) with several seeds, and sound ones: numbers that are
logged, caches with a bound, a warm-up, cycles that the collector frees, workers. Those of the folders ``*_apart`` were written without the
rules in view. The command is run cold, a dozen steps after the start. Right is: the first finding has the leak's code, names what holds it
and points at its line; of a sound program there is no warning (that something grows of which nobody can say yet whether it ends, may be
said). The pause is the longest of the training thread.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from common import REPO, Row, arguments, print_table
from confidence import Claim, add_option, claims_of, print_confidence

sys.path.insert(0, str(REPO / "tests"))

from leaks import APART, LEAKS, SOUND, SOUND_APART, Leak, ask, assert_right, leaking, sound, warnings

HEAD = ("training", "right", "first findings", "s; longest pause", "goal")
GOAL = 0.95
QUICK = ("losses", "hooks")


def right(answer: dict[str, Any], leak: Leak) -> bool:
    try:
        assert_right(answer, leak)
    except AssertionError:
        return False
    return True


def timed(pid: int) -> tuple[dict[str, Any], float]:
    began = time.monotonic()
    return ask(pid), time.monotonic() - began


def row(name: str, asked: Sequence[tuple[dict[str, Any], float]], good: Sequence[bool]) -> Row:
    first = sorted({next((f"{f['code']} ({f['severity']})" for f in answer["findings"]), "-") for answer, _ in asked})
    pauses = [pause for answer, _ in asked for pause in answer["ranks"][0]["look"].get("pauses_s", ())]
    seconds = statistics.median(took_s for _, took_s in asked)
    longest = f"; {max(pauses) * 1e3:.0f} ms" if pauses else ""
    return Row(name, f"{sum(good)} of {len(good)}", ", ".join(first), f"{seconds:.1f}{longest}")


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="how many seeds each (default 3)")
    add_option(parser)
    args = parser.parse_args()
    leaks = [leak for leak in (*LEAKS, *APART) if not args.quick or leak.name in QUICK]
    programs = SOUND[:1] if args.quick else (*SOUND, *SOUND_APART)
    seeds = 1 if args.quick else args.seeds
    table: list[Row] = []
    found: list[bool] = []
    quiet: list[bool] = []
    claims: list[Claim] = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for leak in leaks:
            asked = []
            for seed in range(seeds):
                with leaking(leak, folder, seed) as program:
                    asked.append(timed(program.pid))
            good = [right(answer, leak) for answer, _ in asked]
            table.append(row(leak.name, asked, good))
            found += good
            claims += chain.from_iterable(
                claims_of(leak.name, a["findings"], g) for (a, _), g in zip(asked, good, strict=True)
            )
        for name in programs:
            asked = []
            for _ in range(seeds):
                with sound(name, folder) as program:
                    asked.append(timed(program.pid))
            good = [not warnings(answer) for answer, _ in asked]
            table.append(row(f"sound: {name}", asked, good))
            quiet += good
            for answer, _ in asked:
                alarms = warnings(answer)
                claims += claims_of(name, alarms, False, [f["code"] for f in alarms])
    for what, good, goal in (("all leaks", found, GOAL), ("all sound ones", quiet, 1.0)):
        share = sum(good) / len(good)
        table.append(Row(what, f"{sum(good)} of {len(good)}", "", "", f">= {goal:.0%}", share >= goal))
    print_table("Trainings that leak", HEAD, table, [f"n: each with {seeds} seeds, cold."])
    print_confidence(claims, args.claims)
    return 0


if __name__ == "__main__":
    sys.exit(main())
