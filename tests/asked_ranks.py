"""A job that is asked questions, its ranks' agents played by a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jupyter_traindbg.attach.base import Link
from jupyter_traindbg.model import RankSteps

__all__ = ["AskedRanks"]


class AskedRanks:
    """What `jupyter_traindbg.questions.base.Ranks` says; `answers` is its `ask_agents`, but for what else some ranks are asked with."""

    name = "4711"
    part = None

    def __init__(self, answers: Callable[..., Any], *, several: bool = True) -> None:
        self.several = several
        self.shown = 0
        self._answers = answers

    def ask_agents(
        self,
        method: str,
        params: Mapping[str, Any],
        timeout: float,
        build: Callable[[int, int, Any], Any],
        *,
        of_rank: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> Any:
        return self._answers(method, params, timeout, build, of_rank or {})

    def need_training(self, timeout: float) -> None:
        """It trains."""

    def open_links(self) -> list[Link]:
        return []

    def left_steps(self, since: int, last: int) -> list[RankSteps]:
        return []

    def steps_were_shown(self) -> None:
        self.shown += 1
