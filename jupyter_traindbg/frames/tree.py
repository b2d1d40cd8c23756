"""Stacks that were seen again and again, as one tree of calls: what flame graphs are drawn of. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from ..model import Frame, SampledStack
from .phases import telling
from .whose import own_frames

__all__ = ["Branch", "Tree", "tree_of"]

DEEPEST = 200
"""Frames of one stack, from the outermost on: a recursion may be endless. What lies deeper is counted where that ends."""


@dataclass(frozen=True)
class Branch:
    """What was seen within one line that calls, or is where the thread was: its frame.

    Or several, outermost first: a run of a library's frames, which hardly ever went another way on it. ``share``: of all looks;
    ``inner``: what it called, largest first; ``left_out``: the share of what was too small to be among these.
    """

    frames: tuple[Frame, ...]
    share: float
    inner: tuple[Branch, ...] = ()
    left_out: float = 0.0

    @property
    def at(self) -> Frame:
        """The innermost of its frames, which says most."""
        return self.frames[-1]

    @property
    def folded(self) -> bool:
        return len(self.frames) > 1


@dataclass(frozen=True)
class Tree:
    """The outermost branches, largest first, and the share of those that are too small to be here."""

    branches: tuple[Branch, ...]
    left_out: float = 0.0


@dataclass(frozen=True)
class _Path:
    """One stack from the outside: ``plain`` frames are those that tell nothing by themselves."""

    frames: tuple[Frame, ...]
    plain: tuple[bool, ...]
    share: float


def tree_of(stacks: Iterable[SampledStack], least: float) -> Tree:
    """Frames at one line under the same callers are one branch. Of a share below `least` there is none."""
    paths = [_path(stack) for stack in stacks if math.isfinite(stack.share) and 0 < stack.share <= 1.01]
    return Tree(*_within(paths, 0, least))


def _path(stack: SampledStack) -> _Path:
    own = own_frames(stack.frames)
    shown = {id(frame) for frame in telling(own)}
    outside_in = tuple(reversed(own))[:DEEPEST]
    return _Path(outside_in, tuple(f.library and id(f) not in shown for f in outside_in), stack.share)


def _within(paths: Sequence[_Path], depth: int, least: float) -> tuple[tuple[Branch, ...], float]:
    """What the `paths`, which are the same up to there, have at `depth` and deeper."""
    groups = _groups(paths, depth)
    large = [(same, share) for same in groups if (share := _share(same)) >= least]
    branches = [_branch(same, share, depth, least) for same, share in large]
    left_out = sum(map(_share, groups)) - sum(share for _, share in large)
    return tuple(sorted(branches, key=lambda branch: -branch.share)), max(0.0, left_out)


def _branch(paths: Sequence[_Path], share: float, depth: int, least: float) -> Branch:
    """From `depth` on; a run of a library's frames goes on as long as hardly anything leaves it, which is what ``left_out`` has of it."""
    frames, kept, plain = [paths[0].frames[depth]], share, paths[0].plain[depth]
    while plain:
        largest = max(_groups(paths, depth + 1), key=_share, default=[])
        if not largest or not largest[0].plain[depth + 1] or _share(largest) <= share - least:
            break
        depth, paths, kept = depth + 1, largest, _share(largest)
        frames.append(paths[0].frames[depth])
    inner, left_out = _within(paths, depth + 1, least)
    return Branch(tuple(frames), share, inner, left_out + share - kept)


def _groups(paths: Iterable[_Path], depth: int) -> list[list[_Path]]:
    """By the frame at `depth`, in the order in which they come; without those that end before it."""
    groups: dict[Hashable, list[_Path]] = {}
    for path in paths:
        if depth < len(path.frames):
            frame = path.frames[depth]
            groups.setdefault((frame.file, frame.line, frame.function), []).append(path)
    return list(groups.values())


def _share(paths: Sequence[_Path]) -> float:
    return sum(path.share for path in paths)
