"""The command lines of the launcher and the ranks, their working directories, since when they run and in what state they are."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...outside import procfs
from ...words.durations import age
from ..context import Context, Part, Unavailable

if TYPE_CHECKING:
    from ...render.blocks import Block, Inline

TITLE = "Processes and command lines"
ORDER = 52
FROM_JOB = False
AFTER = ""
_STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "uninterruptible sleep",
    "T": "stopped",
    "t": "traced",
    "Z": "ended",
    "X": "ended",
}


def collect(context: Context) -> Part:
    subject = context.subject
    named = [("launcher", subject.launcher_pid)] if subject.launcher_pid else []
    seen = [*named, *((f"rank {rank}", pid) for rank, pid in sorted(subject.pids.items()))]
    if not seen:
        raise Unavailable("there is no process of a job to look at")
    rows = [_seen(who, pid, stuck=pid in context.stuck) for who, pid in seen]
    text = "".join(
        f"{r['who']} · pid {r['pid']} · {r['state']}\n  cwd  {r['cwd']}\n  exec {r['shown']}\n" for r in rows
    )
    return Part(
        f"{len(rows)} process{'es' * (len(rows) != 1)}",
        texts={"commands.txt": text},
        data={"processes": rows},
        issue=[f"Command: `{r['shown']}`" for r in rows if r["shown"]][:1],
        missing=[f"{r['who']} (pid {r['pid']}): {r['state']}" for r in rows if r["state"] in ("gone", "ended")],
        learn=[list(r["words"]) for r in rows],
    )


def draw(data: Mapping[str, Any]) -> list[Block]:
    """One row a process."""
    from ...render.blocks import Column, Span, Table

    columns = [
        Column("who"),
        Column("pid", right=True),
        Column("state"),
        Column("for", right=True),
        Column("command", wrap=True),
    ]
    rows: list[list[Inline]] = [
        [Span(r["who"], "strong"), str(r["pid"]), r["state"], r["since"], Span(r["shown"] or "–", "code")]
        for r in data["processes"]
    ]
    return [Table("Processes", columns, rows, 24, "processes")]


def _seen(who: str, pid: int, *, stuck: bool) -> dict[str, str]:
    process = procfs.stat(pid)
    words = () if stuck or process is None else procfs.command(pid)
    return {
        "who": who,
        "pid": str(pid),
        "state": "gone" if process is None else _STATES.get(process.state, process.state),
        "since": "" if process is None else age(procfs.running_s(process)),
        "cwd": _cwd(pid),
        "shown": shlex.join(words),
        "words": words,  # type: ignore[dict-item]
    }


def _cwd(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return "not known"
