"""How a rank that is gone has ended, from what it left: a zombie, its launcher, logs, the kernel's messages, its control group.

The exit status of a process is told to its parent only. It can be had otherwise while the parent has not asked (a zombie), where the parent
wrote it to a log, or by what the parent did not do: torchrun ends all ranks when one fails. Everything else is `NotAvailable`.
"""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..language import text
from ..model import Ending, Frame, Look, Maybe, NotAvailable
from ..terminal_codes import plain
from . import kernel_log, launcher_log, procfs
from .launcher_log import Said, signal_name
from .memory_limit import group_folders
from .rank_lines import lines_of

__all__ = ["Endings", "Noted", "clean_tail", "exit_status", "oom_kills"]

LINES = 20
LAST_WORDS = 200
"""So many lines hold a traceback through the libraries and the one that it was raised from."""
FEW_LOGS = 8
TAIL_BYTES = 256 * 1024
_NOT_KNOWN = NotAvailable("only its launcher was told, and wrote it nowhere")
_OF_KILLED = (128 + signal.SIGKILL, 256 - signal.SIGKILL)
"""What a shell, and Python's `sys.exit`, make of the status of a process that was killed below them."""
_NOT_WATCHING = ("close", "_stop_workers", "_restart_workers", "_initialize_workers", "_rendezvous", "_exit_barrier")
_TORCHRUNS_LOOP = ("torch/distributed/elastic/agent/server/api.py", "_invoke_run")
_NAMES = ("python", "pt_main_thread")
_LOG_NAMES = ("stderr.log", "stdout.log")


def exit_status(pid: int) -> int | None:
    """The wait status of a zombie, as `os.waitpid` would give it; None where `pid` is none, or is not ours to ask."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            fields = f.read().rpartition(")")[2].split()
        if fields[0] not in "ZX" or os.geteuid() not in (0, os.stat(f"/proc/{pid}").st_uid):
            return None
    except (OSError, IndexError):
        return None
    return int(fields[49])


@dataclass
class Noted:
    """What is noted of a process while it can be seen, for when it is gone: the files behind its stderr and stdout, when it began (see
    `procfs.Process.start_ticks`), and its wait status, which a zombie has until its parent takes note of it.
    """

    logs: tuple[str, ...] = ()
    began: int | None = None
    status: int | None = None

    def note(self, pid: int) -> None:
        """Look at it now. What was noted before stays where there is nothing to be seen any more. 0.1 ms."""
        self.logs = tuple(name for name, path in _logs_of(pid).items() if _same(name, path)) or self.logs
        self.began = self.began or procfs.start_ticks(pid)
        if self.status is None:
            self.status = exit_status(pid)

    @property
    def how(self) -> str:
        """``exit status 1``, ``killed by SIGKILL``; empty where that was not seen."""
        return "" if self.status is None else _words(*_decoded(self.status))


def _same(name: str, path: str) -> bool:
    try:
        return os.path.samefile(name, path)
    except OSError:
        return False


def oom_kills(pid: int) -> int | None:
    """How many processes of the control group of `pid` were ever killed for want of memory; None where that is not counted."""
    files = (folder / name for folder in group_folders(pid) for name in ("memory.events", "memory.oom_control"))
    counts = (_counter(str(file), "oom_kill") for file in files)
    return next((count for count in counts if count is not None), None)


def clean_tail(path: str, count: int = LINES) -> list[str]:
    """The last lines of a text file, empty ones left out, without colours and what a progress bar has overwritten.

    Reads 256 KiB. Empty where it cannot be read, or is no regular file.
    """
    try:
        with open(
            os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb"
        ) as f:  # a named pipe would wait for a writer
            if not stat.S_ISREG(os.fstat(f.fileno()).st_mode):
                return []
            size = f.seek(0, os.SEEK_END)
            f.seek(max(0, size - TAIL_BYTES))
            raw = f.read(TAIL_BYTES).decode(errors="replace")
    except OSError:
        return []
    lines = (plain(line.rstrip("\r").rsplit("\r", 1)[-1]).rstrip() for line in raw.split("\n"))
    return [line for line in lines if line.strip()][-count:]


class Endings:
    """What became of the ranks of one launcher that are gone. Reads logs: whoever calls `of` does so with a deadline of its own."""

    def __init__(
        self,
        launcher_pid: int | None,
        alive: Sequence[int],
        launcher: Look | None = None,
        noted: Mapping[int, Noted] | None = None,
    ) -> None:
        """`alive` are the ranks that are still there: their logs and environments show where the others' are. `launcher` are the
        launcher's stacks, which show whether it is about to end them all. `noted`: what was seen of ranks before, by pid.
        """
        self._launcher, self._alive, self._noted = launcher_pid, list(alive), noted or {}
        threads = launcher.processes[0].threads if launcher is not None and launcher.processes else ()
        self._watches = any(_is_watching(t.frames) for t in threads)

    def of(self, pid: int, rank: int, local_rank: int) -> Ending:
        """How `rank` ended. `pid` is 0 where nothing is left of it. Milliseconds, and what the disk takes."""
        before = self._noted.get(pid)  # where it was looked at, another process may have its number by now
        status = before.status if before is not None else exit_status(pid) if pid else None
        began = before.began if before is not None else procfs.start_ticks(pid) if pid else None
        said = self._launcher_said(pid, rank, local_rank)
        killed = self._killed(pid or (said.pid if said else 0), began) if _may_be_killed(status, said) else None
        evidence: list[str] = []
        code, sign = self._code(status, said, killed, evidence)
        lines, log = self._last_words(pid, rank, local_rank, evidence)
        pid = pid or (said.pid if said else killed.pid if killed else 0)
        return Ending(
            pid=pid,
            exit_code=code,
            signal=sign,
            out_of_memory=self._out_of_memory(sign, killed, evidence),
            last_lines=tuple(lines),
            log=log,
            evidence=(*evidence, *(self._kernel_said(pid, began) if pid and killed is None else ())),
        )

    # --- exit status

    def _code(
        self, status: int | None, said: Said | None, killed: kernel_log.Killed | None, evidence: list[str]
    ) -> tuple[Maybe[int], Maybe[str]]:
        if status is not None:
            how = _words(*_decoded(status))
            evidence.append(text("{how}, as the kernel's table says: its parent has not waited for it yet", how=how))
            return _decoded(status)
        if said is not None:
            code = _by_signal() if said.exit_code is None else said.exit_code
            sign = _no_signal() if said.signal is None else said.signal
            how = _words(code, sign)
            evidence.append(text("{how}, as its launcher wrote to its log", how=how))
            return code, sign
        if killed is not None:
            return _by_signal(), "SIGKILL"
        if self._watches and self._alive:
            evidence.append(
                text(
                    "torchrun ends all ranks when one fails; it has seen this one go and lets the others run, so it "
                    "ended with status 0"
                )
            )
            return 0, _no_signal()
        return _NOT_KNOWN, _NOT_KNOWN

    def _launcher_said(self, pid: int, rank: int, local_rank: int) -> Said | None:
        """The launcher's last word on this rank; one of an earlier attempt names another pid than the zombie's."""
        for said in reversed(self._launcher_words):
            same = said.pid == pid if pid and said.pid else not (said.pid and procfs.exists(said.pid))
            if said.local_rank == (rank if said.host else local_rank) and same:
                return said
        return None

    @cached_property
    def _launcher_words(self) -> list[Said]:
        logs = list(_logs_of(self._launcher).values()) if self._launcher else []
        if not logs:  # the launcher is gone: the ranks' logs often were its own
            logs = sorted({name for one in self._noted.values() for name in one.logs})[:FEW_LOGS]
        return [said for path in logs for said in launcher_log.endings(clean_tail(path, TAIL_BYTES))]

    # --- memory and the kernel

    @cached_property
    def _messages(self) -> list[tuple[float, str]] | None:
        """None in a container as well: the kernel counts processes as the host does, and its words would be on somebody else's."""
        return kernel_log.read() if procfs.numbers_are_the_hosts() else None

    @cached_property
    def _launcher_began(self) -> int | None:
        return procfs.start_ticks(self._launcher) if self._launcher else None

    def _since(self, began: int | None) -> list[tuple[float, str]]:
        """What the kernel has said since a process began, or since the launcher did: a number is given to many, one after another."""
        return kernel_log.since(self._launcher_began if began is None else began, self._messages or ())

    def _killed(self, pid: int, began: int | None) -> kernel_log.Killed | None:
        """What the OOM killer has said of `pid`; of an unknown one, of a Python that it killed since the launcher began."""
        victims = kernel_log.killed_for_memory(self._since(began))
        if pid:
            return next((v for v in reversed(victims) if v.pid == pid), None)
        if self._launcher_began is None:
            return None
        return next((v for v in reversed(victims) if v.name.startswith(_NAMES) and not procfs.exists(v.pid)), None)

    def _out_of_memory(self, sign: Maybe[str], killed: kernel_log.Killed | None, evidence: list[str]) -> Maybe[bool]:
        if killed is not None:
            evidence.append(text("the kernel's log: {line}", line=killed.line))
            return True
        if sign and sign != "SIGKILL":
            return False
        count = next((n for p in (self._launcher, *self._alive) if p and (n := oom_kills(p)) is not None), None)
        if sign and count:
            evidence.append(text("its control group counts {count} processes killed for want of memory", count=count))
            return True
        if self._messages is not None or count == 0:
            return False
        return NotAvailable(
            "neither the kernel's messages (which number processes as the host does, in a container, too) nor its control group's "
            "counters tell"
        )

    def _kernel_said(self, pid: int, began: int | None) -> tuple[str, ...]:
        lines = kernel_log.about(pid, self._since(began))
        return tuple(text("the kernel's log: {line}", line=line) for line in lines[-3:])

    # --- its last words

    def _last_words(self, pid: int, rank: int, local_rank: int, evidence: list[str]) -> tuple[list[str], str | None]:
        """The last lines that are its own, else the last ones of a log that all ranks share which are not another's."""
        folder = self._torchrun_folder(local_rank)
        if folder is not None:
            error = _recorded_error(os.path.join(folder, "error.json"))
            if error:
                evidence.append(text("its error file says: {error}", error=error))
            for name in _LOG_NAMES:
                own = os.path.join(folder, name)
                if lines := clean_tail(own, LAST_WORDS):
                    return lines, own
        shared: tuple[list[str], str | None] = ([], None)
        logs = {name: name for name in self._noted.get(pid, Noted()).logs}
        logs |= {name: path for p in (*self._alive, self._launcher) if p for name, path in _logs_of(p).items()}
        of_others = {name for one in self._noted.values() for name in one.logs} - logs.keys()
        for name, path in {**logs, **{name: name for name in sorted(of_others)[:FEW_LOGS]}}.items():
            own_lines, nobodys = lines_of(rank, local_rank, clean_tail(path, 2000))
            if own_lines:
                return own_lines[-LAST_WORDS:], name
            if name in logs and not shared[0]:
                shared = nobodys[-LAST_WORDS:], name
        return shared

    def _torchrun_folder(self, local_rank: int) -> str | None:
        """Where torchrun keeps what belongs to one local rank: known from a living one, whose environment names its error file."""
        for pid in self._alive:
            file = procfs.environ(pid).get("TORCHELASTIC_ERROR_FILE", "")
            if os.path.isabs(file):
                return os.path.join(os.path.dirname(os.path.dirname(file)), str(local_rank))
        return None


def _is_watching(frames: Sequence[Frame]) -> bool:
    """Whether this is torchrun in the loop in which it watches its ranks, and not about to end or to start them."""
    file, loop = _TORCHRUNS_LOOP
    at = next((i for i, f in enumerate(frames) if f.file.endswith(file) and f.function.endswith(loop)), None)
    return at is not None and not any(word in f.function for f in frames[:at] for word in _NOT_WATCHING)


def _may_be_killed(status: int | None, said: Said | None) -> bool:
    """Whether nothing that is known of its end speaks against SIGKILL."""
    if status is not None:
        return status == signal.SIGKILL
    return said is None or said.signal == "SIGKILL" or said.exit_code in _OF_KILLED


def _decoded(status: int) -> tuple[Maybe[int], Maybe[str]]:
    if os.WIFSIGNALED(status):
        return _by_signal(), signal_name(os.WTERMSIG(status))
    return os.WEXITSTATUS(status), _no_signal()


def _words(code: Maybe[int], sign: Maybe[str]) -> str:
    if isinstance(sign, str):
        return text("killed by {sign}", sign=sign)
    return text("exit status {code}", code=code)


def _by_signal() -> NotAvailable:
    return NotAvailable("it was ended by a signal")


def _no_signal() -> NotAvailable:
    return NotAvailable("it ended by itself")


def _logs_of(pid: int) -> dict[str, str]:
    """The files behind stderr and stdout: their names as the process sees them, and where to read them from here."""
    seen = ((procfs.descriptor(pid, fd), f"/proc/{pid}/fd/{fd}") for fd in (1, 2))
    found = {
        name: path for name, path in seen if name and name.startswith("/") and not name.startswith(("/dev/", "/proc/"))
    }
    return dict(reversed(found.items()))


def _recorded_error(path: str) -> str:
    """The message of an error file of torch's `@record`, in one line; empty where there is none, or it is of another form."""
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            said = json.loads(f.read(TAIL_BYTES))
    except (OSError, ValueError):
        return ""
    message = said.get("message") if isinstance(said, dict) else None
    if isinstance(message, dict):
        message = message.get("message")
    return " ".join(message.split())[:500] if isinstance(message, str) else ""


def _counter(path: str, name: str) -> int | None:
    rows = (line.split() for line in _lines(path))
    return next((int(row[1]) for row in rows if len(row) == 2 and row[0] == name), None)


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read().splitlines()
    except OSError:
        return []
