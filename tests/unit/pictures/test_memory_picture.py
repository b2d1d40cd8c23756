"""Memory as bars against what the devices have: what is drawn, what is said, and that three hundred ranks are readable."""

from __future__ import annotations

import dataclasses

import pytest
from cases import each
from figure_texts import overlaps, written
from picture_scenes import GIB, gpus, on_cpu, on_cuda

from jupyter_traindbg import pictures
from jupyter_traindbg.errors import NoTarget
from jupyter_traindbg.model import Memory, MemoryShare, NotAvailable, Picture, RankMemory


def labels(picture: Picture, panel: int = 0) -> list[str]:
    return [label.get_text() for label in picture.figure.axes[panel].get_yticklabels()]


def drawn(picture: Picture) -> list[str]:
    return written(picture.figure)


def widths(picture: Picture, panel: int = 0) -> list[list[float]]:
    """In GiB, of each part: those of all bars, from the top."""
    return [[bar.get_width() for bar in part] for part in picture.figure.axes[panel].containers]


def legend(picture: Picture) -> list[str]:
    return [text.get_text() for text in picture.figure.legends[0].get_texts()]


def mark(picture: Picture, panel: int = 0) -> list[float]:
    """Where the sizes of devices are marked, in GiB."""
    return [float(lines.get_segments()[0][0][0]) for lines in picture.figure.axes[panel].collections]


def test_who_holds_most_of_which_device_and_what() -> None:
    picture = pictures.of_result(gpus(8))
    assert picture.title == "memory of ranks 0-7 (8)"
    assert picture.words == (
        "rank 2 holds most: 71.2 GiB of 79.6 GiB of cuda:2 (89 %), most of it optimizer state",
        "torch has reserved 4.1 GiB more there, which nothing uses now",
        "rank 0 holds least: 66 GiB of 79.6 GiB of cuda:0 (83 %)",
        "host memory is not drawn: 24 GiB of 1007 GiB in all",
    )
    assert labels(picture) == [f"rank {n} · cuda:{n}" for n in range(8)]
    parameters, gradients, optimizer, buffers, rest, unused = widths(picture)
    assert parameters == gradients == [pytest.approx(7.5)] * 8
    assert optimizer[2] == pytest.approx(45.2)
    assert (buffers[2], rest[2], unused[2]) == (pytest.approx(0.1), pytest.approx(10.9), pytest.approx(4.1))
    assert mark(picture) == [pytest.approx(79.6)]
    assert {"79.6 GiB", "71.2 GiB · 89 %", "memory of the GPUs · GiB"} <= set(drawn(picture))
    assert legend(picture) == ["parameters", "gradients", "optimizer state", "the rest", "reserved, not allocated"]


def test_the_host_has_an_axis_of_its_own_where_it_holds_much() -> None:
    picture = pictures.of_result(Memory(tuple(on_cuda(n, (3, 3, 6, 0, 2), host_gib=8) for n in range(2))))
    assert labels(picture, 1) == ["rank 0", "rank 1"]
    assert mark(picture, 1) == [8]
    assert "not drawn" not in " ".join(picture.words)


def test_a_size_far_beyond_the_bars_is_said() -> None:
    picture = pictures.of_result(Memory((on_cpu(0, (1, 1, 1, 0, 0), machine_gib=1007),)))
    assert mark(picture) == []
    assert "of 1007 GiB →" in drawn(picture)
    assert picture.figure.axes[0].get_xlim()[1] >= 1.5 * 3  # a bar that ended at the end would look full


def test_a_bar_larger_than_its_device_runs_over_the_mark() -> None:
    ranks = (on_cuda(0, (30, 30, 70, 0, 7), device_gib=80), on_cuda(1, (30, 30, 10, 0, 2), device_gib=80))
    picture = pictures.of_result(Memory(ranks))
    assert picture.words[0] == (
        "rank 0 holds most: 137 GiB on cuda:0, which has 80 GiB: 57 GiB too much, most of it optimizer state"
    )
    axes = picture.figure.axes[0]
    assert axes.get_xlim()[1] > 137
    over = axes.containers[-1][0]
    assert (over.get_x(), over.get_width()) == (pytest.approx(80), pytest.approx(57))


def test_devices_of_different_sizes_have_a_mark_each() -> None:
    sizes = (80, 80, 24, 80)
    picture = pictures.of_result(Memory(tuple(on_cuda(n, (3, 3, 6, 0, 2), device_gib=g) for n, g in enumerate(sizes))))
    assert mark(picture) == [80, 24, 80]
    assert overlaps(picture.figure) == []


def test_of_many_ranks_the_largest_and_the_middle_one_of_the_others() -> None:
    picture = pictures.of_result(gpus(300))
    shown = labels(picture)
    assert shown[0] == "rank 2 · cuda:2"
    assert shown[-1] == "median of 292 others"
    assert len(shown) == 9
    said = "memory of the GPUs: the 8 largest of 300 are drawn; the middle one of the other 292 is rank "
    assert any(words.startswith(said) for words in picture.words)


def test_ranks_that_hold_the_same_are_not_told_apart() -> None:
    picture = pictures.of_result(Memory(tuple(on_cuda(n, (3, 3, 6, 0, 2)) for n in range(4))))
    assert picture.words[0] == (
        "ranks 0-3 hold about the same, each 14 GiB of 79.6 GiB of its GPU (18 %), the largest part optimizer state (6 GiB)"
    )


def test_one_rank_on_a_cpu() -> None:
    picture = pictures.of_result(Memory((on_cpu(0, (0.002, 0.002, 0.004, 0, 0.41)),)))
    assert picture.words == (
        "rank 0 holds 0.418 GiB of 16 GiB of host memory (3 %), most of it outside the training's own tensors",
    )
    assert legend(picture) == ["parameters", "gradients", "optimizer state", "the rest"]


def test_what_an_earlier_run_left_has_a_colour_of_its_own() -> None:
    (rank,) = (on_cpu(0, (1, 1, 2, 0, 1)),)
    left = dataclasses.replace(rank.shares[0], earlier_bytes=3 * GIB)
    picture = pictures.of_result(Memory((dataclasses.replace(rank, shares=(left,)),)))
    assert "an earlier run's" in legend(picture)
    assert [3.0] in widths(picture)


def test_where_little_is_known() -> None:
    unknown = NotAvailable("torch's allocator for this device gives no figures")
    share = MemoryShare("mps:0", GIB, GIB, 2 * GIB, 0, unknown, unknown)
    rank = RankMemory(0, 1, GIB, GIB, (share,), NotAvailable("no CUDA"), (), note="gradients are not counted: no step")
    picture = pictures.of_result(Memory((rank,)))
    assert picture.words == (
        "rank 0 holds at least 4 GiB of mps:0, the largest part optimizer state (2 GiB)",
        "rank 0: gradients are not counted: no step",
    )
    assert "≥ 4 GiB" in drawn(picture)
    assert mark(picture) == []
    with pytest.raises(NoTarget, match="no rank told of its memory"):
        pictures.of_result(Memory(()))


@each("ranks", [1, 2, 16, 17, 40, 300])
def test_no_text_lies_on_another(ranks: int) -> None:
    figure = pictures.of_result(gpus(ranks)).figure
    assert overlaps(figure) == []
    assert figure.get_size_inches()[1] < 12


def test_in_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    picture = pictures.of_result(gpus(8))
    assert picture.words[0] == "rank 2 占用最多：71.2 GiB，cuda:2 共 79.6 GiB（89 %），大部分是优化器状态"
    assert picture.drawn.svg(picture.title).startswith("<svg")
