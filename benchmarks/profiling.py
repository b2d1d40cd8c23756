"""What profiling five steps costs a training: from outside, by `%profile`, and as people write it into their loop.

A window lasts as long as `%profile` does. What it lost is by how much its steps took longer than as many usual ones (the median of that
window): recording, starting, stopping, writing, and looks. The control is a window in which nothing is done.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from common import Row, Stamps, arguments, print_table, steady

import traindbg

ROUNDS = 12
STEPS = 5
KINDS = [
    ("torch", 5.0, "5 ms of a transformer layer"),
    ("torch", 50.0, "50 ms of one"),
    ("python", 5.0, "5 ms of pure Python"),
]
HEAD = ("a step of", "ours, ms lost", "by hand, ms lost", "ours / by hand", "a recorded step, of a usual one")


def lost_ms(stamps: Stamps, spend: Callable[[], None]) -> float:
    began = time.perf_counter()
    spend()
    time.sleep(0.3)  # what is written behind the last step
    took = stamps.durations_s(began, time.perf_counter())
    return (sum(took) - len(took) * statistics.median(took)) * 1e3


def measure(kind: str, step_ms: float, rounds: int) -> tuple[dict[str, list[float]], list[float], list[float]]:
    """Milliseconds lost by way; how many times longer recorded steps took; and seconds from the question to the answer."""
    lost: dict[str, list[float]] = defaultdict(list)
    overheads: list[float] = []
    took: list[float] = []
    with (
        steady(kind, step_ms) as (process, stamps),
        tempfile.TemporaryDirectory() as folder,
        traindbg.attach(process.pid) as job,
    ):
        trace = str(Path(folder) / "run.json.gz")

        def ours() -> None:
            seen = job.profile(steps=STEPS, trace=trace)
            took.append(seen.taken_s)
            overheads.append(seen.ranks[0].overhead or 0.0)

        def by_hand(signum: int) -> Callable[[], None]:
            def spend() -> None:
                os.kill(process.pid, signum)
                time.sleep(2.0)

            return spend

        ways = {
            "ours": ours,
            "guide": by_hand(signal.SIGUSR1),
            "lean": by_hand(signal.SIGUSR2),
            "nothing": lambda: time.sleep(2.0),
        }
        for spend in ways.values():  # once for what happens at first only
            lost_ms(stamps, spend)
        overheads.clear()
        for i in range(rounds):
            for name in ways if i % 2 == 0 else reversed(ways):
                lost[name].append(lost_ms(stamps, ways[name]))
    return lost, overheads, took


def main() -> int:
    args = arguments(__doc__).parse_args()
    rows = []
    for kind, step_ms, name in KINDS[:1] if args.quick else KINDS:
        lost, overheads, took = measure(kind, step_ms, 1 if args.quick else ROUNDS)
        mid = {way: statistics.median(values) for way, values in lost.items()}
        for way, called in (("guide", "with shapes, memory, stacks"), ("lean", "operators alone")):
            rows.append(
                Row(
                    f"{name}; by hand {called}",
                    f"{mid['ours']:.0f}",
                    f"{mid[way]:.0f}",
                    f"{mid['ours'] / mid[way]:.2f}" if mid[way] > 0 else "",
                    f"{statistics.median(overheads):.3f}",
                )
            )
        rows.append(
            Row(
                f"{name}; nothing done",
                f"{mid['nothing']:.0f}",
                "",
                "",
                f"answer after {statistics.median(took):.2f} s",
            )
        )
    notes = [
        f"{1 if args.quick else ROUNDS} windows each, in turns; medians. Ours looks at the training thread for 2 s, too."
    ]
    print_table("Profiling five steps", HEAD, rows, notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
