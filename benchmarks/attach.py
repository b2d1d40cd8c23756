"""How long it takes from nothing to the first stacks, and from then on, beside `py-spy dump` of the same process in the same run.

The target is tests/programs/train.py with and without DataLoader workers. Unprepared: a fresh process for each measurement of each way
in. Attached: the same questions again, in turns. Ours shows the workers too, `py-spy dump` the one process.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from common import (
    PY_SPY,
    TRAIN,
    TRAINDBG,
    Row,
    Sample,
    arguments,
    call_ms,
    in_turns,
    print_table,
    program,
    python_ms,
    timed_ms,
)

import traindbg
from jupyter_traindbg.attach import payload

HEAD = ("what", "ours, ms", "py-spy dump, ms", "ratio", "goal")
COLD_MS, STACKS_MS, CALL_MS, AGENT_MS, IMPORT_MS = 1500.0, 10.0, 150.0, 100.0, 300.0

# Each of these runs in a fresh interpreter, as in a notebook that has just started, and prints milliseconds.
IMPORT = "import time; t = time.perf_counter(); import traindbg; print((time.perf_counter() - t) * 1e3)"
ATTACH_AND_STACKS = """
import sys, time
began = time.perf_counter()
import traindbg
with traindbg.attach(int(sys.argv[1])) as job:
    assert job.ranks[0].agent, job.ranks[0].note
    job.stacks()
    print((time.perf_counter() - began) * 1e3)
"""
AGENT_START = """
import pathlib, sys, time
import torch
from torch.utils.data import DataLoader
boot = compile(pathlib.Path(sys.argv[1]).read_text(), "boot.py", "exec")
began = time.perf_counter()
exec(boot)
took = time.perf_counter() - began
agent.running().stop()
print(took * 1e3)
"""


def py_spy_ms(pid: int) -> float:
    """A `py-spy dump` that came through: without stopping the process it sometimes reads torn data and gives up."""
    for _ in range(10):
        try:
            return call_ms(PY_SPY, "dump", "--nonblocking", "--pid", str(pid), ok=(0,))
        except SystemExit as e:
            why = e
    raise why


def stacks_ms(pid: int) -> float:
    return call_ms(TRAINDBG, "stacks", str(pid))


def attach_and_stacks_ms(pid: int) -> float:
    return call_ms(TRAINDBG, "attach", str(pid), ok=(0,)) + stacks_ms(pid)


def python_attach_and_stacks_ms(pid: int) -> float:
    return python_ms(ATTACH_AND_STACKS, str(pid))


def agent_start_ms() -> float:
    """The boot code of an injection, run in a process that has torch loaded, until the agent listens."""
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder, "agent")
        own.mkdir(0o700)
        (own / payload.ARCHIVE).write_bytes(payload.archive())
        boot = Path(folder, "boot.py")
        boot.write_text(payload.boot(str(own)))
        return python_ms(AGENT_START, str(boot))


def unprepared(
    options: list[str], ways: Mapping[str, Callable[[int], float]], n: int
) -> tuple[dict[str, Sample], Sample]:
    """Each way `n` times on a process of its own, each after a `py-spy dump` of the same process."""
    dumps: list[float] = []

    def fresh(way: Callable[[int], float]) -> float:
        with program(TRAIN, *options) as process:
            dumps.append(py_spy_ms(process.pid))
            return way(process.pid)

    seen = in_turns({name: partial(fresh, way) for name, way in ways.items()}, n)
    return seen, Sample(tuple(dumps))


def attached(options: list[str], n: int) -> tuple[dict[str, Sample], Sample]:
    """Questions to one process with its agent inside, in turns with `py-spy dump`."""
    with program(TRAIN, *options) as process, traindbg.attach(process.pid) as job:
        job.stacks()._repr_mimebundle_()  # a notebook's second question is not to pay for the imports of the first
        ways: dict[str, Callable[[], float]] = {
            "job.stacks()": lambda: timed_ms(job.stacks),
            "%stacks: job.stacks() as text and HTML": lambda: timed_ms(lambda: job.stacks()._repr_mimebundle_()),
            "whole call `traindbg stacks PID`": lambda: stacks_ms(process.pid),
            "py-spy": lambda: py_spy_ms(process.pid),
        }
        seen = in_turns(ways, n)
    return seen, seen.pop("py-spy")


def row(what: str, ours: Sample, other: Sample | None, goal_ms: float | None) -> Row:
    return Row(
        what,
        str(ours),
        str(other or ""),
        "" if other is None else f"{ours.median / other.median:.2f}",
        "" if goal_ms is None else f"<= {goal_ms:g}",
        None if goal_ms is None else ours.median <= goal_ms,
    )


def scene(workers: int, n_cold: int, n: int) -> list[Row]:
    options = ["--sleep", "0.005", "--workers", str(workers)]
    cold_ways = {
        "`traindbg stacks PID`": stacks_ms,
        "`traindbg attach PID`, `traindbg stacks PID`": attach_and_stacks_ms,
        "import traindbg, attach(pid), job.stacks()": python_attach_and_stacks_ms,
    }
    where = f"{workers} workers"
    cold, dumps = unprepared(options, cold_ways, n_cold)
    out = [row(f"{where}, unprepared: {name}", seen, dumps, COLD_MS) for name, seen in cold.items()]
    warm, dumps = attached(options, n)
    goals = [STACKS_MS, STACKS_MS, CALL_MS]
    return out + [
        row(f"{where}, attached: {name}", seen, dumps, goal)
        for (name, seen), goal in zip(warm.items(), goals, strict=True)
    ]


def main() -> int:
    args = arguments(__doc__).parse_args()
    n_cold, n = (1, 2) if args.quick else (5, 15)
    table = [r for workers in ([0] if args.quick else [0, 2]) for r in scene(workers, n_cold, n)]
    table.append(
        row("agent start inside a process with torch", in_turns({"": agent_start_ms}, n_cold)[""], None, AGENT_MS)
    )
    table.append(row("import traindbg", in_turns({"": lambda: python_ms(IMPORT)}, n)[""], None, IMPORT_MS))
    notes = [f"n = {n_cold} fresh processes a way, {n} in turns on an attached one."]
    print_table("From nothing to the first stacks", HEAD, table, notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
