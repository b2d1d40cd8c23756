"""The Ray clusters that have a node on this machine, from the command lines of their processes."""

from __future__ import annotations

import ipaddress
import os
import socket
import time
from dataclasses import dataclass
from functools import cache

from .. import procfs

__all__ = ["LocalCluster", "client_servers", "clusters", "is_here", "reachable", "same_host"]


@dataclass(frozen=True)
class LocalCluster:
    gcs: str
    dashboard: str
    session_dir: str
    pid: int
    """Of its first raylet here, or of its GCS."""
    uid: int | None

    @property
    def words(self) -> str:
        started = procfs.stat(self.pid)
        age = f", up {procfs.running_s(started):.0f} s" if started is not None else ""
        return f"{self.gcs} (of {procfs.user(self.uid)}{age}, {self.session_dir})"

    def is_at(self, gcs: str) -> bool:
        return self.gcs.rpartition(":")[2] == gcs.rpartition(":")[2] and same_host(self.gcs, gcs)


def clusters(*, everyones: bool = False) -> list[LocalCluster]:
    """The clusters with a node here, oldest first: this user's, where there are any, else (or with `everyones`) those of all.

    One walk of /proc, 15 us a process.
    """
    found: dict[str, LocalCluster] = {}
    table = sorted(procfs.processes().values(), key=lambda p: (p.start_ticks, p.pid))
    for process in table:
        if process.comm in ("raylet", "gcs_server") and process.state not in "ZX":
            seen = _cluster(process.pid, process.comm)
            if seen is not None and (
                seen.gcs not in found or (process.comm == "raylet" and not found[seen.gcs].dashboard)
            ):
                found[seen.gcs] = seen
    own = [cluster for cluster in found.values() if cluster.uid == os.getuid()]
    return own if own and not everyones else list(found.values())


def _cluster(pid: int, comm: str) -> LocalCluster | None:
    told = (word.partition("=") for word in procfs.command(pid))
    options = {name.lstrip("-").replace("_", "-"): value for name, equals, value in told if equals}
    if comm == "raylet":
        gcs = options.get("gcs-address", "")
        workers = options.get("python-worker-command", "").split()
        webui = next((word.partition("=")[2] for word in workers if word.startswith("--webui=")), "")
    else:
        gcs = f"{options.get('node-ip-address', '127.0.0.1')}:{options.get('gcs-server-port', '0')}"
        webui = ""
    if not gcs or gcs.endswith(":0"):
        return None
    return LocalCluster(gcs, f"http://{webui}" if webui else "", options.get("session-dir", ""), pid, procfs.uid(pid))


def client_servers() -> dict[int, str]:
    """The GCS addresses of the clusters whose Ray client servers listen at ports of this machine, by the port."""
    found: dict[int, str] = {}
    for process in procfs.processes().values():
        words = procfs.command(process.pid) if process.comm.startswith(("python", "ray")) else ()
        if "ray.util.client.server" in words:
            told = {name: value for name, _, value in (word.partition("=") for word in words)}
            if told.get("--port", "").isdigit() and "--address" in told:
                found[int(told["--port"])] = told["--address"]
    return found


def same_host(one: str, other: str) -> bool:
    """Whether two ``host:port`` are on the same host, as far as names and this machine's addresses tell."""
    a, b = (text.rpartition(":")[0] for text in (one, other))
    return a == b or (is_here(a) and is_here(b))


@cache
def is_here(host: str) -> bool:
    """Whether `host` is this machine: one can bind to its address."""
    if host in ("localhost", socket.gethostname()):
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as s:
            s.bind((str(address), 0))
    except OSError:
        return False
    return True


def reachable(host: str, port: int, until: float) -> bool:
    """Whether anybody accepts a connection there; it is closed at once."""
    try:
        with socket.create_connection((host.strip("[]"), port), max(0.1, min(2.0, until - time.monotonic()))):
            return True
    except OSError:
        return False
