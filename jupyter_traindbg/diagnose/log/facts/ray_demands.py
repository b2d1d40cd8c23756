"""What waits according to Ray's tables of usage and demands (`ray status`, the autoscaler's log): for ever, or in a queue that moves.

A demand that the cluster could hold, and that waits for what is in use, is how Ray always works: the next task starts as one ends. It is
a failure where the cluster is too small for it, where it waits although enough is free (no single node has it), where a whole placement
group waits, and where the same is said again minutes later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ....language import text
from ....model import LogEvidence, LogLine
from ..progress import progress_of
from ..quantities import Quantity, captured
from . import Fact

__all__ = ["facts", "queued"]

ANCHORS = ("autoscaler status:", "usage:")
"""With the lines after them, which have the figures."""
_BEGINS = re.compile(
    r"Autoscaler status: ?(?:\d{4}-\d\d-\d\d[ T](\d\d):(\d\d):(\d\d))?|^\W*(?:Total )?Usage:\s*$|^\W*Node status\s*$"
)
_FIGURE = r"\d{1,9}(?:\.\d{1,6})?(?:[KMGT]?i?B)?"
_USED = re.compile(rf"^\W*({_FIGURE})/({_FIGURE})\s{{1,9}}([A-Za-z][\w:.-]{{0,60}})")
_DEMAND = re.compile(
    r"\{(?P<of>[^}\n]{3,120})\}(?: \* (?P<times>\d{1,6}))?(?: \((?P<strategy>\w{3,20})\))?:\s*(?P<count>[1-9]\d{0,8})\+?"
    r"\s{1,9}pending\s{1,9}(?P<what>tasks/actors|placement groups)"
)
_AMOUNT = re.compile(r"'([\w:.-]{1,60})': ?(\d{1,18}(?:\.\d{1,6})?)")
_TOTALS = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)/(\d{1,9}(?:\.\d{1,6})?) ([CG]PU)s")
"""As Tune has it: "Logical resource usage: 4.0/4 CPUs, 0/1 GPUs"."""
_SECTION = re.compile(r"^\W*([A-Z][\w ]{2,30}):\s*$|^\W*-{5,}|^\W*Resources\s*$")
_NODE = re.compile(r"^\s*[A-Za-z0-9]")
"""In the section of pending nodes, where "(no pending nodes)" is in brackets."""
_ADDS = re.compile(r"\bAdding \d{1,6} node")
_ALWAYS = ("CPU", "GPU")
"""What the table has no line for, the cluster has none of. Of other resources that is not known: a node's own are not in the table."""
_BYTES = ("memory", "object_store_memory")
STANDING_S = 600.0
"""So long between two tables with the same demand, none of it met. Tasks may take some minutes each."""
_DAY_S = 86400.0


@dataclass(frozen=True)
class _Demand:
    line: LogLine
    words: str
    each: Mapping[str, float]
    times: int
    count: int
    group: bool


@dataclass
class _Table:
    second: float | None
    """Of the day."""
    used: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By resource: in use, and there in all."""
    demands: list[_Demand] = field(default_factory=list)
    launching: bool = False

    def lacking(self, demand: _Demand) -> tuple[str, float, float] | None:
        """The resource of which the cluster has too little for `demand`, what is asked for, and what is there."""
        for name, amount in demand.each.items():
            known = name in self.used or (self.used and name in _ALWAYS)
            asked, there = amount * demand.times, self.used.get(name, (0.0, 0.0))[1]
            if known and asked > there:
                return name, asked, there
        return None

    def free(self, demand: _Demand) -> bool:
        """Whether the cluster has, on all nodes together, what `demand` asks for."""
        of = ((*self.used.get(name, (0.0, 0.0)), amount * demand.times) for name, amount in demand.each.items())
        return all(total - used >= asked for used, total, asked in of)


def facts(evidence: LogEvidence) -> list[Fact]:
    """`demands_unmet` of the last table of each source: `demand`, `pending_count`, `times_count`; `lacking` of which there are
    `lacking_there` for `lacking_asked`; `standing_s` where an earlier table has it, too. Not where the job goes on after it."""
    progress = progress_of(evidence)
    found = []
    for tables in _by_source(evidence):
        waits = [
            d
            for d in tables[-1].demands
            if not progress.after(d.line) and (_stands(tables, d) or not _queues(tables[-1], d))
        ]
        first = next((d for d in waits if tables[-1].lacking(d)), waits[0] if waits else None)
        if first is not None:
            found.append(_fact(tables, first))
    return found


def queued(evidence: LogEvidence) -> str:
    """In words, what only waits for its turn: the first such demand of the last table of a source. Empty where there is none."""
    for tables in _by_source(evidence):
        table = tables[-1]
        for demand in table.demands:
            if _queues(table, demand) and not table.launching and not _stands(tables, demand):
                return _turn(demand, _in_use(table, demand))
    return ""


def _turn(demand: _Demand, in_use: str) -> str:
    return text(
        "Ray: {{{words}}} is waited for, {count} times, until what is in use is free ({in_use}). Tasks "
        "get their turn as others end; actors keep what they have, so that actors that wait may never "
        "start: `%ray_workers` tells which of both it is",
        words=demand.words,
        count=demand.count,
        in_use=in_use,
    )


def _by_source(evidence: LogEvidence) -> list[list[_Table]]:
    with_demands = {line.source for line in evidence.lines if "pending" in line.text and _DEMAND.search(line.text)}
    sources: dict[int, list[LogLine]] = {source: [] for source in with_demands}
    for line in evidence.lines:
        if line.source in sources:
            sources[line.source].append(line)
    tables = ([t for t in _tables(lines) if t.demands] for lines in sources.values())
    return [of for of in tables if of]


def _tables(lines: Sequence[LogLine]) -> Iterator[_Table]:
    """All of one source, those without a title or without a list of usage, too."""
    table, section = _Table(None), ""
    for line in lines:
        if header := _SECTION.search(line.text):
            section = header[1] or ""
        begins = _BEGINS.search(line.text)
        if begins and (begins[1] or table.used or table.demands):
            yield table
            table = _Table(_second(begins))
        elif demand := _DEMAND.search(line.text):
            table.demands.append(_demand(line, demand))
        elif used := [*_USED.findall(line.text), *_TOTALS.findall(line.text)]:
            if table.demands:  # the next table, whose title is not there
                yield table
                table = _Table(None)
            table.used |= {name: (_amount(in_use), _amount(there)) for in_use, there, name in used}
        elif _ADDS.search(line.text) or (section == "Pending" and not header and _NODE.match(line.text)):
            table.launching = True
    yield table


def _amount(figure: str) -> float:
    """A plain number, or the bytes of ``"1.50GiB"``: demands have bytes."""
    read = captured("used_bytes", figure)
    return read.value if isinstance(read, Quantity) else 0.0


def _second(begins: re.Match[str]) -> float | None:
    hours, minutes, seconds = begins.groups()
    return int(hours) * 3600.0 + int(minutes) * 60.0 + int(seconds) if hours else None


def _demand(line: LogLine, match: re.Match[str]) -> _Demand:
    each = {name: float(amount) for name, amount in _AMOUNT.findall(match["of"])}
    group = match["what"] != "tasks/actors"
    return _Demand(line, match["of"], each, int(match["times"] or 1), int(match["count"]), group)


def _queues(table: _Table, demand: _Demand) -> bool:
    """Whether it gets its turn as others end, or as nodes come that are being started."""
    if table.launching:
        return True
    known = all(name in table.used for name in demand.each) and bool(demand.each)
    return known and not demand.group and table.lacking(demand) is None and not table.free(demand)


def _stands(tables: Sequence[_Table], demand: _Demand) -> float:
    """For how many seconds no request of this kind has been met; 0 where that is not known, or where it was."""
    last = tables[-1].second
    since = last
    for table in reversed(tables[:-1]):
        same = [d for d in table.demands if d.words == demand.words and d.times == demand.times]
        if table.second is None or not same or same[0].count != demand.count or table.used != tables[-1].used:
            break
        since = table.second
    waited = (last - since) % _DAY_S if last is not None and since is not None else 0.0
    return waited if waited >= STANDING_S else 0.0


def _fact(tables: Sequence[_Table], demand: _Demand) -> Fact:
    values: dict[str, float | str] = {"demand": demand.words, "pending_count": demand.count}
    if demand.times > 1:
        values["times_count"] = demand.times
    if lacks := tables[-1].lacking(demand):
        name, asked, there = lacks
        values |= {"lacking": name, "lacking_asked": _figure(name, asked), "lacking_there": _figure(name, there)}
    if stands := _stands(tables, demand):
        values["standing_s"] = stands
    in_use = _in_use(tables[-1], demand)
    return Fact("demands_unmet", demand.line, values, words=text("in use: {in_use}", in_use=in_use) if in_use else "")


def _in_use(table: _Table, demand: _Demand) -> str:
    """``"8 of 8 CPU"`` of what the demand asks for."""
    rows = ((name, *table.used[name]) for name in demand.each if name in table.used)
    figures = ((name, _figure(name, used), _figure(name, there)) for name, used, there in rows)
    return ", ".join(
        text("{used} of {there} {name}", used=used, there=there, name=name) for name, used, there in figures
    )


def _figure(resource: str, amount: float) -> str:
    return str(Quantity(amount, "bytes" if resource in _BYTES else ""))
