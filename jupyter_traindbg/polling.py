"""Ask the ranks of a job again and again for their new steps: over lines of its own, beside whatever else it is asked."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from .attach.base import LEAVE_S, Link, ask_each
from .attach.client import AgentClient
from .errors import DeadlineExceeded, TargetGone, TraindbgError
from .evidence import words_of
from .model import Doing, DoingKind, NewSteps

__all__ = ["Poller"]


class Poller:
    """Lines to the ranks of one job on this host. Another question that takes long, on the job's own lines, holds nothing up here."""

    def __init__(self, links: Sequence[Link]) -> None:
        self._links = [link.twin() for link in links]
        self._entered: set[int] = set()
        self._told: dict[int, float] = {}
        """By pid: the time of the last change that its agent has told of."""

    def poll(self, since: Mapping[int, int] | None, timeout: float) -> list[NewSteps]:
        """The steps after number ``since[rank]`` of each rank named there (None: all steps of all), asked at once; who gives none says why.

        About 0.3 ms a rank, at most `timeout` seconds. An agent is brought in once; one that has been taken out since is not brought
        in again. Raises nothing but programming errors.
        """
        links = [link for link in self._links if since is None or link.rank in since]
        answers = ask_each(
            links, lambda link: self._ask(link, 0 if since is None else since[link.rank], timeout), timeout
        )
        return [
            NewSteps(link.rank, link.pid, problem=answer.cause) if isinstance(answer, TraindbgError) else answer
            for link, answer in answers
        ]

    def close(self) -> None:
        """Hang up. An agent whose last client this was takes itself out."""
        links, self._links = self._links, []
        ask_each(links, lambda link: link.leave(), LEAVE_S)

    def _ask(self, link: Link, since: int, timeout: float) -> NewSteps:
        if (ended := link.ended()) is not None:
            link.hang_up()
            return NewSteps(link.rank, link.pid, problem=ended.cause, gone=True)
        ends = time.monotonic() + timeout
        if (client := self._client(link, timeout)) is None:
            return NewSteps(link.rank, link.pid, problem="its agent has been taken out")
        try:
            told = self._told.get(link.pid, 0.0)
            answer = client.call(
                "steps",
                {"since": since, "deadline_s": 0.0, "changes_since_s": told},
                max(0.05, ends - time.monotonic()),
            )
        except (TargetGone, DeadlineExceeded) as e:
            if isinstance(e, TargetGone):
                link.hang_up()
            return NewSteps(link.rank, link.pid, problem=e.cause, gone=link.ended() is not None)
        self._entered.add(link.pid)
        doings = _doings(answer)
        self._told[link.pid] = max([told, *(d.time_s for d in doings)])
        return NewSteps(
            link.rank,
            link.pid,
            answer["fields"],
            answer["records"],
            answer["step"],
            doings=doings,
            between_cells=answer.get("between_cells", False),
            told_s=answer.get("time_s"),
            backwards=answer["meanwhile"]["backwards"] if "meanwhile" in answer else 0,
        )

    def _client(self, link: Link, timeout: float) -> AgentClient | None:
        return link.answering() if link.pid in self._entered else link.enter(timeout)


def _doings(answer: Mapping[str, Any]) -> list[Doing]:
    changes = [Doing(_kind(c), c["time_s"], c["step"], words_of(c["change"])) for c in answer.get("changes", ())]
    saved = [Doing("checkpoint", s["time_s"], s["step"], s["directory"]) for s in answer.get("saved", ())]
    return sorted([*changes, *saved], key=lambda doing: doing.time_s)


def _kind(change: Mapping[str, Any]) -> DoingKind:
    """The setting that a change was of, also one of "all": an older agent does not tell which these were."""
    settings = {change["change"]["setting"], *change.get("settings", ())} - {None}
    return settings.pop() if len(settings) == 1 else "settings"
