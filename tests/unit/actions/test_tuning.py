"""What was asked for: in plain data, in words, and refused where it makes no sense, before any job is looked at."""

from __future__ import annotations

import math
from typing import Any

import pytest
from cases import each

from jupyter_traindbg import evidence
from jupyter_traindbg.actions import tuning
from jupyter_traindbg.errors import UsageError


def wish(**given: Any) -> tuning.Change:
    nothing: dict[str, Any] = {
        "value": None, "scale": None, "hold": False, "group": None, "optimizer": None, "force": False
    }  # fmt: skip
    return tuning.hold_or_scale("lr", **{**nothing, **given})


@each(
    ("given", "mode", "value", "words"),
    [
        ({"value": 1e-4}, "hold", 1e-4, "learning rate pinned at 0.0001"),
        ({"value": 0}, "hold", 0.0, "learning rate pinned at 0"),
        ({"hold": 1e-4}, "hold", 1e-4, "learning rate pinned at 0.0001"),
        ({"hold": True}, "hold", None, "learning rate pinned at its present value"),
        ({"scale": 0.1, "group": 1}, "scale", 0.1, "learning rate: the schedule x 0.1 (group 1)"),
        (
            {"scale": 2, "group": [0, 2], "optimizer": 1},
            "scale",
            2.0,
            "learning rate: the schedule x 2 (groups 0, 2 of optimizer 1)",
        ),
    ],
)
def test_wishes(given: dict[str, Any], mode: str, value: float | None, words: str) -> None:
    change = wish(**given)
    assert (change["setting"], change["mode"], change["value"]) == ("lr", mode, value)
    assert evidence.words_of(change) == words


@each(
    ("given", "why"),
    [
        ({}, "no learning rate was given"),
        ({"value": 1e-4, "scale": 0.1}, "one change"),
        ({"value": 1e-4, "hold": 1e-3}, "one change"),
        ({"scale": 0.1, "hold": True}, "one change"),
        ({"value": math.nan}, "finite"),
        ({"scale": math.inf}, "finite"),
        ({"value": -1e-4}, "negative"),
        ({"value": True}, "a number, not bool"),
        ({"value": "1e-4"}, "a number, not str"),
        ({"value": 1e-4, "group": -1}, "group="),
        ({"value": 1e-4, "group": []}, "group="),
        ({"value": 1e-4, "optimizer": [0, True]}, "optimizer="),
    ],
)
def test_nonsense_is_refused_in_one_line(given: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        wish(**given)
    assert "\n" not in str(refused.value)


def test_clipping_and_taking_back() -> None:
    assert evidence.words_of(tuning.clip(1.0, None)) == "gradients clipped at norm 1"
    assert evidence.words_of(tuning.release(None, None, None)) == "everything released"
    assert evidence.words_of(tuning.release("weight_decay", [1], 0)) == "weight decay released (group 1 of optimizer 0)"
    assert evidence.words_of(tuning.undo(None)) == "the last change undone"
    with pytest.raises(UsageError, match="norm 0"):
        tuning.clip(0.0, None)
    with pytest.raises(UsageError, match="'lr', 'weight_decay', 'clip_norm'"):
        tuning.release("momentum", None, None)
