"""The environment that decides how the training runs, what is known about each variable, and where ranks differ. From /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...diagnose import environment
from ...model import Environ, Result
from ...outside import procfs
from ..context import Context, Part

TITLE = "Environment"
ORDER = 56
FROM_JOB = False
AFTER = ""


def collect(context: Context) -> Part:
    subject = context.subject
    learn = _values([os.environ, *map(procfs.whole_environ, context.all_pids)])
    if subject.elsewhere:  # their variables are listed there
        return _part(context.ask("environ"), {}, [], learn)
    by_rank = {rank: _training(procfs.whole_environ(pid)) for rank, pid in sorted(context.readable.items())}
    named = {f"rank {rank}": environ for rank, environ in by_rank.items()}
    if "environ" in subject.questions:
        return _part(context.ask("environ"), named, [], learn)
    if by_rank:
        return _part(_judged(subject.name, by_rank), named, [], learn)
    note = "the job's own environment: there is no process of it; this is the one that the report was made in"
    own = _training(os.environ)
    return _part(_judged("this machine", {0: own}), {"the report's own process": own}, [note], learn)


def _part(
    result: Result, environs: Mapping[str, Mapping[str, str]], missing: Sequence[str], learn: Mapping[str, Any]
) -> Part:
    rows = getattr(result, "rows", ())
    odd = [row.name for row in rows if row.standing not in ("real", "unused here")]
    return Part(
        f"{len(rows):,} variable{'s' * (len(rows) != 1)} of training, {len(odd)} to look at",
        results=[result],
        texts={"environment.txt": _listed(environs)} if environs else {},
        data={"variables": dict(sorted(_shared(environs.values())))},
        missing=missing,
        learn=learn,
    )


def _values(environs: Iterable[Mapping[str, str]]) -> dict[str, list[str]]:
    """Every value of every variable, once: eight ranks have the same ones mostly."""
    found: dict[str, dict[str, None]] = {}
    for name, value in (pair for environ in environs for pair in environ.items()):
        found.setdefault(name, {})[value] = None
    return {name: list(values) for name, values in found.items()}


def _judged(name: str, by_rank: Mapping[int, Mapping[str, str]]) -> Result:
    """What is known of the variables of processes that nobody can be asked about."""
    return Environ(name, tuple(by_rank), tuple(environment.rows(by_rank, backend=None, versions={})))


def _training(environ: Mapping[str, str]) -> dict[str, str]:
    """What has to do with training: the rest is nobody's business."""
    return {name: value for name, value in environ.items() if procfs.TRAINING_ENV.fullmatch(name)}


def _shared(environs: Iterable[Mapping[str, str]]) -> set[tuple[str, str]]:
    each = [set(environ.items()) for environ in environs]
    return set.intersection(*each) if each else set()


def _listed(environs: Mapping[str, Mapping[str, str]]) -> str:
    """What all have, then what is different for each."""
    shared = _shared(environs.values())
    lines = [f"# {', '.join(environs)}", *_lines(shared)]
    for whose, environ in environs.items():
        own = set(environ.items()) - shared
        lines += [f"# {whose}", *_lines(own)] if own else []
    return "\n".join(lines) + "\n"


def _lines(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{name}={value}" for name, value in sorted(pairs)]
