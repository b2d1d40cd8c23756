"""Stacks by an agent, else from outside; who asks is told why an agent is mute before the look from outside, which may fail as well."""

from __future__ import annotations

import time
from typing import Any

import pytest

from jupyter_traindbg.attach.base import Link
from jupyter_traindbg.errors import DeadlineExceeded, MissingPiece, TraindbgError
from jupyter_traindbg.gather import stacks


class Mute:
    """An agent that does not answer."""

    def call(self, *_: Any) -> Any:
        raise DeadlineExceeded("no answer")


def test_why_an_agent_is_mute_is_told_though_nobody_can_look_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing_to_look_with(*_: Any, **__: Any) -> Any:
        raise MissingPiece("py-spy is not installed", "")

    monkeypatch.setattr(stacks.outside, "dump", nothing_to_look_with)
    link = Link(41, lambda s: None)  # type: ignore[arg-type, return-value]
    why: list[TraindbgError] = []
    with pytest.raises(MissingPiece):
        stacks.of(link, Mute(), time.monotonic() + 1.0, children=False, mute=why.append)  # type: ignore[arg-type]
    assert [type(error) for error in why] == [DeadlineExceeded]
