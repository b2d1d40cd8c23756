"""Questions to the agents of many processes of this host, with one deadline; brought in where there are none."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import TraindbgError
from . import process
from .base import LEAVE_S, Link, ask_each

__all__ = ["Question", "ask", "leave"]

Question = tuple[str, Mapping[str, Any]]
"""The name of a probe, and its parameters."""
Answers = dict[str, Any]
"""By the name of the probe: what it answered, or the `TraindbgError` that says why it did not."""

LINGER_S = 120.0
"""So long after the last question the agents stay: the next look is cheap then, and each can tell for how long it has seen what it sees."""

_links: dict[int, Link] = {}
_making = threading.Lock()
_linger: threading.Timer | None = None


def ask(questions: Mapping[int, Sequence[Question]], deadline_s: float = 5.0) -> dict[int, Answers | TraindbgError]:
    """What the agent in each process (by pid) answers to its questions, or why there is none.

    0.3 s for the first agent of a process; a few ms where it runs. The agents stay until `leave`, the end of this process, or until nothing
    has been asked for `LINGER_S`.
    """
    ends = time.monotonic() + deadline_s
    _set_timer(None)
    found: dict[int, Answers | TraindbgError] = {}
    links: list[Link] = []
    for pid in questions:
        link = _link(pid)
        if isinstance(link, TraindbgError):
            found[pid] = link
        else:
            links.append(link)
    answers = ask_each(links, lambda link: _ask(link, questions[link.pid], ends), ends - time.monotonic())
    _set_timer(LINGER_S)
    return {**found, **{link.pid: answer for link, answer in answers}}


def leave(pids: Iterable[int] | None = None) -> None:
    """Take our agents out again, of all processes or of `pids`; those that others use, too, stay."""
    with _making:
        gone = [_links.pop(pid) for pid in (list(_links) if pids is None else pids) if pid in _links]
    ask_each(gone, lambda link: link.leave(), LEAVE_S)


def _set_timer(after_s: float | None) -> None:
    """Leave after so many seconds in which nothing is asked; None: not while something is."""
    global _linger
    with _making:
        if _linger is not None:
            _linger.cancel()
            _linger = None
        if after_s is not None:
            _linger = threading.Timer(after_s, leave)
            _linger.daemon = True
            _linger.start()


def _link(pid: int) -> Link | TraindbgError:
    with _making:
        known = _links.get(pid)
        if known is None:
            try:
                known = _links[pid] = process.link(pid)
            except TraindbgError as e:
                return e
        return known


def _ask(link: Link, questions: Sequence[Question], ends: float) -> Answers:
    link.enter(max(0.1, ends - time.monotonic()))
    answers: Answers = {}
    for method, params in questions:
        try:
            answers[method] = link.call(method, dict(params), max(0.1, ends - time.monotonic()))
        except TraindbgError as e:
            answers[method] = e
    return answers
