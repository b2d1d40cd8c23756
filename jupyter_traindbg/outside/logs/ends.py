"""How launchers say in a log that processes of the job ended: torchrun in its summary of all hosts, all of them in single lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...model import LogEnd, LogLine
from ..launcher_log import said_in, signal_name

__all__ = ["ends"]

_RANK = re.compile(r"^\W*rank\s*:\s*(\d{1,6})\s*\(local_rank: \d+\)")
_CODE = re.compile(r"^\W*exitcode\s*:\s*(-?\d{1,4})\s*\(pid: (\d+)\)")
_TIME = re.compile(r"^\W*time\s*:\s*(\d{4}-\S+)")
_HOST = re.compile(r"^\W*host\s*:\s*(\S+)")
_FIRST = re.compile(r"Root Cause(?: \(first observed failure\))?:")
_ANCHORS = (
    "exitcode",
    "terminated with",
    "srun: error",
    "exited on signal",
    "exits with",
    "CalledProcess",
    "Segmentation fault",
    "Bus error",
    "Illegal instruction",
    "Floating point exception",
    "Aborted",
)
"""In every line that a launcher ends with; patterns cost too much for all."""
_MOST = 4096


def ends(lines: Sequence[LogLine]) -> list[LogEnd]:
    """Of the processes that a launcher tells of, the first failure first; 4,096 at most.

    Where a summary tells ranks of all hosts, messages of a line, which know local ranks alone, are left out.
    """
    found = list(_of_summary(lines)) or list(_of_lines(lines))
    return sorted(found, key=lambda e: (not e.first, e.time))[:_MOST]  # stable: then as they were told


def _of_summary(lines: Sequence[LogLine]) -> Iterator[LogEnd]:
    """torchrun's: a block for each process, the first failure at the end, under a headline of its own."""
    source, first, rank, host, time = -1, False, None, "", ""
    for line in lines:
        if line.source != source:
            source, first, rank, host, time = line.source, False, None, "", ""
        if _FIRST.search(line.text):
            first = True
        elif found := _TIME.match(line.text):
            time = found[1]
        elif found := _HOST.match(line.text):
            host = found[1]
        elif found := _RANK.match(line.text):
            rank = int(found[1])
        elif rank is not None and (found := _CODE.match(line.text)):
            code = int(found[1])
            name = signal_name(-code) if code < 0 else ""
            yield LogEnd(line, rank, None if name else code, name, int(found[2]), host, first, time)
            first, rank = False, None


def _of_lines(lines: Sequence[LogLine]) -> Iterator[LogEnd]:
    for line in lines:
        if any(anchor in line.text for anchor in _ANCHORS):
            for said in said_in(line.text):
                name, code = said.signal or "", said.exit_code
                if code is not None and code > 128 and not signal_name(code - 128).startswith("signal"):
                    name, code = signal_name(code - 128), None  # as a shell tells of a signal
                yield LogEnd(line, said.local_rank, code, name, said.pid, said.host)
