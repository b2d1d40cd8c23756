"""The environment that decides how the training runs, what is known about each variable, and where ranks differ. From /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from ...diagnose import environment
from ...model import Environ, Result
from ...outside import procfs
from ..context import Context, Part

TITLE = "Environment"
ORDER = 56
FROM_JOB = False
AFTER = ""


def collect(context: Context) -> Part:
    if "environ" in context.subject.questions:
        result, note = context.ask("environ"), []
        text = _listed({f"rank {rank}": procfs.whole_environ(pid) for rank, pid in sorted(context.readable.items())})
    else:
        whole = dict(os.environ)
        training = {name: value for name, value in whole.items() if procfs.TRAINING_ENV.fullmatch(name)}
        result = _ours(training)
        note = ["the job's own environment: there is no process of it; this is the one that the report was made in"]
        text = _listed({"the report's own process": whole})
    rows = getattr(result, "rows", ())
    odd = [row.name for row in rows if row.standing not in ("real", "unused here")]
    return Part(
        f"{len(rows):,} variable{'s' * (len(rows) != 1)} of training, {len(odd)} to look at",
        results=[result],
        texts={"environment.txt": text} if text else {},
        missing=note,
        learn=[dict(os.environ), *map(procfs.whole_environ, context.all_pids)],
    )


def _ours(training: dict[str, str]) -> Result:
    rows = environment.rows({0: training}, backend=None, versions={})
    return Environ("this machine", (0,), tuple(rows))


def _listed(environs: Mapping[str, Mapping[str, str]]) -> str:
    """What all have, then what is different for each. Only what has to do with training: the rest is nobody's business."""
    training = [
        {(n, v) for n, v in environ.items() if procfs.TRAINING_ENV.fullmatch(n)} for environ in environs.values()
    ]
    shared = set.intersection(*training) if training else set()
    lines = [f"# {', '.join(environs)}", *_lines(shared)]
    for whose, own in zip(environs, training, strict=True):
        lines += [f"# {whose}", *_lines(own - shared)] if own - shared else []
    return "\n".join(lines) + "\n"


def _lines(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{name}={value}" for name, value in sorted(pairs)]
