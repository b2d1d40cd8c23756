"""Names, ports, interfaces and ways, from this machine. Every wait has a deadline; what is connected to is left again at once."""

from __future__ import annotations

import errno
import os
import socket
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ..errors import TraindbgError
from ..model import Interface, Maybe, NotAvailable, PreflightHost, PreflightPort
from ..outside import procfs, sockets
from ..tasks import each

__all__ = ["all_at_once", "host", "interfaces", "port", "source_address"]

HANDSHAKES = 5
EVERYWHERE = ("0.0.0.0", "::", "::ffff:0.0.0.0")
T = TypeVar("T")


def all_at_once(asks: Sequence[Callable[[], T]], deadline_s: float, otherwise: Callable[[int], T]) -> list[T]:
    """The answers of all `asks`; ``otherwise(i)`` for one that has none in time (it is left to itself)."""
    answers = each(asks, lambda ask: ask(), deadline_s, grace_s=0.0)
    return [otherwise(i) if isinstance(answer, TraindbgError) else answer for i, (_, answer) in enumerate(answers)]


# --- names -----------------------------------------------------------------------------------------------------------


def host(name: str, knock_at: int, deadline_s: float) -> PreflightHost:
    """`name` resolved, and how long a TCP handshake at port `knock_at` takes: a refusal measures the way as well as an answer."""
    began = time.monotonic()
    addresses, problem = _resolve(name, knock_at)
    took = time.monotonic() - began
    if not addresses:
        return PreflightHost(name, (), took, problem=problem)
    local = any(is_local(address) for address in addresses)
    latency = _latency(addresses[0], knock_at, max(0.1, deadline_s - took))
    problem = latency.reason if isinstance(latency, NotAvailable) else ""
    return PreflightHost(name, addresses, took, local, problem, _interface_towards(addresses[0]), latency)


def _resolve(name: str, at: int) -> tuple[tuple[str, ...], str]:
    try:
        found = socket.getaddrinfo(name, at, type=socket.SOCK_STREAM)
    except socket.gaierror as e:
        return (), str(e.strerror or e)
    except (OSError, UnicodeError) as e:  # UnicodeError: a label that is too long to be a name
        return (), str(e)
    return tuple(dict.fromkeys(str(end[0]) for *_, end in found)), ""


def is_local(address: str) -> bool:
    """Whether it is one of this machine. (That a socket can be bound to it would prove nothing where `ip_nonlocal_bind` is set.)"""
    return address.startswith("127.") or address == "::1" or any(address in i.addresses for i in interfaces())


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def source_address(towards: str) -> str | None:
    """Our own address on the way to `towards`; nothing is sent. None where there is no way."""
    try:
        with socket.socket(_family(towards), socket.SOCK_DGRAM) as s:
            s.connect((towards, 9))
            return str(s.getsockname()[0])
    except OSError:
        return None


def _interface_towards(address: str) -> Maybe[str]:
    own = source_address(address)
    if own is None:
        return NotAvailable("there is no way to this address")
    return next(
        (i.name for i in interfaces() if own in i.addresses), NotAvailable("the kernel names no interface for it")
    )


def _latency(address: str, at: int, deadline_s: float) -> Maybe[float]:
    """Median seconds of `HANDSHAKES` attempts; a way where the first gets no answer is not tried again."""
    ends = time.monotonic() + deadline_s
    taken: list[float] = []
    while len(taken) < HANDSHAKES and time.monotonic() < ends:
        state, _, seconds = knock(address, at, ends - time.monotonic())
        if state not in ("open", "refused"):
            return statistics.median(taken) if taken else NotAvailable(f"nothing answers at port {at}: {state}")
        taken.append(seconds)
    return statistics.median(taken) if taken else NotAvailable("there was no time left")


# --- ports -----------------------------------------------------------------------------------------------------------


def port(name: str, at: int, deadline_s: float) -> PreflightPort:
    """The TCP port `at` of the host `name`: whether it is free, where it is of this machine, else whether there is a way to it."""
    addresses, problem = _resolve(name, at)
    if not addresses:
        return PreflightPort(name, at, "unresolved", problem)
    if any(is_local(address) for address in addresses):
        return _local_port(name, at, addresses)
    state, detail, seconds = knock(addresses[0], at, deadline_s)
    answered: Maybe[float] = seconds if state in ("open", "refused") else NotAvailable("no answer")
    return PreflightPort(name, at, state, detail, answered_s=answered)  # type: ignore[arg-type]  # knock's words are among them


def _local_port(name: str, at: int, addresses: Iterable[str]) -> PreflightPort:
    """Looked up in the kernel's table, and tried: a socket is bound to it, as the store would, and closed. Nobody is connected to."""
    listener = _listener(addresses, at)
    if listener is not None:
        holder = _holder(listener)
        command = " ".join(procfs.command(holder)) if holder is not None else ""
        return PreflightPort(name, at, "open" if _is_the_job(holder, at) else "taken", "", holder, command)
    try:
        with socket.socket(socket.AF_INET) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("0.0.0.0", at))
    except PermissionError as e:
        return PreflightPort(name, at, "not permitted", e.strerror or "")
    except OSError as e:
        return PreflightPort(name, at, "taken", e.strerror or "")
    return PreflightPort(name, at, "free")


def _is_the_job(holder: int | None, at: int) -> bool:
    """Whether it is a launcher, or a rank that was told to meet the others there: then the job is up already, and waits."""
    if holder is None:
        return False
    launches = any(
        word.endswith(("torchrun", "torch.distributed.run", "accelerate")) for word in procfs.command(holder)
    )
    return launches or procfs.environ(holder).get("MASTER_PORT") == str(at)


def _listener(addresses: Iterable[str], at: int) -> str | None:
    ours = {*addresses, *EVERYWHERE}
    found = sockets.table(os.getpid()).items()
    return next((on for on, s in found if s.listens and s.local_port == at and s.local_host in ours), None)


def _holder(listening: str) -> int | None:
    """The process that has this socket open; None where it may not be looked at."""
    for pid in sorted(procfs.processes()):
        if any(procfs.descriptor(pid, fd) == listening for fd in procfs.descriptors(pid)):
            return pid
    return None


def knock(address: str, at: int, deadline_s: float) -> tuple[str, str, float]:
    """What a connection from here meets with: ``open``, ``refused``, ``filtered`` or ``unreachable``; why; and the seconds it took."""
    began = time.monotonic()
    try:
        with socket.socket(_family(address)) as s:
            s.settimeout(max(0.05, deadline_s))
            s.connect((address, at))
            s.shutdown(socket.SHUT_RDWR)
    except TimeoutError:
        return "filtered", f"no answer in {deadline_s:.1f} s", time.monotonic() - began
    except ConnectionRefusedError as e:
        return "refused", e.strerror or "", time.monotonic() - began
    except OSError as e:
        was_there = e.errno in (errno.ENOTCONN, errno.ECONNRESET)  # it hung up as soon as it had answered
        return "open" if was_there else "unreachable", e.strerror or str(e), time.monotonic() - began
    return "open", "", time.monotonic() - began


# --- interfaces ------------------------------------------------------------------------------------------------------


def interfaces() -> tuple[Interface, ...]:
    """The network interfaces of this machine (of this container, in one), those that are up and have an address first."""
    import psutil

    states, addresses = psutil.net_if_stats(), psutil.net_if_addrs()
    internet = (socket.AF_INET, socket.AF_INET6)
    found = []
    for name, state in states.items():
        own = tuple(str(a.address).partition("%")[0] for a in addresses.get(name, ()) if a.family in internet)
        loopback = "loopback" in state.flags.split(",")
        found.append(Interface(name, state.isup, own, state.speed, state.mtu, loopback))
    return tuple(sorted(found, key=lambda i: (not (i.up and i.addresses), i.loopback, i.name)))
