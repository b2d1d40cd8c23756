"""What launchers write when one of their processes has ended. Pure functions on lines of text."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

__all__ = ["Said", "endings", "said_in", "signal_name"]


@dataclass(frozen=True)
class Said:
    """One process of a launcher that has ended: with an exit code, or by a signal (``"SIGKILL"``). ``pid`` is 0 where it is not named."""

    local_rank: int | None
    """As the launcher counts: on its host, or (srun, mpirun), where it names the host, in the job."""
    exit_code: int | None
    signal: str | None
    pid: int = 0
    host: str = ""


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
"""strsignal(3), as srun and shells write it."""
_OF_WINDOWS = {
    0xC0000005: "SIGSEGV",
    0xC00000FD: "SIGSEGV",
    0xC000001D: "SIGILL",
    0xC0000094: "SIGFPE",
    0xC0000409: "SIGABRT",
}
"""NTSTATUS codes as exit statuses: access violation, stack overflow, illegal instruction, division by zero, fast fail."""

_CODE = r"(?P<code>-?\d+)"
_SAID = rf"(?P<words>{'|'.join(_WORDS)})"
_HOW = rf"(?:exit ?code:? ?{_CODE}|signal (?P<number>\d+)\b|(?:signal )?(?P<name>SIG[A-Z]+)|{_SAID})"
_FORMS = (
    # torchrun; torch/distributed/elastic/multiprocessing/api.py
    re.compile(rf"failed \(exitcode: {_CODE}\) local_rank: (?P<rank>\d+) \(pid: (?P<pid>\d+)\)"),
    # torch.multiprocessing.spawn
    re.compile(rf"process (?P<rank>\d+) terminated with {_HOW}"),
    # srun, alone or in a range: "srun: error: node7: tasks 1-3: Exited with exit code 1"
    re.compile(rf"srun: error: (?P<host>[\w.-]+): tasks? (?P<rank>\d+)(?:-(?P<last>\d+))?: (?:Exited with )?{_HOW}"),
    # mpirun
    re.compile(
        r"process rank (?P<rank>\d+) with PID (?P<pid>\d+) on node (?P<host>\S+) exited on signal (?P<number>\d+)"
    ),
    # DeepSpeed's launch.py
    re.compile(rf"--local_rank=(?P<rank>\d+)\b.*exits with return code = {_CODE}"),
    # accelerate and deepspeed, which run one command
    re.compile(
        rf"CalledProcessError: Command '.*' (?:died with <Signals\.(?P<name>SIG[A-Z]+)|returned non-zero exit status {_CODE})"
    ),
    # a shell: "/bin/sh: line 1: 4711 Segmentation fault (core dumped) python train.py", or without its name
    re.compile(rf"^\S+: (?:line \d+: )?\s*(?P<pid>\d+) {_SAID}\b|^(?P<dumped>{'|'.join(_WORDS)}) \(core dumped\)"),
)


def endings(lines: Iterable[str]) -> list[Said]:
    """What the lines say of processes that have ended, in their order. Negative exit codes are signals."""
    return [said for line in lines for said in said_in(line)]


def said_in(line: str) -> Iterator[Said]:
    """The same of one line; of a range of tasks one each."""
    for form in _FORMS:
        match = form.search(line)
        if match is None:
            continue
        known = match.groupdict()
        code = int(known["code"]) if known.get("code") else None
        name = known.get("name") or _WORDS.get(known.get("words") or known.get("dumped") or "")
        number = -code if code is not None and code < 0 else int(known.get("number") or 0)
        if number:
            code, name = None, signal_name(number)
        elif code is not None and code in _OF_WINDOWS:
            name, code = _OF_WINDOWS[code], None
        first = int(known["rank"]) if known.get("rank") else None
        last = int(known.get("last") or 0) if first is not None else 0
        for rank in range(first, max(first, last) + 1) if first is not None else (None,):
            yield Said(rank, code, name, int(known.get("pid") or 0), known.get("host") or "")
        return


def signal_name(number: int) -> str:
    """``"SIGKILL"`` for 9; ``"signal 40"`` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
