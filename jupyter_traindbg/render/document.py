"""From a result to what is shown of it: its answer first, then what is wrong, then who did not answer, then the rest of its view."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..language import counted, pgettext, text
from ..model import Finding, Problem, Result, Silent
from ..words.ranks import compact_ranks, rank_list
from .blocks import Answer, Block, Card, Inline, Line, Pair, Pairs, Span
from .grouping import group_by, hosts_of

__all__ = ["document", "view_of"]

View = Callable[[Any], Iterable[Block]]
"""From a result to its blocks, the first of them an `Answer`."""


def document(result: Result, findings: Sequence[Finding] | None = None) -> list[Block]:
    """All blocks of `result`, in reading order; with `findings`, of what is wrong only these, since the others are told elsewhere."""
    answer, *details = view_of(type(result))(result)
    blocks = list(_failed(result.failure, answer)) if result.failure else [answer]
    wrong = result.findings if findings is None else findings
    if wrong:
        from .findings import verdict

        blocks.append(verdict(wrong))
    return [*blocks, *silences(getattr(result, "silent", ())), *details]


def _failed(failure: Problem, answer: Block) -> Iterator[Block]:
    """Nothing was measured: that is the answer then."""
    assert isinstance(answer, Answer)
    why = text("nothing could be measured: ")
    yield Answer([why, failure.cause], answer.about, "bad")
    if failure.next_step:
        yield Line(_next(failure.next_step))


def _next(step: str) -> Inline:
    return [Span(text("next: "), "strong"), step]


def view_of(kind: type[Result]) -> View:
    """The view of a result class, else of a class that it extends, else the plain one."""
    for ancestor in kind.__mro__:
        name = f"{__package__}.views.{_snake(ancestor.__name__)}"
        if ancestor is not Result and ancestor is not object and importlib.util.find_spec(name) is not None:
            view: View = importlib.import_module(name).view
            return view
    from .plain import view as plain

    return plain


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def silences(silent: Sequence[Silent]) -> Iterator[Block]:
    """Who gave no answer, why, and what to do; once where the reason is the same."""
    if not silent:
        return
    pairs: list[Pair] = []
    for same in group_by(silent, lambda s: (_without_pid(s, s.reason), _without_pid(s, s.next_step))):
        lines: list[Inline] = [same[0].reason if len(same) == 1 else _without_pid(same[0], same[0].reason)]
        if same[0].next_step:
            step = same[0].next_step if len(same) == 1 else _without_pid(same[0], same[0].next_step)
            lines.append(_next(step))
        pairs.append(Pair(_who(same), lines))
    title = Span(text("no answer"), "warn")
    who = _who(silent)
    yield Card([title, f" · {who}" if who else ""], [Pairs(pairs)], "warn", "▲")


def _without_pid(silent: Silent, words: str) -> str:
    """The reason of one rank, so that it equals its neighbour's: ``process 4711 has ended`` differs only in the pid."""
    return re.sub(rf"\b{silent.pid}\b", "PID", words)


def _who(silent: Sequence[Silent]) -> str:
    ranks = [s.rank for s in silent if s.rank is not None]
    pids = [s.pid for s in silent if s.rank is None and s.pid]
    hosts = hosts_of(s.host for s in silent)
    named = [compact_ranks(ranks)] if ranks else []
    if len(silent) == 1 and ranks:
        named = [text("rank {rank}, pid {pid}", rank=ranks[0], pid=silent[0].pid)]
    if hosts:
        named.append(hosts)
    if pids:
        named.append(counted("pid {pids}", "pids {pids}", len(pids), pids=rank_list(pids)))
    return pgettext("list", ", ").join(named)
