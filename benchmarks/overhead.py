"""What being attached costs a training, per step, in four states of one and the same process measured in turns.

A window without the agent lies before and after each window with it; a ratio is a window against the mean of its two neighbours, so
drift of the machine cancels. States: attached and idle; polled twice a second as a live view does (new steps, memory); polled and
stacks too; while a diagnosis looks; detached again (against the window before the attach). Medians of the steps say what a step
costs; means also see the few steps in which a question was answered.

--before CHECKOUT: in turns with them, idle windows of another checkout of this project (a git worktree of an earlier commit, say).
"""

from __future__ import annotations

import functools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from common import Row, Stamps, arguments, print_table, ratio_text, steady

import traindbg

POLL_S = 0.5
BEFORE = "attached by the other checkout, idle"
DETACHED, IDLE, POLLED, POLLED_STACKS, DIAGNOSED = (
    "detached again",
    "attached, idle",
    "polled at 2 Hz",
    "polled at 2 Hz, stacks too",
    "while it is diagnosed",
)
ATTACH_AND_WAIT = """
import sys, traindbg
if not traindbg.__file__.startswith(sys.argv[2]):
    sys.exit(f"{traindbg.__file__} is not in {sys.argv[2]}")
with traindbg.attach(int(sys.argv[1])) as job:
    if not job.ranks[0].agent:
        sys.exit(f"could not attach: {job.ranks[0].note}")
    print("attached", flush=True)
    sys.stdin.read()
"""
Visit = Callable[[subprocess.Popen[bytes], Stamps, float], "Window"]
SETTLE_S = 0.1
"""Left out after each attach and detach."""
HEAD = ("state", "ours, ms a step", "without us, ms a step", "ratio of medians (95 %), of means (95 %)", "goal")


@dataclass(frozen=True)
class Scene:
    """A kind of training, how it is measured, and its goals: (idle, polled), None where it has none."""

    name: str
    kind: str
    step_ms: float
    window_s: float
    rounds: int
    goals: tuple[float, float] | None


SCENES = (
    Scene("5 ms steps", "torch", 5, 1.0, 20, (1.005, 1.01)),
    Scene("50 ms steps", "torch", 50, 2.0, 12, (1.005, 1.01)),
    Scene("pure Python, 5 ms steps", "python", 5, 1.0, 16, (1.005, 1.005)),  # 1.00, rounded
    Scene("bare steps", "bare", 0, 0.5, 12, None),
)


@dataclass
class Window:
    """Median and mean of the steps in one stretch of time."""

    median_ms: float
    mean_ms: float


@dataclass
class Pairs:
    """Windows in one state, each with the mean of the windows beside it."""

    ours: list[Window] = field(default_factory=list)
    without: list[Window] = field(default_factory=list)

    def add(self, before: Window, ours: Window, after: Window | None = None) -> None:
        beside = [before, after or before]
        self.ours.append(ours)
        self.without.append(Window(_mean(w.median_ms for w in beside), _mean(w.mean_ms for w in beside)))

    def ratios(self) -> tuple[list[float], list[float]]:
        pairs = list(zip(self.ours, self.without, strict=True))
        return [a.median_ms / b.median_ms for a, b in pairs], [a.mean_ms / b.mean_ms for a, b in pairs]


def _mean(values: object) -> float:
    return statistics.fmean(values)  # type: ignore[arg-type]


def measure(scene: Scene, before_us: Path | None) -> dict[str, Pairs]:
    """All states of `scene`, in turns within one process that trains without a pause. `before_us`: the other checkout."""
    states: list[tuple[str, Visit]] = [
        (IDLE, functools.partial(_attached_window, _wait)),
        (POLLED, functools.partial(_attached_window, _poll)),
        (POLLED_STACKS, functools.partial(_attached_window, _poll_all)),
        (DIAGNOSED, functools.partial(_attached_window, _diagnose)),
    ]
    if before_us is not None:
        states.insert(0, (BEFORE, functools.partial(_others_window, before_us)))
    pairs = {state: Pairs() for state in (*(state for state, _ in states), DETACHED)}
    with steady(scene.kind, scene.step_ms) as (process, stamps):
        before = _window(stamps, lambda: time.sleep(scene.window_s))
        for i in range(scene.rounds):
            for state, visit in states if i % 2 == 0 else reversed(states):
                ours = visit(process, stamps, scene.window_s)
                time.sleep(SETTLE_S)
                after = _window(stamps, lambda: time.sleep(scene.window_s))
                pairs[state].add(before, ours, after)
                pairs[DETACHED].add(before, after)
                before = after
    return pairs


def _attached_window(
    spend: Callable[[traindbg.Job, float], None], process: subprocess.Popen[bytes], stamps: Stamps, window_s: float
) -> Window:
    with traindbg.attach(process.pid) as job:
        if not job.ranks[0].agent:
            raise SystemExit(f"could not attach: {job.ranks[0].note}")
        time.sleep(SETTLE_S)
        return _window(stamps, lambda: spend(job, window_s))


def _others_window(checkout: Path, process: subprocess.Popen[bytes], stamps: Stamps, window_s: float) -> Window:
    """Another checkout attaches in a process of its own, and leaves when its standard input ends."""
    env = {**os.environ, "PYTHONPATH": str(checkout)}
    command = [sys.executable, "-c", ATTACH_AND_WAIT, str(process.pid), str(checkout)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=checkout) as other:
        assert other.stdin is not None
        if other.stdout is None or other.stdout.readline().strip() != b"attached":
            raise SystemExit(f"{checkout} could not attach")
        time.sleep(SETTLE_S)
        window = _window(stamps, lambda: time.sleep(window_s))
        other.stdin.close()
        other.wait(10)
    return window


def _window(stamps: Stamps, spend: Callable[[], None]) -> Window:
    began = time.perf_counter()
    spend()
    steps_ms = [s * 1e3 for s in stamps.durations_s(began, time.perf_counter())]
    if len(steps_ms) < 3:
        raise SystemExit("the program made no steps")
    return Window(statistics.median(steps_ms), statistics.fmean(steps_ms))


def _wait(job: traindbg.Job, window_s: float) -> None:
    time.sleep(window_s)


def _poll(job: traindbg.Job, window_s: float, *, stacks: bool = False) -> None:
    """What a live view does: the new steps and the memory, every `POLL_S`."""
    ends, last = time.monotonic() + window_s, 0
    due = time.monotonic() + POLL_S / 2
    while due < ends:
        time.sleep(max(0.0, due - time.monotonic()))
        records = job.steps(since=last).ranks[0].steps
        last = records[-1].step if records else last
        job.memory()
        if stacks:
            job.stacks()
        due += POLL_S
    time.sleep(max(0.0, ends - time.monotonic()))


def _poll_all(job: traindbg.Job, window_s: float) -> None:
    _poll(job, window_s, stacks=True)


def _diagnose(job: traindbg.Job, window_s: float) -> None:
    """However long it takes: all that it does is in the window."""
    job.diagnose()


def rows(scene: Scene, pairs: dict[str, Pairs]) -> list[Row]:
    out = []
    for state, seen in pairs.items():
        by_median, by_mean = seen.ratios()
        ours = statistics.median(w.median_ms for w in seen.ours)
        without = statistics.median(w.median_ms for w in seen.without)
        goal = None if scene.goals is None else {IDLE: scene.goals[0], POLLED: scene.goals[1]}.get(state)
        more = statistics.median(
            (a.median_ms - b.median_ms) * 1e3 for a, b in zip(seen.ours, seen.without, strict=True)
        )
        ratio = f"{ratio_text(by_median)}, {ratio_text(by_mean)}"
        out.append(
            Row(
                f"{scene.name}: {state}",
                f"{ours:.3f}",
                f"{without:.3f}",
                f"{more:+.1f} us a step" if scene.kind == "bare" else ratio,
                "" if goal is None else f"<= {goal}",
                None if goal is None else statistics.median(by_median) <= goal,
            )
        )
    return out


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=[s.name for s in SCENES], help="one scene only")
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="compare with another checkout of this project")
    args = parser.parse_args()
    before = None if args.before is None else args.before.resolve()
    scenes = [s for s in SCENES if args.only in (None, s.name)]
    if args.quick:
        scenes = [Scene("5 ms steps, quick", "torch", 5, 0.6, 1, (1.005, 1.01))]
    table = [row for scene in scenes for row in rows(scene, measure(scene, before))]
    ns = ", ".join(f"{s.name} {s.rounds} x {s.window_s:g} s" for s in scenes)
    print_table("Overhead per step", HEAD, table, [f"n (windows in each state, paired): {ns}."])
    return 0


if __name__ == "__main__":
    sys.exit(main())
