"""What the rules of slowness judge: each rank's window, its looks told apart by the part of a step that they saw. Pure functions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import mean, median

from ...frames.waits import waiting_for
from ...frames.whose import user_frame
from ...model import Frame, NotAvailable, RankWindow, SourceLine, Step, StepPartName, TimedLook, Wait

__all__ = ["PARTS", "PYTHON_LATE_S", "Case", "Slice", "View", "by_frame", "covered", "usual", "whole_case"]

PARTS: tuple[StepPartName, ...] = ("data", "forward", "backward", "optimizer", "communication", "rest")
IDLE = 0.5
"""From this share of the time since the last look on, the thread was waiting."""
PYTHON_LATE_S = 0.0007
"""A look that waits so long for the GIL waits for Python code: tensors are computed without it."""
_LOADER = "torch/utils/data/dataloader.py"
_DATA = "torch/utils/data/"
_BACKWARD = ("torch/autograd/graph.py", "torch/autograd/__init__.py")
_MODULE = "torch/nn/modules/module.py"
_OPTIMIZER, _NO_STEP = "torch/optim/", ("torch/optim/lr_scheduler.py", "torch/optim/swa_utils.py")
_FOR_OTHERS = frozenset({"collective", "peer", "init"})
_WAITS_HERE = (".wait(", ".synchronize(", ".barrier(")


@dataclass(frozen=True)
class Slice:
    """What one look saw: the part of a step, the user's line, how long."""

    look: TimedLook
    frames: Sequence[Frame]
    frame: Frame | None
    part: StepPartName
    wait: Wait | None
    idle: bool
    """Whether the thread waited, as far as the kernel tells."""
    paused_s: float = 0.0
    """How long of it a full garbage collection ran, which is not its line's doing."""
    recorded: StepPartName = "rest"
    """The part of a step that the agent's records have it in."""

    @property
    def wall_s(self) -> float:
        return self.look.wall_s

    @property
    def own_s(self) -> float:
        """Without garbage collections."""
        return max(0.0, self.look.wall_s - self.paused_s)


@dataclass(frozen=True)
class View:
    """One rank. Seconds are of an average step of its window."""

    window: RankWindow
    slices: Sequence[Slice]

    @property
    def rank(self) -> int:
        return self.window.rank

    @cached_property
    def steps(self) -> list[Step]:
        """The whole ones of the window."""
        return [s for s in self.window.steps if s.duration_s is not None]

    @cached_property
    def step_s(self) -> float:
        """0 where no whole step came."""
        return mean(s.duration_s or 0.0 for s in self.steps) if self.steps else 0.0

    @cached_property
    def looked_s(self) -> float:
        return sum(one.wall_s for one in self.slices)

    def seconds(self, slices: Iterable[Slice]) -> float:
        """How long of a step these take."""
        return self.step_s * sum(one.wall_s for one in slices) / self.looked_s if self.looked_s else 0.0

    def own_seconds(self, slices: Iterable[Slice]) -> float:
        """The same without garbage collections."""
        return self.step_s * sum(one.own_s for one in slices) / self.looked_s if self.looked_s else 0.0

    def of(self, *parts: StepPartName) -> list[Slice]:
        return [one for one in self.slices if one.part in parts]

    @cached_property
    def parts(self) -> Mapping[StepPartName, float]:
        """By the records of its steps; what looks saw of waits for other ranks is taken out of the parts that it was seen in."""
        recorded: dict[StepPartName, float] = dict.fromkeys(PARTS, 0.0)
        for step in self.steps:
            recorded["data"] += step.data_wait_s or 0.0
            recorded["forward"] += step.forward_s or 0.0
            recorded["backward"] += step.backward_s or 0.0
            recorded["optimizer"] += step.optimizer_s or 0.0
        told = {part: total / max(1, len(self.steps)) for part, total in recorded.items()}
        told["rest"] = max(0.0, self.step_s - sum(told.values()))
        for slices, part in ((self.of("communication"), "communication"), (self.of("data"), "data")):
            for source, seconds in self._seen_in(slices).items():
                if source != part:
                    moved = min(told[source], seconds)
                    told[source] -= moved
                    told["communication" if part == "communication" else "data"] += moved
        return told

    def _seen_in(self, slices: Sequence[Slice]) -> Mapping[StepPartName, float]:
        """Which part of a step the records have these in."""
        found: defaultdict[StepPartName, list[Slice]] = defaultdict(list)
        for one in slices:
            found[one.recorded].append(one)
        return {part: self.seconds(many) for part, many in found.items()}

    def steps_of(self, slices: Iterable[Slice]) -> int:
        """In how many different steps these were seen."""
        return len({one.look.step for one in slices})


@dataclass(frozen=True)
class Case:
    """All ranks that answered, in order; the lines of the user's code, by ``"FILE:LINE"``."""

    views: Sequence[View]
    lines: Mapping[str, SourceLine]

    @property
    def stepping(self) -> list[View]:
        """Those that made whole steps."""
        return [view for view in self.views if view.step_s > 0]

    @property
    def step_s(self) -> float:
        """Of the slowest rank."""
        return max((view.step_s for view in self.views), default=0.0)

    @property
    def together(self) -> bool:
        """Whether several ranks train together."""
        return len(self.stepping) > 1 and any(_talks(view.window) for view in self.views)

    def line(self, frame: Frame | None) -> str:
        """What stands at a frame's line; empty where that is not known."""
        found = None if frame is None else self.lines.get(f"{frame.file}:{frame.line}")
        return "" if found is None else found.text

    def common(self, seconds: Mapping[int, float]) -> float:
        """What every rank spends, of seconds by rank: of ranks that train together the least; what one spends alone is told where the
        others wait for it.
        """
        if not seconds:
            return 0.0
        return min(seconds.values()) if self.together else max(seconds.values())


def whole_case(windows: Sequence[RankWindow], lines: Mapping[str, SourceLine]) -> Case:
    """The case of these windows."""
    several = len(windows) > 1 or any(_talks(window) for window in windows)
    return Case([View(window, tuple(_slices(window, lines, several))) for window in windows], lines)


def by_frame(slices: Iterable[Slice]) -> list[tuple[Frame, float]]:
    """The user's lines, and how long these slices saw each, the longest first."""
    spent: Counter[Frame] = Counter()
    for one in slices:
        if one.frame is not None:
            spent[one.frame] += round(one.wall_s * 1e6)
    return [(frame, microseconds / 1e6) for frame, microseconds in spent.most_common()]


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """How much time intervals cover, each from its first to its last moment."""
    total, end = 0.0, float("-inf")
    for first, last in sorted(intervals):
        total += max(0.0, last - max(first, end))
        end = max(end, last)
    return total


def usual(values: Sequence[float]) -> float:
    """The median; 0 of none."""
    return median(values) if values else 0.0


# --- one look ------------------------------------------------------------------------------------------------------


def _talks(window: RankWindow) -> bool:
    calls = window.collectives
    return not isinstance(calls, NotAvailable) and any(len(group.ranks) > 1 for group in calls.groups)


def _slices(window: RankWindow, lines: Mapping[str, SourceLine], several: bool) -> Iterable[Slice]:
    pauses = () if isinstance(window.collections, NotAvailable) else window.collections.pauses
    calls_known = any(look.call for look in window.looks)
    about: dict[tuple[int, str], tuple[Sequence[Frame], Frame | None, Wait | None]] = {}
    for look in window.looks:
        key = (look.stack, look.call)
        if key not in about:
            frames = window.stacks[look.stack]
            raw = [(f.file, f.line, f.function) for f in frames]
            about[key] = frames, user_frame(frames), waiting_for(raw, look.call or None)
        frames, frame, wait = about[key]
        bare = Slice(look, frames, frame, "rest", wait, _idle(look, frames, calls_known))
        recorded = _recorded_part(bare)
        part = "communication" if several and _for_others(bare, lines, window.host.cuda) else recorded
        yield replace(bare, part=_loading(part, frames), paused_s=_paused_s(look, pauses), recorded=recorded)


def _idle(look: TimedLook, frames: Sequence[Frame], calls_known: bool) -> bool:
    """By the call that it sat in at that moment; CPU time, which the kernel counts in ticks, where it does not tell these. One that we have
    just taken the GIL from waits for that, and for nothing else; so may one that comes to the user's line out of C code, which had let go
    of the GIL.
    """
    rested = isinstance(look.idle_s, NotAvailable) or look.idle_s >= IDLE * look.wall_s
    own = bool(frames) and not frames[0].library
    if look.call == "futex" and (own or look.late_s >= PYTHON_LATE_S):
        return rested
    return bool(look.call) if calls_known or isinstance(look.idle_s, NotAvailable) else rested


def _paused_s(look: TimedLook, pauses: Sequence[tuple[float, float]]) -> float:
    began = look.at_s - look.wall_s
    return sum(max(0.0, min(look.at_s, at + took) - max(began, at)) for at, took in pauses)


def _for_others(one: Slice, lines: Mapping[str, SourceLine], cuda: bool) -> bool:
    """Whether it waits for other ranks. On a GPU the host's thread sleeps in backward for another reason: that thread computes nothing."""
    if one.wait is not None and one.wait.kind in _FOR_OTHERS:
        return True
    if not one.idle or not one.frames:
        return False
    innermost = one.frames[0]
    if innermost.file.endswith(_BACKWARD[0]):
        return not cuda
    line = lines.get(f"{innermost.file}:{innermost.line}")
    return line is not None and one.look.call in ("futex", "") and any(word in line.text for word in _WAITS_HERE)


def _loading(part: StepPartName, frames: Sequence[Frame]) -> StepPartName:
    """Whatever a DataLoader does on the training thread is data, its start, too, which the records have in the rest."""
    return "data" if part == "rest" and any(f.file.endswith(_LOADER) for f in frames) else part


def _recorded_part(one: Slice) -> StepPartName:
    """In which part of a step the agent's records have this moment."""
    files = [frame.file for frame in one.frames]
    if any(file.endswith(_BACKWARD) for file in files):
        return "backward"
    if any(f.file.endswith(_LOADER) and f.function.rpartition(".")[2] == "__next__" for f in one.frames):
        return "data"
    if any(_OPTIMIZER in file and not file.endswith(_NO_STEP) for file in files):
        return "optimizer"
    return "forward" if one.look.forward or any(file.endswith(_MODULE) for file in files) else "rest"
