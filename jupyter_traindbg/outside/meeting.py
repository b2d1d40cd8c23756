"""Where ranks are to meet, looked at from outside: does the name resolve, does anybody listen there, and who is it?

An address of this host is looked up in the kernel's table of sockets, which the listener does not notice. Only to another host a
connection is made, and closed at once.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Literal, TypeVar

from ..model import Joining, MeetingPoint
from . import procfs, sockets

__all__ = ["meeting_points"]

EVERYWHERE = ("0.0.0.0", "::")
State = Literal["open", "refused", "filtered", "unreachable", "unresolved", "not known"]
T = TypeVar("T")


def meeting_points(joining: Iterable[tuple[int, Joining]], deadline_s: float) -> tuple[MeetingPoint, ...]:
    """The places that ranks, given as ``(pid, what it was told)``, are on their way to. Takes `deadline_s` at most for each,
    1 ms where all is on this host; one look at the open files of all processes where somebody listens.
    """
    pids: dict[tuple[str, int], int] = {}
    for pid, told in joining:
        if told.address and told.port:
            pids.setdefault((told.address, told.port), pid)
    return tuple(_meeting_point(address, port, pid, deadline_s) for (address, port), pid in pids.items())


def _meeting_point(address: str, port: int, pid: int, deadline_s: float) -> MeetingPoint:
    addresses: tuple[str, ...] = _within(deadline_s, lambda: _resolve(address, port), ())
    if not addresses:
        return MeetingPoint(address, port, (), "unresolved")
    if any(_is_ours(one) for one in addresses):
        listening = _listener(pid, addresses, port)
        holder = _holder(pid, listening) if listening is not None else None
        command = " ".join(procfs.command(holder)) if holder is not None else ""
        return MeetingPoint(address, port, addresses, "open" if listening else "refused", True, holder, command)
    return MeetingPoint(address, port, addresses, _knock(addresses, port, deadline_s))


def _within(deadline_s: float, ask: Callable[[], T], otherwise: T) -> T:
    """The answer, or `otherwise` where it does not come in time: name servers keep no deadline of ours."""
    answers: list[T] = []
    asking = threading.Thread(target=lambda: answers.append(ask()), name="traindbg-resolve", daemon=True)
    asking.start()
    asking.join(deadline_s)
    return answers[0] if answers else otherwise


def _resolve(address: str, port: int) -> tuple[str, ...]:
    try:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # UnicodeError: a label that is too long to be a name
        return ()
    return tuple(dict.fromkeys(str(end[0]) for *_, end in found))


def _is_ours(address: str) -> bool:
    """Whether it is one of this host: only to those a socket can be bound."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family) as s:
            s.bind((address, 0))
    except OSError:
        return False
    return True


def _listener(pid: int, addresses: Iterable[str], port: int) -> str | None:
    """The ``socket:[inode]`` that listens at the port in the network namespace of `pid`, at one of the addresses or at all."""
    at = {*addresses, *EVERYWHERE}
    found = sockets.table(pid).items()
    return next((on for on, s in found if s.listens and s.local_port == port and s.local_host in at), None)


def _holder(near: int, listening: str) -> int | None:
    """The process that has this socket open, the launcher before what it started; None where it may not be looked at."""
    known = procfs.processes()
    above = known[near].parent if near in known else near
    for pid in sorted(known, key=lambda p: (p not in (above, near), known[p].start_ticks)):
        if any(procfs.descriptor(pid, fd) == listening for fd in procfs.descriptors(pid)):
            return pid
    return None


def _knock(addresses: Iterable[str], port: int, deadline_s: float) -> State:
    """What a connection from here meets with. Takes `deadline_s` for all addresses together."""
    state: State = "unreachable"
    addresses = tuple(addresses)
    for address in addresses:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as s:
            s.settimeout(deadline_s / len(addresses))
            try:
                s.connect((address, port))
            except TimeoutError:
                state = "filtered"
            except OSError as e:
                state = "refused" if e.errno == errno.ECONNREFUSED else state
            else:
                with contextlib.suppress(OSError):  # it has hung up already: it was there
                    s.shutdown(socket.SHUT_RDWR)
                return "open"
    return state
