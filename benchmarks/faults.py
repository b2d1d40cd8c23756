"""Whether `traindbg diagnose` says what is wrong with a training that runs and is not sound, and nothing of one that is.

Every fault of tests/programs/faults/ (a nanoGPT-shaped program with one mistake that people make, alone or on two ranks) and every program
of tests/programs/sound/. The command is run cold, as soon as the trouble is there. Right is: the first finding has the fault's code, blames
exactly its ranks and points at its function; of a sound program there is no finding at all.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from common import REPO, Row, arguments, print_table
from confidence import Claim, add_option, claims_of, print_confidence

sys.path.insert(0, str(REPO / "tests"))

from faults import FAULTS, SOUND, Answer, Fault, ask, assert_right, faulty, of_fault, sound

HEAD = ("training", "right", "first findings", "seconds", "goal")
GOAL = 0.95
QUICK = "lr"


def right(answer: Answer, fault: Fault) -> bool:
    try:
        assert_right(answer, fault)
    except AssertionError:
        return False
    return True


def of_sound(name: str, folder: Path) -> Answer:
    """Of a program in which nothing is wrong; the one with faults has none with the name "none"."""
    started = faulty(name, folder, ready="iter 20:") if name == "none" else sound(name, folder)
    with started as program:
        return ask(str(program.pid))


def row(name: str, answers: Sequence[Answer], good: Sequence[bool]) -> Row:
    first = sorted({answer.codes[0] if answer.codes else "nothing" for answer in answers})
    seconds = statistics.median(answer.result["taken_s"] for answer in answers)
    return Row(name, f"{sum(good)} of {len(good)}", ", ".join(first), f"{seconds:.1f}", "", None)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--times", type=int, default=3, metavar="N", help="how often each is asked (default 3)")
    add_option(parser)
    args = parser.parse_args()
    faults = [f for f in FAULTS if not args.quick or f.name == QUICK]
    names = ("none",) if args.quick else ("none", *SOUND)
    times = 1 if args.quick else args.times
    table: list[Row] = []
    found: list[bool] = []
    quiet: list[bool] = []
    claims: list[Claim] = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for fault in faults:
            answers = [of_fault(fault, folder) for _ in range(times)]
            good = [right(answer, fault) for answer in answers]
            table.append(row(f"{fault.name} ({fault.ranks} rank{'s' * (fault.ranks > 1)})", answers, good))
            found += good
            claims += chain.from_iterable(
                claims_of(fault.name, a.findings, g) for a, g in zip(answers, good, strict=True)
            )
        for name in names:
            answers = [of_sound(name, folder) for _ in range(times)]
            good = [not answer.codes for answer in answers]
            table.append(row(f"sound: {name}", answers, good))
            quiet += good
            claims += chain.from_iterable(claims_of(name, a.findings, False, a.codes) for a in answers)
    for what, good, goal in (("all faults", found, GOAL), ("all sound ones", quiet, 1.0)):
        share = sum(good) / len(good)
        table.append(Row(what, f"{sum(good)} of {len(good)}", "", "", f">= {goal:.0%}", share >= goal))
    print_table("Trainings that run and are not sound", HEAD, table, [f"n: each {times} times, cold."])
    print_confidence(claims, args.claims)
    return 0


if __name__ == "__main__":
    sys.exit(main())
