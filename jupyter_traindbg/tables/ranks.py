"""A rank of the job, also one that does not answer: then `not_available` says why."""

from __future__ import annotations

from collections.abc import Iterator

from ..language import later, text
from ..model import Attached, NotAvailable
from .base import Column, Probe, Question, Row, Told, fields

COST = later("0.3 ms a rank; 0.1 to 1 s where the job has not been entered yet")
ASKS = (Question("attached"), Probe("info", optional=True))
COLUMNS = (
    Column("rank", int, later("the rank; in a Ray job also the number of a worker that does not train")),
    Column("world_size", int, later("how many ranks there are")),
    Column("pid", int, later("its process")),
    Column("worker", str, later("what a Ray cluster calls it; empty outside of one")),
    Column("host", str, later("the host that it is on, where that is another one")),
    Column("way", str, later("how the agent got in, or `outside only`")),
    Column("answers", bool, later("whether its agent has answered just now")),
    Column("step", int, later("steps recorded since the attach")),
    Column("usual_step_s", float, later("how long its steps usually take")),
    Column("since_last_step_s", float, later("how long ago its last step was")),
    Column("python", str, later("version of Python")),
    Column("torch", str, later("version of torch")),
    Column("frameworks", list[str], later("which frameworks are loaded")),
    Column("attached_s", float, later("when the agent came, in seconds since the epoch")),
    Column("note", str, later("what has to be said of it")),
)
_NO_STEP = later("no step has been seen since the attach")


def rows(attached: Attached, info: Told) -> Iterator[Row]:
    told = {(rank, pid): answer for rank, pid, answer in info.answers}
    silent = {(one.rank, one.pid): one.reason for one in info.silent}
    for rank in attached.ranks:
        row = fields(rank, "rank", "world_size", "pid", "way", "python", "torch", "frameworks")
        row |= {"worker": rank.worker or None, "host": rank.host or None}
        answer = told.get((rank.rank, rank.pid))
        if answer is None:
            gone = NotAvailable(
                silent.get((rank.rank, rank.pid)) or rank.note or info.problem or text("it was not asked")
            )
            yield row | {
                "answers": False,
                "step": gone,
                "usual_step_s": gone,
                "since_last_step_s": gone,
                "attached_s": gone,
                "note": None if rank.note == gone.reason else rank.note or None,
            }
            continue
        no_step = NotAvailable(text(_NO_STEP))
        yield row | {
            "answers": True,
            "step": answer["step"],
            "usual_step_s": no_step if answer["usual_step_s"] is None else answer["usual_step_s"],
            "since_last_step_s": no_step if answer["since_last_step_s"] is None else answer["since_last_step_s"],
            "attached_s": answer["started_s"],
            "note": rank.note or None,
        }
