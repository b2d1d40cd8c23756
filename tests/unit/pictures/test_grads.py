"""Gradients as bars: what is drawn, what is said, and how many bars stand there."""

from __future__ import annotations

import math
from typing import Any

import pytest
from cases import each
from figure_texts import overlaps, written
from picture_scenes import grads, stat, transformer

from jupyter_traindbg import pictures
from jupyter_traindbg.errors import NoTarget
from jupyter_traindbg.model import Grads, NotAvailable, Picture, RankGrads
from jupyter_traindbg.pictures.grad_rows import MOST, rows_of


def labels(picture: Picture) -> list[str]:
    return [label.get_text() for label in picture.figure.axes[0].get_yticklabels()]


def bars(picture: Picture) -> dict[float, float]:
    """Where each bar ends, by its row."""
    found = [bar for group in picture.figure.axes[0].containers for bar in group if not bar.get_hatch()]
    return {round(bar.get_y() + bar.get_height() / 2): bar.get_x() + bar.get_width() for bar in found}


def drawn(picture: Picture) -> str:
    return "\n".join(written(picture.figure))


def small(rank: int = 0, **odd: Any) -> list[Any]:
    return [stat("fc1.weight", 0.3), stat("fc1.bias", 0.04), stat("fc2.weight", 0.5, **odd)]


def test_one_bar_per_parameter_in_the_order_of_the_model() -> None:
    picture = pictures.of_result(grads(small))
    assert picture.title == "gradients of rank 0 · after step 812 (12 since the attach)"
    assert picture.words[0] == "all 3 gradients finite, norm 0.5845"
    assert picture.words[1] == "largest fc2.weight 0.5000, smallest fc1.bias 0.04000"
    assert labels(picture) == ["fc1.weight", "fc1.bias", "fc2.weight"]
    assert bars(picture) == {0: pytest.approx(0.3), 1: pytest.approx(0.04), 2: pytest.approx(0.5)}
    axes = picture.figure.axes[0]
    assert axes.get_xscale() == "log"
    assert axes.yaxis_inverted()
    assert picture.figure.legends == []


def test_what_is_not_finite_is_crossed_and_said_with_its_rank() -> None:
    def of(rank: int) -> list[Any]:
        bad = rank == 2
        return [stat("a", 0.3), stat("b", math.nan if bad else 0.2, nan=24_000 * bad, inf=12 * bad), stat("c", 0.1)]

    picture = pictures.of_result(grads(of, 4))
    assert picture.words[0] == "1 of 3 gradients not finite, first b: 24,000 NaN, 12 Inf · rank 2"
    assert drawn(picture).count("✕") == 1
    assert "24,000 NaN, 12 Inf · rank 2 · 0.2" in drawn(picture)
    assert bars(picture)[1] == pytest.approx(0.2)  # of the others


def test_a_norm_that_overflowed_is_not_finite_either() -> None:
    picture = pictures.of_result(grads(lambda _: [stat("a", math.inf), stat("b", 1.0)]))
    assert picture.words[0] == "1 of 2 gradients not finite, first a: its norm is not finite"
    assert bars(picture) == {1: pytest.approx(1.0)}


def test_without_a_gradient_is_said_and_not_drawn_as_zero() -> None:
    found = [stat("a", 0.3), stat("b", None), stat("c", None, requires_grad=False), stat("d", 0.0)]
    picture = pictures.of_result(grads(lambda _: found))
    assert bars(picture) == {0: pytest.approx(0.3)}
    assert {"without a gradient", "frozen", "0, all zeros"} <= set(drawn(picture).split("\n"))
    assert picture.words == (
        "all 2 gradients finite, norm 0.3000",
        "all zeros: d",
        "1 parameter without a gradient",
        "1 parameter frozen",
    )


def test_all_frozen() -> None:
    picture = pictures.of_result(grads(lambda _: [stat(n, None, requires_grad=False) for n in transformer(2)]))
    assert picture.words == ("none of 15 parameters has a gradient now", "15 parameters frozen")
    assert bars(picture) == {}
    assert drawn(picture).count("frozen") == 15
    assert overlaps(picture.figure) == []


def test_ranks_that_differ_have_a_whisker() -> None:
    picture = pictures.of_result(grads(lambda rank: [stat("a", (1.0, 2.0, 8.0)[rank]), stat("b", 3.0)], 3))
    (whisker,) = picture.figure.axes[0].lines
    assert list(whisker.get_xdata()) == [1.0, 8.0]
    assert bars(picture)[0] == pytest.approx(2.0)
    assert [t.get_text() for t in picture.figure.legends[0].get_texts()] == ["median of 3 ranks", "least to greatest"]
    assert picture.words[0] == "all 2 gradients finite, norm 3.162 (rank 0) to 8.544 (rank 2)"


def test_ranks_of_different_steps_and_passes() -> None:
    one, other = (grads(small, after_step=12 + n, optimizer_step=812 + n).ranks[0] for n in (0, 1))
    apart = pictures.of_result(Grads((one, other), same_step=False))
    assert "after steps 812 to 813 (12 to 13 since the attach)" in apart.title
    assert "the ranks were not, or are not known to be, read after the same step" in apart.words
    early = pictures.of_result(grads(small, passes=2))
    assert early.title.endswith("· after backward pass 2 since the last step, before the next one")
    assert early.words[0].endswith("norm 0.5845 before any clipping")


@each(
    ("layers", "bars", "some", "how"),
    [
        (4, 27, "model.layers.0.self_attn.q_proj.weight", ""),
        (12, 27, "model.layers.3.mlp", "each bar is a module (75 parameters in 27 bars)"),
        (28, 31, "model.layers.27", "each bar is a module (171 parameters in 31 bars)"),
        (33, 20, "model.layers.2-3", "each bar is up to 2 neighbouring layers (201 parameters in 20 bars)"),
        (300, 22, "model.layers.288-299", "each bar is up to 16 neighbouring layers (1,803 parameters in 22 bars)"),
    ],
)
def test_any_model_is_a_few_bars(layers: int, bars: int, some: str, how: str) -> None:
    picture = pictures.of_result(grads(lambda _: [stat(name, 0.1) for name in transformer(layers)]))
    assert len(labels(picture)) == bars <= MOST
    assert some in labels(picture) or layers == 4
    assert how in " ".join(picture.words)
    assert ("bar is" in " ".join(picture.words)) == bool(how)


@each("names", [[f"{n}.weight" for n in range(200)], [f"p{n}" for n in range(200)], [f"a.b{n}.c.d" for n in range(99)]])
def test_names_of_any_form_are_grouped_and_none_is_lost(names: list[str]) -> None:
    rows = rows_of(grads(lambda _: [stat(name, 1.0) for name in names]).ranks).rows
    assert 8 <= len(rows) <= MOST
    assert [name for row in rows for name in row.names] == names
    assert all(row.norms == [pytest.approx(math.sqrt(len(row.names)))] for row in rows)


def test_a_group_says_what_is_wrong_in_it() -> None:
    def of(_: int) -> list[Any]:
        bad = {"model.layers.17.mlp.up_proj.weight": 5}
        return [
            stat(n, None) if n.endswith("0.self_attn.q_proj.weight") else stat(n, 1.0, nan=bad.get(n, 0))
            for n in transformer(300)
        ]

    picture = pictures.of_result(grads(of))
    assert "5 NaN · 9.64 · 2 of 96 without a gradient" in drawn(picture)  # of 16 layers of 6: 93 gradients of norm 1
    assert picture.words[0].startswith("1 of 1,773 gradients not finite, first model.layers.17.mlp.up_proj.weight")


@each("layers", [1, 6, 300])
@each("ranks", [1, 8])
def test_no_text_lies_on_another(layers: int, ranks: int) -> None:
    def of(rank: int) -> list[Any]:
        bad = {3: math.nan, 5: None, 8: 0.0, 11: 1e-30, 13: 1e20}
        norms = [bad.get(i, 10 ** (-i % 5) * (1 + rank)) for i in range(len(transformer(layers)))]
        return [
            stat(n, norm, nan=7 * (i == 3)) for i, (n, norm) in enumerate(zip(transformer(layers), norms, strict=True))
        ]

    assert overlaps(pictures.of_result(grads(of, ranks)).figure) == []


def test_long_names_keep_their_ends() -> None:
    picture = pictures.of_result(grads(lambda _: [stat(f"encoder.{'block.' * 20}weight", 1.0), stat("b", 2.0)]))
    name = labels(picture)[0]
    assert len(name) <= 38
    assert name.startswith("encoder.block")
    assert name.endswith("block.weight")


@each("norm", [1e308, 1e-310, 5e-324])
def test_norms_at_the_ends_of_what_a_number_can_be(norm: float) -> None:
    assert pictures.of_result(grads(lambda _: [stat("a", norm), stat("b", norm)])).drawn.png()


def test_what_was_not_read_cannot_be_drawn() -> None:
    unread = RankGrads(0, 1, "not read: no step came", False, NotAvailable("none"), ())
    with pytest.raises(NoTarget, match="no gradients were read: not read: no step came"):
        pictures.of_result(Grads((unread,)))


def test_in_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    picture = pictures.of_result(grads(small))
    assert picture.title == "rank 0 的梯度 · 在第 812 步（attach 后第 12 步）之后"
    assert picture.words[0] == "全部 3 个梯度均为有限值，范数 0.5845"
    assert picture.drawn.svg(picture.title).startswith("<svg")
