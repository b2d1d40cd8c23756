"""Flame graphs: whose stacks are drawn, what the boxes say, and that no text leaves its box."""

from __future__ import annotations

import dataclasses
import re

import pytest
from cases import each
from figure_texts import overlaps, written
from render_scenes_profile import JOB, one_rank, rank, sampled, slower_in_one, unseen

from jupyter_traindbg import pictures
from jupyter_traindbg.errors import NoTarget
from jupyter_traindbg.model import Frame, Picture, Profile, RankProfile, SampledStack


def of_stacks(*stacks: SampledStack) -> Profile:
    return Profile((RankProfile(0, 1000, looks=100, window_s=1.0, stacks=stacks),))


def boxes(picture: Picture) -> list[float]:
    """Widths in inches, of the user's code first."""
    collections = picture.figure.axes[0].collections
    return [
        float(path.get_extents().width) for drawn in collections for path in drawn.get_paths() if drawn.get_alpha() < 1
    ]


def test_one_rank_in_the_order_of_its_lines() -> None:
    picture = pictures.of_result(one_rank())
    assert picture.of == "profile"
    assert picture.title == "where the time of rank 0 goes"
    assert picture.words == ("rank 0 was seen most often at train.py:41 Trainer.step: in 31 % of 412 looks",)
    assert picture.details[0] == "31 % at train.py:41 Trainer.step"
    labels = written(picture.figure)
    assert "rank 0 · a step takes 5.1 ms · 412 looks" in labels
    order = [label for label in labels if re.search(r"Trainer.step train.py:4\d", label)]
    assert order == [
        "Trainer.step train.py:40 · 44 %",
        "Trainer.step train.py:41 · 31 %",
        "Trainer.step train.py:42",
    ]
    assert "Module._call_impl module.py:1787 · 2 library frames · 42 %" in labels
    assert max(boxes(picture)) == pytest.approx(8.76, abs=0.02)


def test_the_users_code_is_told_from_libraries_by_more_than_its_colour() -> None:
    texts = {text.get_text(): text for text in pictures.of_result(one_rank()).figure.axes[0].texts}
    assert texts["Trainer.epoch train.py:58 · 96 %"].get_fontweight() == "bold"
    assert texts["Module._call_impl module.py:1787 · 2 library frames · 42 %"].get_fontweight() == "normal"
    assert texts["your code"].get_fontweight() == "bold"


@each(("ranks", "slow", "usual"), [(2, 1, "rank 0"), (300, 217, "rank 13")])
def test_a_slow_rank_stands_above_a_usual_one(ranks: int, slow: int, usual: str) -> None:
    picture = pictures.of_result(slower_in_one(ranks, slow))
    first, second = picture.words
    assert first.startswith(f"rank {slow} was seen most often at train.py:41 Trainer.step: in 48 %")
    assert second.startswith("its steps take 6.9")
    assert usual in second
    heads = [label for label in written(picture.figure) if label.endswith("412 looks")]
    assert [head.split(" · ")[0] for head in heads] == [f"rank {slow}", usual]


def test_ranks_that_are_alike_need_one_panel() -> None:
    picture = pictures.of_result(Profile(tuple(rank(n) for n in range(8))))
    assert len(picture.words) == 1
    assert sum("412 looks" in label for label in written(picture.figure)) == 1


def test_deep_stacks_and_many_leaves_stay_readable() -> None:
    frames = tuple(Frame(f"{JOB}/train.py", n, f"recurse_{n}") for n in range(100))
    deep = pictures.of_result(of_stacks(SampledStack(frames, 1.0)))
    assert "no more than 28 rows are drawn of deeper calls" in deep.words
    assert deep.figure.get_size_inches()[1] < 8
    leaves = (
        SampledStack((Frame(f"{JOB}/a.py", n, "leaf"), Frame(f"{JOB}/a.py", 1, "root")), 0.005) for n in range(200)
    )
    wide = pictures.of_result(of_stacks(*leaves))
    assert len(wide.drawn.svg("x")) < 200_000
    assert overlaps(wide.figure) == []


@each("result", [one_rank(), slower_in_one(2), slower_in_one(300, 217), sampled(3)])
def test_no_text_lies_on_another(result: Profile) -> None:
    assert overlaps(pictures.of_result(result).figure) == []


def test_names_that_steer_and_names_without_end() -> None:
    hostile = Frame("/tmp/\x1b[31m\u202eevil\udc80.py", 3, "f" * 5000 + "\n$x^2$")
    picture = pictures.of_result(of_stacks(SampledStack((hostile,), 1.0)))
    assert overlaps(picture.figure) == []
    assert picture.drawn.svg("x").startswith("<svg")


def test_cells_of_notebooks_by_their_numbers() -> None:
    cell = Frame("/tmp/ipykernel_4242/123.py", 11, "train", cell=4)
    assert "train In [4], line 11 · 100 %" in written(pictures.of_result(of_stacks(SampledStack((cell,), 1.0))).figure)


def test_where_there_are_no_stacks() -> None:
    for nothing in (Profile(()), unseen(), of_stacks(), of_stacks(SampledStack((), 1.0))):
        with pytest.raises(NoTarget, match="no stack was seen that could be drawn"):
            pictures.of_result(nothing)
    some = dataclasses.replace(one_rank(), ranks=(*unseen().ranks, rank(1)))
    assert pictures.of_result(some).words[0].startswith("rank 1 was seen most often")


def test_in_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    picture = pictures.of_result(one_rank())
    assert picture.words[0] == "rank 0 最常位于 train.py:41 Trainer.step：占 412 次采样的 31 %"
    assert picture.drawn.svg(picture.title).startswith("<svg")
