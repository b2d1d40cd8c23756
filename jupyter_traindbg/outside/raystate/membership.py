"""Which Ray job a process of this machine belongs to, by what it has open and what started it: nobody is asked."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...model import TargetName
from .. import procfs, sockets
from .local import LocalCluster, client_servers, clusters, is_here

__all__ = ["Membership", "membership"]

_LOG = re.compile(r"(/.+)/logs/python-core-(driver|worker)-([0-9a-f]{8})[0-9a-f]*_(\d+)\.log")
"""What Ray's part of a driver or worker writes to: the session, which of the two, the beginning of its id, its pid."""
NO_JOB = "ffffffff"
"""In place of a job's id, of a worker that was started before there was work for it."""
CLIENT_PORT = 10001
"""Where the server for Ray clients listens, unless it was told otherwise."""


@dataclass(frozen=True)
class Membership:
    """``address``: of the GCS, or ``ray://host:port`` where a client knows no more. ``job_id`` is empty where it is not known. ``driver``:
    whether the job is this process's own.
    """

    address: str
    job_id: str
    driver: bool

    @property
    def target(self) -> str:
        """The whole job, as a target."""
        return str(TargetName("ray", self.job_id, self.address))


def membership(pid: int, known: Sequence[LocalCluster] | None = None) -> Membership | None:
    """The job that `pid` takes part in; None for a process that takes part in none, or whose descriptors may not be read.

    Needs a raylet of that cluster on this machine, as every driver has but one that is a Ray client. 0.5 ms, and 15 us a process of this
    machine; that only once for many, where `known` are all `clusters` of it.
    """
    found = None
    for fd in sorted(procfs.descriptors(pid), key=int):
        seen = _LOG.fullmatch(procfs.descriptor(pid, fd) or "")
        if seen is not None and int(seen[4]) == pid:  # what it forks has the same file open
            found = seen  # the last one: a program may have left one cluster, and joined another
    if found is None:
        return _as_client(pid)
    session, kind, job_id, _ = found.groups()
    there = clusters(everyones=True) if known is None else known
    gcs = next((c.gcs for c in there if os.path.realpath(c.session_dir) == session), None)
    if gcs is None:
        return None
    if kind == "driver":
        return Membership(gcs, job_id, driver=True)  # whose id begins with its job's
    own = "" if pid in procfs.uninterruptible([pid]) else procfs.environ(pid).get("RAY_JOB_ID", "")
    return Membership(gcs, "" if own == NO_JOB else own, driver=False)


def _as_client(pid: int) -> Membership | None:
    """Of a program that called ``ray.init("ray://...")``: it has a connection to such a server, and none of Ray's logs."""
    if pid in procfs.uninterruptible([pid]) or not procfs.maps_library(pid, b"/ray/_raylet"):
        return None
    servers = client_servers()
    for socket in sockets.of(pid):
        host, port = socket.remote_host, socket.remote_port
        if socket.state == "ESTABLISHED" and (port == CLIENT_PORT or port in servers):
            gcs = servers.get(port) if is_here(host) else None
            if gcs is not None or port == CLIENT_PORT:
                return Membership(gcs or f"ray://{host}:{port}", "", driver=True)
    return None
