"""What launchers write when one of their processes has ended. Pure functions on lines of text."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

__all__ = ["Said", "endings"]


@dataclass(frozen=True)
class Said:
    """One process of a launcher that has ended: with an exit code, or by a signal (``"SIGKILL"``). ``pid`` is 0 where it is not named."""

    local_rank: int
    exit_code: int | None
    signal: str | None
    pid: int = 0


_WORDS = {
    "Killed": "SIGKILL",
    "Terminated": "SIGTERM",
    "Segmentation fault": "SIGSEGV",
    "Aborted": "SIGABRT",
    "Bus error": "SIGBUS",
    "Floating point exception": "SIGFPE",
    "Illegal instruction": "SIGILL",
    "Hangup": "SIGHUP",
}
"""strsignal(3), as srun writes it."""

_CODE = r"(?P<code>-?\d+)"
_HOW = (
    rf"(?:exit ?code:? ?{_CODE}|signal (?P<number>\d+)\b|(?:signal )?(?P<name>SIG[A-Z]+)|(?P<words>{'|'.join(_WORDS)}))"
)
_FORMS = (
    # torchrun; torch/distributed/elastic/multiprocessing/api.py
    re.compile(rf"failed \(exitcode: {_CODE}\) local_rank: (?P<rank>\d+) \(pid: (?P<pid>\d+)\)"),
    # torch.multiprocessing.spawn
    re.compile(rf"process (?P<rank>\d+) terminated with {_HOW}"),
    # srun, alone or in a range: "srun: error: node7: tasks 1-3: Exited with exit code 1"
    re.compile(rf"\btasks? (?P<rank>\d+)(?:-(?P<last>\d+))?: (?:Exited with )?{_HOW}"),
    # DeepSpeed's launch.py
    re.compile(rf"--local_rank=(?P<rank>\d+)\b.*exits with return code = {_CODE}"),
)


def endings(lines: Iterable[str]) -> list[Said]:
    """What the lines say of processes that have ended, in their order. Negative exit codes are signals."""
    return [said for line in lines for said in _of(line)]


def _of(line: str) -> Iterator[Said]:
    for form in _FORMS:
        match = form.search(line)
        if match is None:
            continue
        known = match.groupdict()
        code = int(known["code"]) if known.get("code") else None
        name = known.get("name") or _WORDS.get(known.get("words") or "")
        number = -code if code is not None and code < 0 else int(known.get("number") or 0)
        if number:
            code, name = None, signal_name(number)
        first = int(known["rank"])
        for rank in range(first, int(known.get("last") or first) + 1):
            yield Said(rank, code, name, int(known.get("pid") or 0))
        return


def signal_name(number: int) -> str:
    """``"SIGKILL"`` for 9; ``"signal 40"`` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
