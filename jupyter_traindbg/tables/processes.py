"""A process of the job: a rank, a DataLoader worker or another one below it, watched for a second."""

from __future__ import annotations

from collections.abc import Iterator

from ..language import later
from ..model import Threads
from .base import Column, Question, Row, fields

COST = later("as `threads`, with which it is asked")
ASKS = (Question("threads"),)
COLUMNS = (
    Column("rank", int, later("the rank that it belongs to")),
    Column("pid", int, later("the process")),
    Column("role", str, later("`rank`, `DataLoader worker` or `child`")),
    Column("worker", str, later("what a Ray cluster calls it; NULL outside of one")),
    Column("command", str, later("its command line, without secrets")),
    Column("state", str, later("of its main thread: `running`, `waiting`, `stopped by a signal` ...")),
    Column("running_s", float, later("since when it runs")),
    Column("cpu_share", float, later("of one CPU, all its threads together: may be above 1")),
    Column("threads", int, later("how many threads it has")),
    Column("rss_bytes", int, later("resident memory")),
    Column("swap_bytes", int, later("what of it was swapped out")),
    Column("read_bytes_per_s", float, later("what it reads, of any kind")),
    Column("written_bytes_per_s", float, later("what it writes")),
    Column("major_faults_per_s", float, later("pages that had to be brought from a disk")),
)
_RATES = ("read_bytes_per_s", "written_bytes_per_s", "major_faults_per_s")


def rows(threads: Threads) -> Iterator[Row]:
    for process in threads.processes:
        use = process.use
        yield (
            fields(process, "rank", "pid", "role")
            | ({} if use is None else fields(use, "command", "state", "running_s", "rss_bytes", "swap_bytes", *_RATES))
            | {
                "worker": process.worker or None,
                "cpu_share": process.process_cpu_share,
                "threads": len(process.threads),
            }
        )
