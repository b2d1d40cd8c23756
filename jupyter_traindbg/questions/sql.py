"""Ask all ranks anything in SQL: steps, stacks, parameters, memory ... as tables; without a query, which tables and columns there are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from .. import tables
from ..errors import TraindbgError
from ..language import text
from ..model import Result, Silent, SqlColumn, SqlRows, SqlTable, SqlTables
from ..tables import duck
from ..tables.base import Probe, Question, Told, complete
from ..tasks import each
from ..words.ranks import compact_ranks
from .base import DEADLINE_S, Ranks, Whom

__all__ = ["ask", "listed"]

WHOM = Whom.OTHERS
MOST_ROWS = 65_536
"""Of one table, all ranks together: 50 us each, from the ranks into the answer."""
LEAST_EACH = 64
"""Of one rank, however many there are."""
RUN_SHARE = 0.15
"""The share of the time that is left to the query itself, at least."""
ASK_SHARE, GRACE_S = 0.8, 0.1
"""Who is asked has so much of the time that we wait, and says then which rank was late."""

Asked = Question | Probe
Answer = Any


def ask(job: Ranks, query: str, *, timeout: float = DEADLINE_S) -> SqlRows:
    """The rows of a query in SQL (DuckDB's) over the tables that `%sql` lists, all ranks in one table.

    Only the tables that `query` names are measured, all ranks at once; what is not available in a row is NULL, and its column
    ``not_available`` says why. Takes 0.1 s and what measuring takes (`SqlTable.cost`), at most `timeout`. It can only read: no files, no
    network; 100,000 rows and 1 GiB of memory at most. Raises `BadQuery` for a query that is wrong, `MissingPiece` without DuckDB.
    """
    began = time.monotonic()
    ends = began + timeout
    there = {name: tables.columns(name) for name in tables.names()}
    with duck.Query(query, there, ends) as asked:
        needed = asked.needs()
        measured = _Measured(job, needed, ends - RUN_SHARE * timeout)
        measured_s = time.monotonic() - began
        found = asked.run({name: [complete(row, there[name]) for row in measured.rows(name)] for name in needed})
    return SqlRows(
        query=query,
        columns=_distinct(found.columns),
        rows=tuple(tuple(row) for row in found.rows),
        tables=tuple(needed),
        more=found.more,
        silent=measured.silent,
        notes=tuple(dict.fromkeys(measured.notes())),
        measured_s=measured_s,
        taken_s=time.monotonic() - began,
    )


def listed() -> SqlTables:
    """The tables that there are, with their columns. Asks nobody."""
    return SqlTables(
        tuple(
            SqlTable(
                name,
                tables.meaning(name),
                text(tables.load(name).COST),
                tuple(SqlColumn(c.name, duck.sql_type(c.kind), text(c.meaning)) for c in tables.columns(name)),
            )
            for name in tables.names()
        )
    )


def _distinct(columns: Sequence[tuple[str, str]]) -> tuple[SqlColumn, ...]:
    """A query may give two columns one name: the second is ``NAME_2`` then."""
    taken: dict[str, int] = {}
    told = []
    for name, kind in columns:
        own = name
        while own in taken:
            taken[name] += 1
            own = f"{name}_{taken[name]}"
        taken[own] = 1
        told.append(SqlColumn(own, kind))
    return tuple(told)


# --- what a job is asked -------------------------------------------------------------------------------------------


class _Measured:
    """The answers that the tables of one query are made of; what several of them need is asked once."""

    def __init__(self, job: Ranks, needed: Sequence[str], ends: float) -> None:
        """Asks it all until `ends`. Raises why, where nothing was answered."""
        self._asks: dict[str, Sequence[Asked]] = {name: tables.load(name).ASKS for name in needed}
        wanted: list[Asked] = []
        for asks in self._asks.values():
            wanted += [one for one in asks if one not in wanted]
        self._answers = [(one, _kept(one, answer)) for one, answer in _answers(job, wanted, ends)]
        failed = [answer for _, answer in self._answers if isinstance(answer, TraindbgError)]
        if failed and len(failed) == len(self._answers):
            raise failed[0]

    def _of(self, name: str) -> list[Answer | TraindbgError]:
        """What was answered for the table `name`."""
        return [next(answer for other, answer in self._answers if other == one) for one in self._asks[name]]

    def rows(self, name: str) -> Iterator[Mapping[str, Any]]:
        """The rows of a table; none, where what it needs was not answered."""
        answers = self._of(name)
        return iter(()) if any(isinstance(a, TraindbgError) for a in answers) else tables.load(name).rows(*answers)

    @property
    def silent(self) -> tuple[Silent, ...]:
        """Who gave no answer, each once."""
        found: dict[tuple[int | None, int], Silent] = {}
        for _, answer in self._answers:
            for one in getattr(answer, "silent", ()):
                found.setdefault((one.rank, one.pid), one)
        return tuple(found.values())

    def notes(self) -> Iterator[str]:
        """Why tables are empty, and what ranks have to say of their answers."""
        for name in self._asks:
            for answer in self._of(name):
                if isinstance(answer, TraindbgError):
                    yield text("{table} is empty: {why}", table=name, why=answer)
                elif (failure := getattr(answer, "failure", None)) is not None:
                    yield text("{table} is empty: {why}", table=name, why=failure)
        for _, answer in self._answers:
            yield from _notes(answer)


def _notes(answer: Answer) -> Iterator[str]:
    """Each once, with the ranks that it is of."""
    if isinstance(answer, Told):
        noted = [(rank, told.get("note", "")) for rank, _, told in answer.answers]
    else:
        noted = [(getattr(one, "rank", 0), getattr(one, "note", "")) for one in getattr(answer, "ranks", ())]
    for note in dict.fromkeys(note for _, note in noted if note):
        ranks = compact_ranks([rank for rank, said in noted if said == note])
        yield text("{ranks}: {note}", ranks=ranks, note=note)


def _answers(job: Ranks, asked: Sequence[Asked], ends: float) -> Iterator[tuple[Asked, Answer | TraindbgError]]:
    """First what is answered at once, all at the same time; then, one after the other, what waits for a step, since it keeps the lines to
    the agents meanwhile: each with its share of the time that is left.
    """
    at_once = [one for one in asked if not one.waits]
    left_s = _left(ends)
    yield from each(at_once, lambda one: _asker(job, one)(ASK_SHARE * left_s), left_s, grace_s=GRACE_S)
    waiting = [one for one in asked if one.waits]
    for n, one in enumerate(waiting):
        left_s = _left(ends) / (len(waiting) - n)
        yield from each([one], lambda one, s=left_s: _asker(job, one)(ASK_SHARE * s), left_s, grace_s=GRACE_S)  # type: ignore[misc]


def _left(ends: float) -> float:
    return max(0.05, ends - time.monotonic())


def _asker(job: Ranks, asked: Asked) -> Callable[[float], Answer]:
    """What asks it, given so many seconds."""
    if isinstance(asked, Probe):
        return partial(_probe, job, asked)
    return partial(_question, job, asked)


def _question(job: Ranks, asked: Question, timeout: float) -> Result:
    keywords = dict(asked.keywords)
    if asked.share:
        ranks = max(1, len(job.attached(timeout=timeout).ranks))
        keywords[asked.share] = max(LEAST_EACH, MOST_ROWS // ranks)
    answer: Result = getattr(job, asked.name)(**keywords, timeout=timeout)
    return answer


def _probe(job: Ranks, asked: Probe, timeout: float) -> Told:
    keywords = {**asked.keywords, **({"deadline_s": 0.9 * timeout} if asked.waits else {})}

    def build(rank: int, pid: int, answer: Any) -> tuple[int, int, Mapping[str, Any]]:
        return rank, pid, answer

    return Told(*job.ask_agents(asked.name, keywords, timeout, build))


def _kept(asked: Asked, answer: Answer | TraindbgError) -> Answer | TraindbgError:
    """There are rows also without what is `Probe.optional`, also where nobody answered it in time."""
    optional = isinstance(asked, Probe) and asked.optional
    return Told((), problem=answer.cause) if optional and isinstance(answer, TraindbgError) else answer
