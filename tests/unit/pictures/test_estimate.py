"""Estimated memory against the size of a GPU: one configuration, several beside each other, and none that can be estimated."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from figure_texts import overlaps, written
from picture_scenes import GIB
from render_scenes_plan import config_preflight, of_little

from jupyter_traindbg import pictures
from jupyter_traindbg.errors import NoTarget
from jupyter_traindbg.model import ConfigPreflight, Machine, MemoryEstimate, NotAvailable, Picture


def estimated(*gib: float, machine: Machine | None = None, **more: Any) -> ConfigPreflight:
    """Weights, gradients, optimizer states and activations on one of the GPUs of 80 GiB of ``ppo.yaml``."""
    base = config_preflight()
    plan = base.plan if machine is None else dataclasses.replace(base.plan, machine=machine)
    names = ("weights_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes")
    figures: dict[str, Any] = {name: int(size * GIB) for name, size in zip(names, gib, strict=False)}
    return dataclasses.replace(base, plan=plan, memory=MemoryEstimate(7_000_000_000, **figures | more))


def drawn(picture: Picture) -> list[str]:
    return written(picture.figure)


def test_too_much_is_seen_and_said() -> None:
    picture = pictures.of_result(estimated(28, 28, 56, 25))
    assert picture.title == "estimated memory of one GPU · ppo.yaml, run.sh"
    assert (
        picture.words[0] == "137 GiB on a device of 80 GiB: 57 GiB too much, the largest part optimizer states (56 GiB)"
    )
    assert picture.words[-1].startswith("an estimate: ")
    assert "137 GiB · 57 GiB too much" in drawn(picture)
    (axes,) = picture.figure.axes
    assert [part[0].get_width() for part in axes.containers[:4]] == [28, 28, 56, 25]
    assert axes.get_xlim()[1] > 137
    over = axes.containers[-1][0]
    assert (over.get_x(), over.get_width()) == (80, 57)
    assert axes.collections[0].get_segments()[0][0][0] == 80
    assert overlaps(picture.figure) == []


def test_what_fits_has_room() -> None:
    picture = pictures.of_result(estimated(15, 15, 30, 9, assumptions=("34 s b h a layer", "AdamW")))
    assert picture.words[0].startswith("69 GiB on a device of 80 GiB: 11 GiB to spare")
    assert "assumed: 34 s b h a layer; AdamW" in picture.words
    assert "69 GiB · 11 GiB free" in drawn(picture)
    assert len(picture.figure.axes[0].containers) == 4


def test_what_is_not_in_it_is_said() -> None:
    unknown = NotAvailable("the batch is not known")
    one = estimated(28, 28, 56, activations_bytes=unknown, host_bytes=3 * GIB, least_states_bytes=40 * GIB)
    picture = pictures.of_result(one)
    assert picture.words[:4] == (
        "at least 112 GiB on a device of 80 GiB: 32 GiB too much, the largest part optimizer states (56 GiB)",
        "activations come on top: the batch is not known",
        "40 GiB if the model is loaded in 16 bits",
        "3 GiB more in the memory of the machine",
    )
    assert "≥ 112 GiB · 32 GiB too much" in drawn(picture)


def test_without_a_gpu_there_is_no_mark() -> None:
    picture = pictures.of_result(estimated(1, 1, 2, 1, machine=Machine("here")))
    assert picture.words[0].startswith("5 GiB on a device whose size is not known")
    assert not picture.figure.axes[0].collections


def test_several_beside_each_other() -> None:
    several = {"DDP": estimated(28, 28, 56, 25), "ZeRO-3": estimated(4, 4, 7, 5), "no model": of_little()}
    picture = pictures.of_several(several)
    assert picture.title == "estimated memory of one GPU · 3 configurations"
    assert picture.words[:2] == (
        "1 of 2 fit (ZeRO-3); the least is ZeRO-3 with 20 GiB",
        "no model: not known (the model's size is not known)",
    )
    assert picture.details == (
        "DDP: 137 GiB on a device of 80 GiB: 57 GiB too much, the largest part optimizer states (56 GiB)",
        "ZeRO-3: 20 GiB on a device of 80 GiB: 60 GiB to spare, the largest part optimizer states (7 GiB)",
    )
    assert [label.get_text() for label in picture.figure.axes[0].get_yticklabels()] == ["DDP", "ZeRO-3"]
    assert overlaps(picture.figure) == []


def test_where_most_fit_those_that_do_not_are_named() -> None:
    several = {"a": estimated(1, 1, 1, 1), "b": estimated(2, 1, 1, 1), "c": estimated(90, 1, 1, 1)}
    assert pictures.of_several(several).words[0] == "all but c fit; the least is a with 4 GiB"
    assert pictures.of_several({"a": several["a"], "b": several["b"]}).words[0] == "all fit; the least is a with 4 GiB"


def test_none_fits() -> None:
    picture = pictures.of_several({"a": estimated(100, 1, 1, 1), "b": estimated(90, 1, 1, 1)})
    assert picture.words[0] == "none of 2 fits; the least is b with 93 GiB"


def test_many_configurations_stay_readable() -> None:
    figure = pictures.of_several({f"way {n}": estimated(1 + n, 2, 3, 4) for n in range(40)}).figure
    assert overlaps(figure) == []


def test_what_cannot_be_estimated_says_why() -> None:
    with pytest.raises(NoTarget, match="the memory cannot be estimated: the model's size is not known"):
        pictures.of_result(of_little())


def test_in_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    assert pictures.of_result(estimated(28, 28, 56, 25)).words[0].startswith("137 GiB，设备共 80 GiB：超出 57 GiB")
