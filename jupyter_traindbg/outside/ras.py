"""What NCCL says of its own communicators: a client of its RAS service, which every job with NCCL 2.24 or newer runs unless told not to.

Every process of every job on a host listens on ``localhost:28028`` (or at ``NCCL_RAS_ADDR``), all on the same port, and the kernel picks
who is to answer: of two jobs maybe the other one, or a process that used NCCL once and has no communicator left. So whose a report is
has to be seen by its processes.

The service speaks lines of text, as the NCCL user guide describes under "RAS": ``CLIENT PROTOCOL n``, ``TIMEOUT seconds``, ``SET FORMAT
json`` (2.28 and newer), ``VERBOSE STATUS``; it then sends its report and hangs up. Asking makes the RAS threads of all processes talk to
each other, beside the collectives; nothing on a GPU is touched.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import time
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, Literal

from ..agent.rendezvous import own_pid_in_its_namespace
from ..model import Maybe, NotAvailable, RasCommunicator, RasRank, RasReport
from . import procfs, sockets

__all__ = ["ask", "listening", "report"]

PORT = 28028
PROTOCOL = 2
SUCCESS, IN_PROGRESS = 0, 7
"""ncclResult_t, of nccl.h."""
_LARGEST_BYTES = 64 << 20
TRIES = 16
"""Connections until one of the processes asked about has answered: of two jobs of equal size, all but one in 65,000 times."""
_FAILED = (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError)
"""What a service that is none, or of another version, may lead to."""


def report(pids: Iterable[int], deadline_s: float) -> Maybe[RasReport]:
    """The report on the job of the processes `pids`. About 10 ms where all answer; as long as `deadline_s` where some do not."""
    ends, wanted = time.monotonic() + deadline_s, list(pids)
    address = listening(wanted)
    if address is None:
        return NotAvailable("no RAS service of NCCL listens in these processes")
    ours = set(_as_they_see_them(wanted))
    answer: Maybe[RasReport] | None = None
    for _ in range(TRIES):
        said = ask(address, max(0.01, ends - time.monotonic()))
        if isinstance(said, NotAvailable) or said.text or _is_of(said, ours):
            return said
        if said.communicators:
            answer = NotAvailable(f"NCCL's RAS service of another job answers at {address[0]}:{address[1]}")
        elif answer is None:
            answer = said  # ours before its first communicator, or that of somebody who has destroyed theirs
    assert answer is not None
    return answer


def _as_they_see_them(pids: Iterable[int]) -> Iterator[int]:
    """What NCCL reports is what a process calls itself, in a container another number than ours."""
    for pid in pids:
        with contextlib.suppress(OSError):  # it has just ended
            yield own_pid_in_its_namespace(pid)


def _is_of(said: RasReport, pids: Container[int]) -> bool:
    return any(r.pid in pids for c in said.communicators for r in c.ranks)


def listening(pids: Iterable[int]) -> tuple[str, int] | None:
    """Where one of `pids` listens for RAS clients; None where none does."""
    wanted = list(pids)
    stuck = procfs.uninterruptible(wanted)
    for pid in (pid for pid in wanted if pid not in stuck):
        told = procfs.training_environ(pid).get("NCCL_RAS_ADDR", "").rpartition(":")[2]
        port = int(told) if told.isdigit() else PORT
        for one in sockets.of(pid):
            if one.listens and one.local_port == port:
                return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(one.local_host, one.local_host), port
    return None


def ask(address: tuple[str, int], deadline_s: float) -> Maybe[RasReport]:
    """The report of the service at `address`. What keeps it from answering is the reason of a `NotAvailable`."""
    ends = time.monotonic() + deadline_s
    where = f"NCCL's RAS service at {address[0]}:{address[1]}"
    try:
        with socket.create_connection(address, timeout=deadline_s) as line:
            text = _talk(_Line(line, ends), 0.7 * deadline_s)
    except TimeoutError:
        return NotAvailable(f"{where} did not answer in {deadline_s:g} s")
    except (OSError, EOFError, ValueError) as e:
        return NotAvailable(f"{where} gave no report ({e})")
    if not text.lstrip().startswith("{"):
        return RasReport(_version(text), (), text)
    try:
        return _from_json(json.loads(text))
    except _FAILED as e:
        return NotAvailable(f"{where} answered in a form that is not known ({type(e).__name__})")


class _Line:
    """Lines of text over a socket, with one deadline for all."""

    def __init__(self, line: socket.socket, ends: float) -> None:
        self._line, self._ends, self._buffer = line, ends, b""

    def say(self, words: str) -> None:
        self._line.settimeout(self._left_s())
        self._line.sendall(words.encode() + b"\n")

    def hear(self) -> str:
        while b"\n" not in self._buffer:
            if not self._more():
                raise EOFError("it hung up")
        answer, _, self._buffer = self._buffer.partition(b"\n")
        return answer.decode(errors="replace").strip()

    def rest(self) -> str:
        while self._more():
            if len(self._buffer) > _LARGEST_BYTES:
                raise ValueError("it does not stop talking")
        return self._buffer.decode(errors="replace")

    def _more(self) -> bool:
        self._line.settimeout(self._left_s())
        chunk = self._line.recv(1 << 16)
        self._buffer += chunk
        return bool(chunk)

    def _left_s(self) -> float:
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def _talk(line: _Line, patience_s: float) -> str:
    line.say(f"CLIENT PROTOCOL {PROTOCOL}")
    greeting = line.hear()
    if not greeting.upper().startswith("SERVER PROTOCOL"):
        raise ValueError("something else listens there")
    line.say(f"TIMEOUT {max(1, int(patience_s))}")  # older services take whole seconds
    line.hear()
    line.say("SET FORMAT json")
    line.hear()  # an error before 2.28: its report is text then
    line.say("VERBOSE STATUS")
    return line.rest()


def _from_json(said: Mapping[str, Any]) -> RasReport:
    communicators = [
        RasCommunicator(
            name=f"{c['hash']}:{c['secondary_hash']}",
            size=int(c["size"]),
            ranks=tuple([_rank(r) for r in c["ranks"]] + [_lost(r) for r in c["missing_ranks"]]),
        )
        for c in said["communicators"]
    ]
    return RasReport(str(said["nccl_version"]), tuple(communicators), "")


def _rank(said: Mapping[str, Any]) -> RasRank:
    counts = {str(name): int(count) for name, count in said["collective_counts"].items()}
    return RasRank(int(said["rank"]), str(said["host"]), int(said["pid"]), _state(said["status"]), counts)


def _state(status: Mapping[str, Any]) -> Literal["starting", "running", "ending", "failed", "aborted"]:
    if status["abort_flag"]:
        return "aborted"
    if {status["init_state"], status["async_error"]} - {SUCCESS, IN_PROGRESS}:
        return "failed"
    if status["init_state"] == IN_PROGRESS:
        return "starting"
    return "ending" if status["finalize_called"] or status["destroy_flag"] else "running"


def _lost(said: Mapping[str, Any]) -> RasRank:
    dead = said["status"]["considered_dead"]
    return RasRank(int(said["rank"]), str(said["host"]), int(said["pid"]), "dead" if dead else "silent", {})


def _version(text: str) -> str:
    """``NCCL version 2.24.3 compiled with CUDA 12.6``, the first line of the text form."""
    words = text.split()
    return next((after for before, after in itertools.pairwise(words) if before == "version"), "")
