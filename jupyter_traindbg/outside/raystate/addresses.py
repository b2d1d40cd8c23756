"""From the address of a Ray cluster, as `jupyter_traindbg.model.target` has it, to where it answers."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from ...errors import AmbiguousTarget, CannotAttach, DeadlineExceeded, NoTarget, NotPermitted, UsageError
from ...language import later, text
from . import brokered, local
from . import token as tokens
from .dashboard import Dashboard

__all__ = ["ClusterAddress", "resolve"]

FORMS = later("an address is auto, host:port (of the GCS), ray://host:port, or http(s)://host:port (of the dashboard)")
DASHBOARD_PORT = 8265
ADMIT_S = 2.0
"""For the first word with a dashboard of this machine: one that hangs is left to `read`, which has another way."""
HOST_PORT = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/@\[\]]+):(\d{1,5})")


@dataclass(frozen=True)
class ClusterAddress:
    """Where a cluster answers. What is not known is empty."""

    gcs: str
    """``host:port``."""
    dashboard: str
    """``http://host:port``."""
    token: str | None = field(default=None, repr=False)
    session_dir: str = ""
    """Of the head node; only where it runs on this machine."""
    client: str = ""
    """``ray://host:port``, where that is how the cluster was named."""

    def __str__(self) -> str:
        return self.gcs or self.client or self.dashboard


def _checked(address: str) -> str:
    if address == "auto":
        return address
    scheme, separator, rest = address.partition("://")
    if separator and scheme in ("http", "https") and urlsplit(address).hostname:
        return address.rstrip("/")
    host_port = HOST_PORT.fullmatch(rest if separator else address)
    if (not separator or scheme == "ray") and host_port and 0 < int(host_port[2]) < 65536:
        return address
    raise UsageError(text("{address!r} is no address of a Ray cluster", address=address), text(FORMS))


def resolve(address: str = "auto", deadline_s: float = 5.0) -> ClusterAddress:
    """Where the cluster at `address` answers; a few ms on this machine, a few round trips elsewhere.

    Raises `UsageError` for an address that can be none, `NoTarget` and `AmbiguousTarget` for ``auto``, `NotPermitted` for a token that is
    missing or wrong, `CannotAttach` where nobody answers and `DeadlineExceeded` where that took too long.
    """
    until = time.monotonic() + deadline_s
    if address == "auto":
        named = os.environ.get("RAY_ADDRESS") or os.environ.get("RAY_API_SERVER_ADDRESS") or "auto"
        address = _checked(named) if named not in ("auto", "local") else _only_one_here()
    else:
        address = _checked(address)
    if address.startswith("http"):
        return _by_dashboard(address, until)
    if address.startswith("ray://"):
        return _by_client(address, until)
    return _by_gcs(address, until)


def _only_one_here() -> str:
    clusters = local.clusters()
    if not clusters:
        raise NoTarget(
            text("no Ray cluster runs on this machine, and RAY_ADDRESS is not set"),
            text("start one, or name its address: {forms}", forms=text(FORMS)),
        )
    if len(clusters) > 1:
        lines = text("; ").join(cluster.words for cluster in clusters)
        raise AmbiguousTarget(
            text("{count} Ray clusters run on this machine: {clusters}", count=len(clusters), clusters=lines),
            text("name one: ray:@HOST:PORT"),
        )
    return clusters[0].gcs


def _by_gcs(gcs: str, until: float) -> ClusterAddress:
    """The dashboard's place is in the GCS, which speaks gRPC: look at this machine, then at its usual port, then ask the broker."""
    here = next((cluster for cluster in local.clusters(everyones=True) if cluster.is_at(gcs)), None)
    if here is not None:
        return _admitted(ClusterAddress(here.gcs, here.dashboard, session_dir=here.session_dir), until)
    host = _host(gcs)
    usual = f"http://{host}:{DASHBOARD_PORT}"
    reached = local.reachable(host, int(gcs.rpartition(":")[2]), until)
    try:
        found = _by_dashboard(usual, until)
    except NotPermitted:  # in all likelihood this cluster's
        raise
    except (CannotAttach, DeadlineExceeded):
        pass
    else:
        if found.gcs.rpartition(":")[2] == gcs.rpartition(":")[2]:  # on the same host: it is this cluster's
            return replace(found, gcs=gcs)
    if not reached:
        raise CannotAttach(
            text("nothing answers at {gcs}, and no dashboard at {usual}", gcs=gcs, usual=usual),
            text("check host and port (6379 is the GCS's usual one), or name the dashboard: http://HOST:8265"),
        )
    told = brokered.dashboard_of(gcs, until)
    own = urlsplit(told).hostname if told else None
    elsewhere = own is None or (local.is_here(own) and not local.is_here(host))  # the cluster's own 127.0.0.1, not ours
    return ClusterAddress(gcs, "" if elsewhere else told, tokens.token_for_ray())


def _by_client(client: str, until: float) -> ClusterAddress:
    host, _, port = client.removeprefix("ray://").rpartition(":")
    here = local.client_servers().get(int(port)) if local.is_here(host) else None
    if here is not None:
        return replace(_by_gcs(here, until), client=client)
    dashboard = f"http://{host}:{DASHBOARD_PORT}"
    try:
        return replace(_by_dashboard(dashboard, until), client=client)
    except NotPermitted:
        raise
    except CannotAttach:
        raise CannotAttach(
            text(
                "no dashboard answers at {dashboard}, where that of {client} usually is",
                dashboard=dashboard,
                client=client,
            ),
            text(
                "name the dashboard: http://HOST:PORT; behind a firewall: ssh -L 8265:localhost:8265 HOST, then "
                "http://localhost:8265"
            ),
        ) from None


def _by_dashboard(url: str, until: float) -> ClusterAddress:
    dashboard = Dashboard(url)
    dashboard.admit(until)
    gcs, session_dir = dashboard.gcs_of_head(until)
    return ClusterAddress(gcs, url, dashboard.token, session_dir=session_dir if os.path.isdir(session_dir) else "")


def _admitted(found: ClusterAddress, until: float) -> ClusterAddress:
    """The address of a cluster of this machine with the token that its dashboard wants. Where that is down, `read` finds another way."""
    if not found.dashboard:
        return replace(found, token=tokens.token_for_ray())
    dashboard = Dashboard(found.dashboard)
    try:
        version = dashboard.admit(min(until, time.monotonic() + ADMIT_S))
    except (CannotAttach, DeadlineExceeded) as e:
        if isinstance(e, NotPermitted):
            raise
        return replace(found, token=tokens.token_for_ray())
    if version.get("session_name") not in (
        None,
        os.path.basename(found.session_dir),
    ):  # another cluster has its port now
        return replace(found, dashboard="", token=tokens.token_for_ray())
    return replace(found, token=dashboard.token)


def _host(address: str) -> str:
    return address.rpartition(":")[0]
