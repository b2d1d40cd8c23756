"""Who has the other end of what a process has open: one walk over the descriptors of all processes, and the kernel's tables of sockets.

Only what this user may see. The other end may also be on another host: then nobody has it here, and `Ends.at` tells it there.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from ..model import Channel, Channels, FarEnd, Socket, TcpEnds
from . import interfaces, procfs, sockets, unix_sockets

__all__ = ["Ends"]

_SHARED_MEMORY = re.compile(r"/dev/shm/(?!torch_|sem\.|__KMP)[^/]+( \(deleted\))?$")
"""What a program has made to share, and no library for itself."""
_OUTPUT = frozenset(("0", "1", "2"))
"""Descriptors whose other end matters only to a thread that is at them."""
_OURS = ("", "localhost", "0.0.0.0", "::", "::1")
"""Whatever the host."""
_POLLING = frozenset(("poll", "ppoll", "epoll_wait", "epoll_pwait", "epoll_pwait2"))
MOST_THREADS = 1024
"""Those of libraries come first, on a large machine hundreds of them."""


@dataclass(frozen=True)
class _Holder:
    pid: int
    fd: str


@dataclass
class _Tcp:
    """The TCP sockets of one network namespace."""

    by_key: dict[str, Socket] = field(default_factory=dict)
    listeners: dict[int, list[str]] = field(default_factory=dict)
    by_ends: dict[TcpEnds, tuple[str, Socket]] = field(default_factory=dict)

    def add(self, key: str, one: Socket) -> None:
        self.by_key[key] = one
        if one.listens:
            self.listeners.setdefault(one.local_port, []).append(key)
        else:
            self.by_ends[one.ends] = key, one


class Ends:
    """Who has what open at this moment. Made once for one look at a job: some 3 us for each descriptor of each process."""

    def __init__(self, table: Mapping[int, procfs.Process] | None = None) -> None:
        self.processes = procfs.processes() if table is None else table
        self._holders: dict[str, list[_Holder]] = {}
        self._keys: dict[int, dict[str, str]] = {}
        for pid in self.processes:
            self._keys[pid] = own = {}
            for fd in procfs.descriptors(pid):
                key = procfs.descriptor(pid, fd)
                if key is not None and _may_lead_on(key):
                    own[fd] = key
                    self._holders.setdefault(key, []).append(_Holder(pid, fd))
        self._unix = unix_sockets.table()
        self._askers = {inode: listener for listener, one in self._unix.items() for inode in one.asking}
        self._tcp: dict[str, _Tcp] = {}
        self._namespace: dict[int, str] = {}
        self._addresses: dict[str, frozenset[str]] = {}

    def of(self, pid: int) -> Channels:
        """What leads from `pid` to other processes, and at which of it each of its threads waits; also connections to other hosts at which
        one does.
        """
        at = {t.tid: keys for t in procfs.threads(pid)[:MOST_THREADS] if (keys := self._at(pid, t.tid))}
        waited = {key for keys in at.values() for key in keys}
        targets = self._keys.get(pid, {})
        output = {targets[fd] for fd in _OUTPUT if fd in targets} - waited
        found: dict[str, Channel] = {}
        for fd, key in targets.items():
            if key in found or key in output:
                continue
            channel = self._channel(pid, fd, key, waited=key in waited)
            if channel is not None and (channel.others or (channel.kind == "tcp" and key in waited)):
                found[key] = channel
        return Channels(tuple(found.values()), {tid: keys for tid, keys in at.items() if any(k in found for k in keys)})

    def server(self, pid: int, host: str, port: int) -> Channel | None:
        """The port of a host, this one where it is not named, of which `pid` knows; None where it is of this one, and nobody listens."""
        ends = TcpEnds("", 0, host, port)
        if not self._is_here(pid, host):
            return Channel("port", f"port {host}:{port}", f"port {host}:{port}", ends=ends)
        others = self._with(pid, self._tcp_of(pid).listeners.get(port, ()))
        return Channel("port", f"port {port}", f"port {port}", others) if others else None

    def at(self, ends: TcpEnds) -> FarEnd | None:
        """Who has the connection with these ends, in whatever network of this host, or listens where there is no other end; None where
        that is none of this host's.
        """
        for pid in self._one_of_each_network:
            found = self._end(pid, ends) if ends.remote_port else self._listener(pid, ends)
            if found is not None:
                return found
        return None

    def _listener(self, pid: int, ends: TcpEnds) -> FarEnd | None:
        """Who listens there in the network of `pid`."""
        keys = self._tcp_of(pid).listeners.get(ends.local_port, ()) if self._is_here(pid, ends.local_host) else ()
        return FarEnd(self._who_has(keys)) if keys else None

    def _is_here(self, pid: int, host: str) -> bool:
        """Whether `pid` means this host by that name or address."""
        if host in _OURS or host.partition(".")[0] == socket.gethostname().partition(".")[0]:
            return True
        if (network := self._network_of(pid)) not in self._addresses:
            self._addresses[network] = interfaces.addresses(pid)
        return host.startswith("127.") or host in self._addresses[network]

    def _at(self, pid: int, tid: int) -> tuple[str, ...]:
        call, arguments = procfs.raw_system_call(pid, tid)
        if call in procfs.READING or call in procfs.WRITING or call == "connect":
            key = procfs.descriptor(pid, arguments[0])
            return () if key is None else (key,)
        return tuple(sockets.polled(pid, call, arguments)) if call in _POLLING else ()

    def _channel(self, pid: int, fd: str, key: str, *, waited: bool) -> Channel | None:
        if key.startswith("pipe:"):
            return Channel("pipe", key, f"pipe {_inode(key)}", self._beyond(pid, key), far=key)
        if key.startswith("socket:"):
            return self._tcp_channel(pid, key) or self._unix_channel(pid, key)
        if _SHARED_MEMORY.match(key):
            return Channel("memory", key, f"shared memory {key.removesuffix(' (deleted)')}", self._with(pid, [key]))
        if waited and _is_named_pipe(pid, fd):
            return Channel("named pipe", key, key, self._beyond(pid, key), far=key)
        return None

    def _tcp_channel(self, pid: int, key: str) -> Channel | None:
        tcp = self._tcp_of(pid)
        own = tcp.by_key.get(key)
        if own is None or own.listens:
            return None
        answers = own.local_port in tcp.listeners
        channel = Channel("tcp", key, str(own), answers=answers, unread_bytes=own.unread_bytes, ends=own.ends)
        far = own.ends.turned()
        end = self._end(pid, far) or (self.at(far) if own.ends.leaves else None)
        return channel if end is None else channel.joined(replace(end, others=_without(end.others, pid)))

    def _end(self, pid: int, ends: TcpEnds) -> FarEnd | None:
        """Who has the connection with these ends in the network of `pid`."""
        tcp = self._tcp_of(pid)
        key, one = tcp.by_ends.get(ends, ("", None))
        if one is None:
            return None
        keys = [key] if _inode(key) else tcp.listeners.get(ends.local_port, ())
        return FarEnd(self._who_has(keys), key if _inode(key) else "", one.unread_bytes)

    def _tcp_of(self, pid: int) -> _Tcp:
        namespace = self._network_of(pid)
        if namespace not in self._tcp:
            self._tcp[namespace] = found = _Tcp()
            for key, one in sockets.rows(pid):
                found.add(key, one)
        return self._tcp[namespace]

    def _network_of(self, pid: int) -> str:
        """What tells the network namespace of a process from others; empty where we may not know."""
        if pid not in self._namespace:
            self._namespace[pid] = ""
            with contextlib.suppress(OSError):
                self._namespace[pid] = os.readlink(f"/proc/{pid}/ns/net")
        return self._namespace[pid]

    @cached_property
    def _one_of_each_network(self) -> Collection[int]:
        """Containers have one each. A process that we may not look into has no connection that we could tell the owner of."""
        return {self._network_of(pid): pid for pid in self._keys if self._keys[pid]}.values()

    def _unix_channel(self, pid: int, key: str) -> Channel | None:
        own = self._unix.get(_inode(key))
        if own is None:
            return None
        listener = self._askers.get(_inode(key))
        there = self._unix.get(own.peer if listener is None else listener)
        name = f"unix socket {own.name or (there.name if there is not None else '') or _inode(key)}"
        channel = Channel("unix", key, name, answers=bool(own.name), unread_bytes=own.unread_bytes)
        if listener is not None:
            return replace(channel, others=self._with(pid, [f"socket:[{listener}]"]), accepted=False)
        unread, far = 0 if there is None else there.unread_bytes, f"socket:[{own.peer}]"
        return replace(channel, others=self._with(pid, [far]), far=far, unread_there_bytes=unread)

    def _with(self, pid: int, keys: Iterable[str]) -> tuple[int, ...]:
        """Who has one of these open, but `pid`."""
        return _without(self._who_has(keys), pid)

    def _who_has(self, keys: Iterable[str]) -> tuple[int, ...]:
        return tuple(sorted({one.pid for key in keys for one in self._holders.get(key, ())}))

    def _beyond(self, pid: int, key: str) -> tuple[int, ...]:
        """Who has the other end of a pipe, but `pid`; of one that has both ends open, whoever has any."""
        ways = [(one.pid, _direction(one.pid, one.fd)) for one in self._holders.get(key, ())]
        own = {way for holder, way in ways if holder == pid}
        return tuple(sorted({holder for holder, way in ways if holder != pid and (len(own) > 1 or way not in own)}))


def _without(pids: Iterable[int], pid: int) -> tuple[int, ...]:
    return tuple(one for one in pids if one != pid)


def _may_lead_on(key: str) -> bool:
    if key.startswith(("socket:", "pipe:")):
        return True
    return key.startswith("/") and (not key.startswith(("/dev/", "/proc/", "/sys/")) or bool(_SHARED_MEMORY.match(key)))


def _inode(key: str) -> int:
    return int(key[key.index("[") + 1 : -1])


def _direction(pid: int, fd: str) -> Literal["reads", "writes", "both"]:
    flags = int(procfs.fields(f"/proc/{pid}/fdinfo/{fd}").get("flags", "0"), 8) & os.O_ACCMODE
    return "reads" if flags == os.O_RDONLY else "writes" if flags == os.O_WRONLY else "both"


def _is_named_pipe(pid: int, fd: str) -> bool:
    """May wait for a file system that does not answer."""
    with contextlib.suppress(OSError):
        return stat.S_ISFIFO(os.stat(f"/proc/{pid}/fd/{fd}").st_mode)
    return False
