"""Beside `probing` 0.2.4: what it costs a training when it is idle and when it traces, and how long its `backtrace` takes.

probing is put into a throw-away environment by this script; it comes in by an environment variable at start, so unlike in overhead.py its
states are processes of their own, which train in turns: all but one are stopped. What differs from process to process by chance (5 % and
more) is averaged by starting all of them several times, and shown by the control: a second process with nothing in it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Iterator
from pathlib import Path

from common import PY_SPY, TRAINDBG, Row, Sample, Stamps, arguments, call_ms, in_turns, interval, print_table, steady

import traindbg

PROBING = "probing==0.2.4"
INSTALL_S = 180.0
STEP_MS = 5.0
LOST_STEPS = 5
"""Steps after waking up that are left out: their caches are cold."""
STEP_HEAD = ("5 ms torch steps", "ms a step", "nothing in it, ms a step", "ratio (95 %), over starts", "goal")
CALL_HEAD = ("stacks of a process that is entered", "ours, ms", "other, ms", "ours / other", "goal")

PLAIN, CONTROL, IDLE, TRACING, OURS = (
    "nothing",
    "control: nothing too",
    "probing, idle",
    "probing, tracing",
    "ours, attached",
)
ENVIRONMENT = {
    PLAIN: {},
    CONTROL: {},
    IDLE: {"PROBING": "1"},
    TRACING: {"PROBING": "1", "PROBING_TORCH_PROFILING": "on"},
    OURS: {},
}
Trainee = tuple[subprocess.Popen[bytes], Stamps]


class NoPeer(Exception):
    """probing cannot be had here."""


@contextlib.contextmanager
def peer_python() -> Iterator[Path]:
    """The interpreter of an environment with probing, and with the torch of ours."""
    with tempfile.TemporaryDirectory(prefix="traindbg-peers-") as folder:
        venv.create(folder, symlinks=True)
        site = Path(sysconfig.get_path("purelib", vars={"base": folder}))
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        try:
            subprocess.run(
                [*pip, "--target", str(site), PROBING],
                check=True,
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=INSTALL_S,
            )
        except subprocess.TimeoutExpired as e:
            raise NoPeer(f"pip took more than {INSTALL_S:g} s") from e
        except subprocess.CalledProcessError as e:
            raise NoPeer(
                ([line for line in e.stderr.splitlines() if line.startswith("ERROR")] or ["pip failed"])[-1]
            ) from e
        (site / "torch-of-ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
        yield Path(folder) / "bin" / "python"


def step_ratios(
    python: Path, starts: int, rounds: int, window_s: float
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Per state: of each start, the ratio of its steps to those of the plain process beside it; and its median step in ms."""
    ratios: dict[str, list[float]] = {state: [] for state in ENVIRONMENT}
    steps_ms: dict[str, list[float]] = {state: [] for state in ENVIRONMENT}
    with steady("torch", STEP_MS, python=str(python)) as (_, stamps):
        size = stamps.size
    for _ in range(starts):
        with trainees(python, size) as running:
            seen = windows(running, rounds, window_s)
        for state, medians in seen.items():
            ratios[state].append(statistics.median(m / p for m, p in zip(medians, seen[PLAIN], strict=True)))
            steps_ms[state] += medians
    return ratios, {state: statistics.median(medians) for state, medians in steps_ms.items()}


@contextlib.contextmanager
def trainees(python: Path, size: int) -> Iterator[dict[str, Trainee]]:
    """One training in each state, all doing the same work, stopped."""
    running: dict[str, Trainee] = {}
    with contextlib.ExitStack() as stack:
        for state, env in ENVIRONMENT.items():
            running[state] = process, _ = stack.enter_context(
                steady("torch", STEP_MS, size=size, python=str(python), env=env)
            )
            if state == OURS:
                stack.enter_context(traindbg.attach(process.pid))
            os.kill(process.pid, signal.SIGSTOP)
            stack.callback(os.kill, process.pid, signal.SIGCONT)  # to say goodbye to it
        yield running


def windows(running: dict[str, Trainee], rounds: int, window_s: float) -> dict[str, list[float]]:
    """Median step in ms of each trainee's windows; only one of them runs at a time."""
    seen: dict[str, list[float]] = {state: [] for state in running}
    for i in range(rounds):
        for state in list(running) if i % 2 == 0 else list(reversed(running)):
            process, stamps = running[state]
            began = time.perf_counter()
            os.kill(process.pid, signal.SIGCONT)
            time.sleep(window_s)
            os.kill(process.pid, signal.SIGSTOP)
            steps_s = stamps.durations_s(began, time.perf_counter())[LOST_STEPS:]
            if not steps_s:
                raise SystemExit(f"{state}: no steps")
            seen[state].append(statistics.median(steps_s) * 1e3)
    return seen


def calls(python: Path, n: int) -> dict[str, Sample]:
    """Stacks by whole calls, in turns, each of a process that its tool is in."""
    code = "import sys; sys.argv[0] = 'probing'; from probing.cli.__main__ import main; main()"
    with contextlib.ExitStack() as stack:
        theirs, _ = stack.enter_context(steady("torch", STEP_MS, python=str(python), env={"PROBING": "1"}))
        ours, _ = stack.enter_context(steady("torch", STEP_MS))
        stack.enter_context(traindbg.attach(ours.pid))
        ways = {
            "ours": lambda: call_ms(TRAINDBG, "stacks", str(ours.pid)),
            "probing": lambda: call_ms(str(python), "-c", code, "-t", str(theirs.pid), "backtrace", ok=(0,)),
            "py-spy": lambda: call_ms(PY_SPY, "dump", "--nonblocking", "--pid", str(ours.pid)),
        }
        in_turns(ways, 1)  # the first backtrace reads all symbols
        return in_turns(ways, n)


def step_rows(ratios: dict[str, list[float]], steps_ms: dict[str, float]) -> list[Row]:
    out = []
    for state, values in ratios.items():
        if state != PLAIN:
            ratio, (low, high) = statistics.median(values), interval(values)
            goal, met = ("<= 1.005", ratio <= 1.005) if state == OURS else ("", None)
            cells = f"{steps_ms[state]:.3f}", f"{steps_ms[PLAIN]:.3f}", f"{ratio:.4f} ({low:.4f}-{high:.4f})"
            out.append(Row(state, *cells, goal, met))
    return out


def call_rows(seen: dict[str, Sample]) -> list[Row]:
    ours, probing, py_spy = seen["ours"], seen["probing"], seen["py-spy"]
    return [
        Row(
            "`traindbg stacks PID`, `probing -t PID backtrace`",
            str(ours),
            str(probing),
            f"{ours.median / probing.median:.2f}",
        ),
        Row("`traindbg stacks PID`, `py-spy dump`", str(ours), str(py_spy), f"{ours.median / py_spy.median:.2f}"),
    ]


def main() -> int:
    args = arguments(__doc__).parse_args()
    starts, rounds, window_s, n = (1, 2, 0.3, 2) if args.quick else (4, 8, 1.0, 15)
    try:
        with peer_python() as python:
            print_table(
                f"Beside {PROBING}: steps",
                STEP_HEAD,
                step_rows(*step_ratios(python, starts, rounds, window_s)),
                [f"n = {starts} starts of each, {rounds} windows of {window_s:g} s a start, in turns."],
            )
            print_table(f"Beside {PROBING}: calls", CALL_HEAD, call_rows(calls(python, n)), [f"n = {n}, in turns."])
    except NoPeer as e:
        print(f"{PROBING} could not be installed here, so there is nothing to compare with: {e}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
