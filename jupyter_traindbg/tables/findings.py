"""Something that is wrong with the job, as `%diagnose` finds it, the root cause first."""

from __future__ import annotations

from collections.abc import Iterator

from ..language import later
from ..model import Diagnosis
from ..redact import Redactor
from .base import Column, Question, Row, fields

COST = later("2 to 4 s: all ranks are watched, and one pass over the gradients on the training thread")
ASKS = (Question("diagnose", waits=True),)
COLUMNS = (
    Column("number", int, later("1 is the root cause")),
    Column("code", str, later("what kind of thing it is")),
    Column("severity", str, later("`critical`, `warning` or `info`")),
    Column("title", str, later("it, in one line")),
    Column("who", list[str], later("whom or what it blames")),
    Column("ranks", list[int], later("the ranks among these: `join ranks r on list_contains(f.ranks, r.rank)`")),
    Column("location", str, later("where: `file:line function`")),
    Column("cause", str, later("why")),
    Column("evidence", list[str], later("by what it is known")),
    Column("next_steps", list[str], later("what to do")),
    Column("confidence", str, later("`high`, `medium` or `low`")),
    Column("job_state", str, later("what the job does altogether: `healthy`, `stuck`, `slow` ...")),
)


def rows(diagnosis: Diagnosis) -> Iterator[Row]:
    verdict = Redactor().value(list(diagnosis.verdict))  # one may cite a command line or a variable
    for number, finding in enumerate(verdict, 1):
        yield {
            **fields(finding, "code", "severity", "title", "who", "ranks", "cause", "evidence", "next_steps"),
            **fields(finding, "confidence"),
            "number": number,
            "location": finding.where,
            "job_state": diagnosis.state,
        }
