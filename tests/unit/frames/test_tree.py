"""Sampled stacks as a tree of calls: what is merged, what a run of library frames is, what is left out."""

from __future__ import annotations

import math

import pytest

from jupyter_traindbg.frames.tree import Branch, tree_of
from jupyter_traindbg.model import Frame, SampledStack


def own(line: int, function: str = "f") -> Frame:
    return Frame("/home/ada/train.py", line, function)


def library(line: int, function: str = "g") -> Frame:
    return Frame("/usr/lib/python3.12/site-packages/torch/nn/modules/module.py", line, function, library=True)


def seen(share: float, *outermost_first: Frame) -> SampledStack:
    return SampledStack(tuple(reversed(outermost_first)), share)


def shown(branches: tuple[Branch, ...]) -> list[tuple[list[int], float, list[object]]]:
    """Lines of the frames, share in percent, and the same of what is within."""
    return [([f.line for f in b.frames], round(100 * b.share), list(shown(b.inner))) for b in branches]


def test_frames_at_one_line_under_the_same_callers_are_one_the_largest_first() -> None:
    tree = tree_of([seen(0.2, own(1), own(2)), seen(0.5, own(1), own(3)), seen(0.1, own(1)), seen(0.2, own(4))], 0.01)
    assert shown(tree.branches) == [([1], 80, [([3], 50, []), ([2], 20, [])]), ([4], 20, [])]


def test_a_run_of_library_frames_is_one_until_it_parts() -> None:
    tree = tree_of([seen(0.6, own(1), library(5), library(6), own(2)), seen(0.4, own(1), library(5), library(7))], 0.01)
    ((_, _, inner),) = shown(tree.branches)
    assert inner == [([5], 100, [([6], 60, [([2], 60, [])]), ([7], 40, [])])]
    alike = tree_of([seen(1.0, own(1), library(5), library(6), library(7), own(2))], 0.01)
    assert shown(alike.branches) == [([1], 100, [([5, 6, 7], 100, [([2], 100, [])])])]
    assert alike.branches[0].inner[0].folded
    assert alike.branches[0].inner[0].at.line == 7


def test_what_hardly_ever_leaves_a_run_does_not_break_it() -> None:
    tree = tree_of([seen(0.9, library(5), library(6), library(7)), seen(0.01, library(5), library(8))], 0.02)
    (run,) = tree.branches
    assert [frame.line for frame in run.frames] == [5, 6, 7]
    assert (run.share, run.left_out) == (pytest.approx(0.91), pytest.approx(0.01))


def test_a_library_frame_that_tells_a_phase_stands_for_itself() -> None:
    path = "/usr/lib/python3.12/site-packages/transformers/trainer.py"
    evaluates = Frame(path, 9, "Trainer.evaluate", library=True)
    tree = tree_of([seen(1.0, own(1), library(5), evaluates, library(6), library(7))], 0.01)
    assert shown(tree.branches) == [([1], 100, [([5], 100, [([9], 100, [([6, 7], 100, [])])])])]


def test_what_is_too_small_is_counted_together() -> None:
    tree = tree_of(
        [seen(0.9, own(1), own(2)), *(seen(0.01, own(1), own(n)) for n in range(3, 8)), seen(0.01, own(9))], 0.02
    )
    (main,) = tree.branches
    assert [branch.at.line for branch in main.inner] == [2]
    assert (main.left_out, tree.left_out) == (pytest.approx(0.05), pytest.approx(0.01))


def test_shares_that_are_none_and_endless_recursions() -> None:
    odd = [seen(share, own(1)) for share in (math.nan, math.inf, -1.0, 0.0, 7.0)]
    assert tree_of(odd, 0.01).branches == ()
    assert tree_of([seen(0.5)], 0.01).branches == ()
    deep = tree_of([seen(1.0, *(own(1) for _ in range(5000)))], 0.01).branches
    depth = 0
    while deep:
        depth, deep = depth + 1, deep[0].inner
    assert 100 < depth < 1000
