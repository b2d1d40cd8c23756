"""What the benchmarks share: programs that are measured from outside, interleaved measuring, statistics and the table.

Every figure is compared with something measured in the same run, in turns with it, because machines differ and drift.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import itertools
import os
import platform
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
PROGRAMS = Path(__file__).resolve().parent / "programs"
TRAIN = REPO / "tests" / "programs" / "train.py"
BIN = Path(sys.executable).parent
TRAINDBG = str(BIN / "traindbg")
PY_SPY = shutil.which("py-spy", path=f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}") or "py-spy"
BUSY_LOAD = 2.0

# -- statistics --


@dataclass(frozen=True)
class Sample:
    """Some measurements of one thing."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __str__(self) -> str:
        return f"{_digits(self.median)} ({_digits(min(self.values))}-{_digits(max(self.values))})"


def _digits(value: float) -> str:
    return f"{value:.3f}" if value < 2 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def interval(values: Sequence[float], share: float = 0.95, draws: int = 2000) -> tuple[float, float]:
    """A bootstrap interval of the median of `values`, which were measured independently of each other."""
    dice = random.Random(0)
    medians = sorted(statistics.median(dice.choices(values, k=len(values))) for _ in range(draws))
    cut = int(draws * (1 - share) / 2)
    return medians[cut], medians[-1 - cut]


def wilson(n: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """The score interval of a share (E. B. Wilson, 1927), which holds near 0 and 1 too."""
    share, weight = n / of, z * z / of
    middle = (share + weight / 2) / (1 + weight)
    half = z * (share * (1 - share) / of + weight / of / 4) ** 0.5 / (1 + weight)
    return max(0.0, middle - half), min(1.0, middle + half)


def ratio_text(values: Sequence[float]) -> str:
    """The median of paired ratios with its interval."""
    low, high = interval(values)
    return f"{statistics.median(values):.4f} ({low:.4f}-{high:.4f})"


# -- the table --


@dataclass(frozen=True)
class Row:
    """One line: what was measured, ours, the other way, ours against it, and the goal if there is one."""

    what: str
    ours: str
    other: str = ""
    ratio: str = ""
    goal: str = ""
    met: bool | None = None

    def cells(self) -> tuple[str, ...]:
        verdict = {None: "", True: " met", False: " MISSED"}[self.met]
        return self.what, self.ours, self.other, self.ratio, self.goal + verdict


def share_row(what: str, n: int, of: int, goal: float | None = None) -> Row:
    """So many of so many, as a share with its interval, and whether it reaches a goal."""
    share, (low, high) = n / of, wilson(n, of)
    met = None if goal is None else share >= goal
    return Row(
        what, f"{n}/{of}", f"{share:.1%}", f"{low:.0%}-{high:.0%}", "" if goal is None else f">= {goal:.0%}", met
    )  # fmt: skip


def print_table(title: str, head: Sequence[str], rows: Iterable[Row], notes: Sequence[str] = ()) -> None:
    """Print `rows` as a Markdown table, so that it can be kept in README.md as it is."""
    lines = [tuple(head), *(r.cells() for r in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    lines.insert(1, tuple("-" * w for w in widths))
    print(f"\n{title}\n{machine()}\n")
    for line in lines:
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |")
    for note in notes:
        print(f"\n{note}")
    sys.stdout.flush()


def machine() -> str:
    """When and where: date, CPU, load, versions."""
    load = os.getloadavg()
    busy = ", a busy machine" if load[0] > BUSY_LOAD else ""
    versions = [f"Python {platform.python_version()}"]
    for package in ("torch", "jupyter-traindbg", "py-spy"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions.append(f"{package} {importlib.metadata.version(package)}")
    return (
        f"{time.strftime('%Y-%m-%d %H:%M')}, {_cpu()} x {os.cpu_count()}, load {load[0]:.1f} {load[1]:.1f}{busy}; "
        f"{', '.join(versions)}"
    )


def _cpu() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def arguments(doc: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(doc or "").strip().splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few measurements only: does it run at all?")
    return parser


# -- measuring --


def timed_ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


def in_turns(ways: dict[str, Callable[[], float]], n: int) -> dict[str, Sample]:
    """Measure each way `n` times, one after the other in turns, every other round backwards."""
    seen: dict[str, list[float]] = {name: [] for name in ways}
    for i in range(n):
        names = list(ways) if i % 2 == 0 else list(reversed(ways))
        for name in names:
            seen[name].append(ways[name]())
    return {name: Sample(tuple(values)) for name, values in seen.items()}


def call_ms(
    *words: str, env: dict[str, str] | None = None, ok: Sequence[int] = (0, 1), deadline_s: float = 30.0
) -> float:
    """Milliseconds of a whole command, from its start to its end. Raises where it fails: a failure is not a fast answer."""
    began = time.perf_counter()
    done = subprocess.run(
        words,
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=deadline_s,
        env={**os.environ, **(env or {})},
    )
    took = (time.perf_counter() - began) * 1e3
    if done.returncode not in ok:
        raise SystemExit(f"{' '.join(words)} failed: {done.stderr.decode(errors='replace').strip()}")
    return took


def python_ms(code: str, *args: str, deadline_s: float = 60.0) -> float:
    """What `code` prints last, a number, run in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", code, *args],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=deadline_s,
    )
    if done.returncode != 0:
        raise SystemExit(f"a measurement in a fresh interpreter failed: {done.stderr.strip()}")
    return float(done.stdout.split()[-1])


# -- programs --


@contextlib.contextmanager
def program(
    path: Path, *args: str, python: str = sys.executable, env: dict[str, str] | None = None, ready_s: float = 60.0
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in a session of its own until it prints ``ready``; at the end it and its children are gone."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [python, "-u", str(path), *args],
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
            start_new_session=True,
        )
        try:
            _await_ready(process, log.fileno(), ready_s)
            yield process
        finally:
            _tell_if_ended(process, log.fileno())
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def _tell_if_ended(process: subprocess.Popen[bytes], log: int) -> None:
    """A measured program that has ended by itself is a finding, never a fast answer."""
    if process.poll() is not None:
        last_words = os.pread(log, 4096, max(0, os.fstat(log).st_size - 4096)).decode(errors="replace")
        print(f"the measured program ended with {process.returncode}:\n{last_words}", file=sys.stderr)


def _await_ready(process: subprocess.Popen[bytes], log: int, ready_s: float) -> None:
    ends = time.monotonic() + ready_s
    while b"ready\n" not in (seen := os.pread(log, 1 << 16, 0)):
        if process.poll() is not None or time.monotonic() > ends:
            raise SystemExit(f"the program did not get ready:\n{seen.decode(errors='replace')}")
        time.sleep(0.01)


class Stamps:
    """Reads, from outside and without disturbing it, when each step of a running programs/steady.py ended.

    The program writes `time.perf_counter` values into a mapped file; on Linux that clock is one for all processes.
    """

    def __init__(self, path: Path) -> None:
        import mmap

        with path.open("rb") as f:
            self._map = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        self._counts, self._times = memoryview(self._map).cast("q"), memoryview(self._map).cast("d")

    @property
    def size(self) -> int:
        """The work in a step: give it to another process to have it do the same."""
        return self._counts[1]

    def durations_s(self, began: float, ended: float) -> list[float]:
        """Durations of the steps that lie wholly between two `time.perf_counter` values."""
        last = self._counts[0] + 1  # two figures lie before the times
        times: list[float] = []
        while last >= 2 and (at := self._times[last]) >= began:
            if at <= ended:
                times.append(at)
            last -= 1
        times.reverse()
        return [b - a for a, b in itertools.pairwise(times)]


@contextlib.contextmanager
def steady(
    kind: str, step_ms: float, *, size: int = 0, python: str = sys.executable, env: dict[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], Stamps]]:
    """programs/steady.py, running, with its stamps. With `size` it does that much work a step, else what takes `step_ms`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stamps"
        args = ["--kind", kind, "--step-ms", str(step_ms), "--size", str(size), "--stamps", str(path)]
        with program(PROGRAMS / "steady.py", *args, "--parent", str(os.getpid()), python=python, env=env) as process:
            yield process, Stamps(path)
