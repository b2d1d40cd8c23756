"""What the environment of a job says: which variables do something, which do nothing, which harm here, where the ranks disagree.

The knowledge is in `diagnose.knowledge`, a row per variable with its source; what follows from the rows alone is in `table`. Which
values harm under which circumstances is in `meeting`, `watching` and `speed`. Pure: nothing is read but what is given. Costs 3 ms for
a few ranks, 0.1 s for 10,000.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...language import either, text
from ...model import EnvironRow, EnvironValue, Finding, Standing
from .. import knowledge
from ..knowledge import Variable
from . import meeting, speed, table, watching
from .setting import Judged, Setting, shown

__all__ = ["findings", "of_process", "rows"]

ORDER: tuple[Standing, ...] = (
    "harmful",
    "differs",
    "does nothing",
    "dead",
    "unknown",
    "old name",
    "unused here",
    "real",
)
SEVERITIES = ("critical", "warning", "info")


def findings(
    environ_by_rank: Mapping[int, Mapping[str, str]],
    *,
    backend: str | None,
    versions: Mapping[str, str],
    interfaces: Mapping[int, Sequence[str]] | None = None,
) -> list[Finding]:
    """What is wrong with the environment, what breaks the job first. All have the code ``environment``.

    ``critical``: the job cannot work like this. ``warning``: it harms. ``info``: it does nothing, or not what it was set for, or is a
    workaround that stayed: of interest only where somebody asks.

    `backend` is that of the job (``"nccl"``, ``"gloo"``, ``"cpu:gloo,cuda:nccl"``; None: not known); `versions` are those of ``torch``
    and ``nccl``, where known; `interfaces`, the names of the network interfaces that a rank sees.
    """
    setting = Setting(environ_by_rank, backend, versions, interfaces or {})
    return [judged.finding for judged in _judged(setting)]


def of_process(
    environ: Mapping[str, str], *, backend: str | None, versions: Mapping[str, str], interfaces: Sequence[str] | None
) -> list[Judged]:
    """The same of one process that is no rank (yet), each with the variables that it is about; evidence names no rank."""
    seen = {} if interfaces is None else {0: interfaces}
    return _judged(Setting({0: environ}, backend, versions, seen, of_ranks=False))


def rows(
    environ_by_rank: Mapping[int, Mapping[str, str]],
    *,
    backend: str | None,
    versions: Mapping[str, str],
    interfaces: Mapping[int, Sequence[str]] | None = None,
) -> list[EnvironRow]:
    """Every variable that is set on some rank, with what is known about it; the ones to look at first. Arguments as for `findings`.

    Values that look like secrets are hidden.
    """
    setting = Setting(environ_by_rank, backend, versions, interfaces or {})
    judged = _judged(setting)
    found = [_row(name, setting, [j for j in judged if name in j.names]) for name in setting.names]
    return sorted(found, key=lambda row: (ORDER.index(row.standing), row.name))


def _judged(setting: Setting) -> list[Judged]:
    found = [
        judged for rule in (*meeting.RULES, *watching.RULES, *speed.RULES, *table.RULES) for judged in rule(setting)
    ]
    return sorted(found, key=lambda judged: SEVERITIES.index(judged.finding.severity))


def _row(name: str, setting: Setting, about: Sequence[Judged]) -> EnvironRow:
    variable = knowledge.find(name)
    standing = _standing(name, variable, setting, about)
    values = tuple(EnvironValue(shown(name, value), ranks) for value, ranks in setting.values(name))
    advice = about[0].finding.next_steps[0] if about else ""
    if variable is None:
        meaning = text("not in our table: a plugin or a script of yours may read it")
        return EnvironRow(name, values, standing, text("not known"), meaning, advice)
    if variable.status in ("dead", "folklore", "old name") and standing not in ("harmful", "differs"):
        advice = either(variable.instead_en, variable.instead_zh)
    return EnvironRow(
        name, values, standing, variable.reader, either(variable.en, variable.zh), advice, variable.source
    )


def _standing(name: str, variable: Variable | None, setting: Setting, about: Sequence[Judged]) -> Standing:
    serious = [judged for judged in about if judged.finding.severity != "info"]
    if serious:
        return "differs" if serious[0].differs else "harmful"
    if variable is None:
        return "unknown"
    if variable.status == "folklore":
        return "does nothing"
    if variable.status == "dead" and setting.gone(variable):
        return "dead"
    if setting.unused(name):
        return "unused here"
    return "old name" if variable.status == "old name" else "real"
