"""What pure code, and the agent at each step, costs as its input grows: CPU at n and at 4n, their ratio (linear: 4), and what was promised.

Where a row stands for many inputs (hostile texts, patterns), it shows the one that takes longest.
--only WORD: the rows whose name has it.
"""

from __future__ import annotations

import atexit
import functools
import gc
import itertools
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import REPO, Row, Sample, arguments, print_table

sys.path.insert(0, str(REPO / "tests"))

import hostile
import many_ranks
from checkpointing import keys, renamed
from log_evidence import full_of_literals

from jupyter_traindbg import agent, checkpoints
from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.harmless import harmless
from jupyter_traindbg.agent.randomness import Randomness
from jupyter_traindbg.agent.safepoint import NEXT_BATCH
from jupyter_traindbg.diagnose import collectives, environment, running
from jupyter_traindbg.diagnose import config as config_rules
from jupyter_traindbg.diagnose.hang import case, pace, unequal
from jupyter_traindbg.diagnose.log import judge
from jupyter_traindbg.diagnose.log.family import Refute, Signal
from jupyter_traindbg.diagnose.log.knowledge import families
from jupyter_traindbg.diagnose.log.matching import matches
from jupyter_traindbg.errors import BadConfig
from jupyter_traindbg.model import Machine, MachineGpu
from jupyter_traindbg.outside import procfs
from jupyter_traindbg.outside.logs.clocks import Clock
from jupyter_traindbg.outside.logs.lines import clean, pieces
from jupyter_traindbg.preflight.config import dialects, files, planning, sources
from jupyter_traindbg.preflight.config.entries import Entry
from jupyter_traindbg.questions.jobless.log import diagnose_log
from jupyter_traindbg.redact import Redactor, redact

HEAD = ("what, at 4n", "CPU at n, s", "CPU at 4n, s", "ratio", "goal at 4n")
TIMES, QUICK_TIMES, QUICKER = 5, 1, 10
LEAST_S = 0.02
"""Shorter work is done several times in a row: the clock of CPU time is coarse."""
Work = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """Work that grows with a size. `works` makes it, by name: one, or many whose slowest counts."""

    what: str
    """With ``{}`` for the size."""
    n: int
    works: Callable[[int], Mapping[str, Work]]
    bound_s: float | None = None
    """At 4n, on a quiet machine."""


def of(make: Callable[[int], Work]) -> Callable[[int], Mapping[str, Work]]:
    return lambda n: {"": make(n)}


# --- logs ----------------------------------------------------------------------------------------------------------


def _read_line(n: int) -> dict[str, Work]:
    def read(line: str) -> None:
        clean(line)
        pieces(line)
        Clock(2026).read(line)

    return {repr(line[:10]): functools.partial(read, line) for line in hostile.lines(n)}


def _signals() -> list[tuple[str, Signal | Refute]]:
    return [(f"{f.code}.{s.id}", s) for f in families().values() for s in (*f.signals, *f.refutes) if s.pattern]


def _search(n: int) -> dict[str, Work]:
    runs = {unit: hostile.run_of(unit, n) for unit in hostile.UNITS}
    return {
        f"{name} on {unit!r}": functools.partial(signal.pattern.search, run)
        for name, signal in _signals()
        for unit, run in runs.items()
        if signal.pattern is not None
    }


def _match(n: int) -> dict[str, Work]:
    return {
        f"{name}, text {i}": functools.partial(matches, signal, text)
        for name, signal in _signals()
        for i, text in enumerate(hostile.around(signal, n))
    }


def _diagnose_runs(n: int) -> dict[str, Work]:
    logs = {unit: "\n".join(["loss: 1 CUDA capability " + hostile.run_of(unit, n)] * 10) for unit in hostile.UNITS}
    return {repr(unit): functools.partial(diagnose_log, log) for unit, log in logs.items()}


def _judge(n: int) -> Work:
    return functools.partial(judge, full_of_literals(n))


# --- many ranks ----------------------------------------------------------------------------------------------------


def _collectives(n: int) -> Work:
    ranks = many_ranks.collectives(n, odd=n // 2)
    return lambda: collectives.findings(ranks, world_size=n)


def _arrivals(n: int) -> Work:
    return functools.partial(pace.arrivals, many_ranks.issued(n, odd=n // 2))


def _environment(n: int) -> Work:
    environ = many_ranks.environ(n, odd=n // 2)
    return lambda: environment.findings(environ, backend="nccl", versions={"torch": "2.13.0+cpu"})


def _hang(n: int) -> Work:
    return functools.partial(running.diagnose, many_ranks.hang(n, odd=n // 2))


def _unequal(n: int) -> Work:
    evidence = many_ranks.unequal(n, odd=n // 2)
    return lambda: unequal.rule(case.build(evidence))


# --- secrets, configurations, processes ----------------------------------------------------------------------------


def _redact_lines(n: int) -> Work:
    redactor = Redactor()
    redactor.learn_from([f"token=tok-{i:05d}-x{i * 7919:08x}" for i in range(200)])
    line = "[rank0]: step {} loss=0.234 lr: 1e-4 tokens/s=12345.6 max_tokens=4096 mem 12.3GiB\n"
    text = "".join(line.format(i) for i in range(n))
    numbers = itertools.count()
    return lambda: redactor.text(f"{text}{next(numbers)}")  # it remembers texts


def _redact_hostile(n: int) -> dict[str, Work]:
    return {name: functools.partial(redact, text) for name, text in hostile.secrets(n).items()}


def _config(n: int) -> Work:
    """Every key of every dialect, `n` times, with values that make no sense."""
    chance = random.Random(n)
    values: list[Any] = [-1, 0, 7, 10**17, 0.5, float("nan"), True, None, "auto", "x" * 500, [1, 2], {}, "8"]
    keys = [key for dialect in dialects.every() for key in dialect.keys] * n
    gib = 2**30
    gpu = MachineGpu("NVIDIA H100 80GB HBM3", 80 * gib, 3 * gib)
    machine = Machine("node0", 8, 64 * gib, 32 * gib, (gpu,) * 8, 1, gib, gib, {"out": gib})
    read = sources.Sources(programs=[])
    read.entries = [Entry(key, chance.choice(values), "f.yaml", i) for i, key in enumerate(keys)]
    return lambda: config_rules.findings(planning.plan_of(read, machine))


def _anchors(n: int) -> Work:
    """`n` levels, each three times the one before."""
    levels = ["a0: &a0 {x: 1}"]
    levels += [f"a{i}: &a{i} " + "{{p: *{0}, q: *{0}, r: *{0}}}".format(f"a{i - 1}") for i in range(1, n)]
    path = Path(tempfile.mkdtemp()) / "bomb.yaml"
    path.write_text("\n".join(levels))

    def read() -> None:
        with suppress(BadConfig):
            files.read(path)

    return read


def _compare(n: int) -> Work:
    """One side has a prefix before every name, the other fewer layers and another vocabulary."""
    ours = renamed(keys(layers=n // 7), lambda name: f"module.{name}")
    theirs = keys(layers=n // 8, vocabulary=65)
    return lambda: checkpoints.compare(ours, theirs)


def _processes(n: int) -> Work:
    return functools.partial(procfs.uninterruptible, [os.getpid()] * n)


# --- what the agent does at a step, and on its way in ---------------------------------------------------------------


@functools.cache
def _agent() -> Agent:
    """In this process, until it ends."""
    started = agent.start(version="benchmark", keep=True)
    atexit.register(started.stop)
    return started


def _boundaries(n: int) -> Work:
    """Two a step, and the look whether an iterator is new."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    keeper, model = _agent().boundary, torch.nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(TensorDataset(torch.rand(24, 4)), batch_size=4, shuffle=True)
    for (x,) in loader:
        model(x).square().mean().backward()
        optimizer.step()
    iterator = iter(loader)

    def steps() -> None:
        for _ in range(n // 2):
            keeper._fetching(iterator)
            keeper._after_step(optimizer)
            keeper._at_boundary(NEXT_BATCH)

    return steps


def _generators(n: int) -> Work:
    import numpy as np
    import torch

    del np, torch  # they are read where they have been imported
    reader = Randomness()
    reader.open()
    read = reader.read
    return lambda: [read(on_cuda=False) for _ in range(n)]


def _generators_drawn(n: int) -> Work:
    import numpy as np
    import torch

    reader = Randomness()
    reader.open()
    read = reader.read

    def draw_and_read() -> None:
        for _ in range(n):
            random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn(), torch.rand(1)
            read(on_cuda=False)

    return draw_and_read


def _harmless(n: int) -> Work:
    def schedule(step: int) -> float:
        return 0.5 * (1 + math.cos(math.pi * step / 100))

    return lambda: [harmless(schedule) for _ in range(n)]


@functools.cache
def _data() -> list[list[int]]:
    return [[] for _ in range(1_000_000)]


def _find(n: int) -> Work:
    """Each as for the first time: a walk over all that the garbage collector tracks."""
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters())
    objects = _agent().objects
    _data()

    def find() -> None:
        for _ in range(n):
            objects.clear()
            found = objects.find()
            if optimizer not in found.optimizers() or model not in found.models():
                raise SystemExit("the training was not found")

    return find


CASES = (
    Case("redact {} lines, 200 secrets being known", 1_250, of(_redact_lines), 3.0),
    Case("redact {} characters of hostile text", 25_000, _redact_hostile, 3.0),
    Case("a line of {} hostile characters of a log, read", 1_000, _read_line, 0.05),
    Case("ten lines of {} hostile characters, diagnosed", 1_000, _diagnose_runs, 5.0),
    Case("{} hostile characters, searched for a pattern", 1_000, _search, 1.5),
    Case("{} hostile characters round a literal of a signal", 950, _match, 0.5),
    Case("{} lines with a literal each, judged", 5_000, of(_judge), 8.0),
    Case("collectives of {} ranks, judged", 2_500, of(_collectives), 10.0),
    Case("arrivals of {} ranks at 20 calls", 2_500, of(_arrivals), 5.0),
    Case("loops that {} ranks stand in, judged", 2_500, of(_unequal)),
    Case("a hang of {} ranks, judged by all rules", 2_500, of(_hang), 20.0),
    Case("environments of {} ranks, judged", 2_500, of(_environment), 2.0),
    Case("a configuration with every key {} times, judged", 1, of(_config), 2.0),
    Case("a YAML file of {} levels of anchors, refused", 25, of(_anchors), 10.0),
    Case("{} processes, looked through for uninterruptible sleep", 250, of(_processes), 2.0),
    Case("checkpoints of {} keys, compared", 875, of(_compare), 10.0),
    Case("{} boundaries of steps, written down", 2_500, of(_boundaries), 0.2),
    Case("{} readings of generators that nobody draws from", 2_500, of(_generators), 0.2),
    Case("{} readings of generators, all drawn from in between", 250, of(_generators_drawn), 0.5),
    Case("{} functions of a schedule, read before they are run", 25, of(_harmless), 0.2),
    Case("{} searches for the training among a million other objects", 2, of(_find), 12.0),
)  # fmt: skip


# --- measuring -----------------------------------------------------------------------------------------------------


def cpu_s(work: Work, times: int = 1) -> float:
    """Of one of `times` in a row."""
    gc.collect()
    began = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - began) / times


def slowest(works: Mapping[str, Work]) -> str:
    """The name of the one that takes longest; of those that do, the one that does so twice."""
    if len(works) == 1:
        return next(iter(works))
    gc.collect()
    once = {name: _once(work) for name, work in works.items()}
    ahead = sorted(once, key=lambda name: once[name])[-10:]
    return max(ahead, key=lambda name: min(_once(works[name]) for _ in range(3)))


def _once(work: Work) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measured(one: Case, quick: bool) -> Row:
    n = max(1, one.n // QUICKER) if quick else one.n
    large = one.works(4 * n)
    name = slowest(large)
    ways = {n: one.works(n)[name], 4 * n: large[name]}
    seen: dict[int, list[float]] = {size: [] for size in ways}
    repeats = {size: max(1, math.ceil(LEAST_S / max(1e-7, cpu_s(work)))) for size, work in ways.items()}
    for _ in range(QUICK_TIMES if quick else TIMES):
        for size, work in ways.items():
            seen[size].append(cpu_s(work, repeats[size]))
    small_s, large_s = (Sample(tuple(values)).median for values in seen.values())
    what = one.what.format(f"{4 * n:,}") + (f" (worst: {name})" if name else "")
    goal, met = ("", None) if one.bound_s is None or quick else (f"<= {one.bound_s:g} s", large_s <= one.bound_s)
    return Row(what, _seconds(small_s), _seconds(large_s), f"{large_s / max(1e-9, small_s):.1f}", goal, met)


def _seconds(s: float) -> str:
    return f"{s:.2g}" if s < 0.1 else f"{s:.2f}"


def rows(chosen: Sequence[Case], *, quick: bool) -> list[Row]:
    return [measured(one, quick) for one in chosen]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", metavar="WORD", default="", help="rows whose name has it")
    args = parser.parse_args()
    chosen = [one for one in CASES if args.only in one.what]
    note = f"Medians of {QUICK_TIMES if args.quick else TIMES}, n and 4n in turns, in CPU time of this process."
    print_table("What pure code costs as its input grows", HEAD, rows(chosen, quick=args.quick), [note])


if __name__ == "__main__":
    main()
