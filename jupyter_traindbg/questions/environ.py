"""Show the environment variables of a job: which do something, which do nothing, which harm here, and where ranks disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..attach.base import Link, ask_all
from ..diagnose import environment
from ..errors import NotPermitted, TargetGone, TraindbgError
from ..language import text
from ..model import Environ, Silent
from ..outside import host, interfaces, procfs
from .base import DEADLINE_S, Ranks, Whom

EXAMPLES = (
    ("", "of the job attached to, else of the only one there is"),
    ("torchrun:4711", "of all ranks of this launcher"),
)
WHOM = Whom.HOSTS
FACTS_S, BACKEND_S = 2.0, 1.0


def ask(job: Ranks, *, timeout: float = DEADLINE_S) -> Environ:
    """The environment variables of every rank that have to do with training: real, read by nobody, dead, harmful here, differing.

    As the processes were started, from /proc: about 1 ms a rank and 0.1 s for the versions; nothing is entered. Secrets are hidden.
    Raises a `TraindbgError` where no rank's environment may be read.
    """
    hosts, silent = job.on_each_host(of_host, timeout, timeout)
    seen = list(hosts.values())
    by_rank = {rank: environ for one in seen for rank, environ in one.environ.items()}
    told = {
        "backend": next((one.backend for one in seen if one.backend), None),
        "versions": {name: words for one in reversed(seen) for name, words in one.versions.items()},
        "interfaces": {rank: names for one in seen for rank, names in one.interfaces.items()},
    }
    rows = environment.rows(by_rank, **told)  # type: ignore[arg-type]  # the same words for both
    verdict = environment.findings(by_rank, **told)  # type: ignore[arg-type]
    quiet = (*(gone for one in seen for gone in one.silent), *silent)
    return Environ(job.name, tuple(sorted(by_rank)), tuple(rows), tuple(verdict), quiet)


@dataclass(frozen=True)
class OnHost:
    """What is to be read on one host. ``environ`` and ``interfaces``, the names of those of the network, are by rank."""

    environ: Mapping[int, Mapping[str, str]]
    backend: str | None
    versions: Mapping[str, str]
    interfaces: Mapping[int, Sequence[str]]
    silent: tuple[Silent, ...]


def of_host(links: Sequence[Link], timeout: float) -> OnHost:
    """Of the ranks behind `links`, which are on this host; see `ask`."""
    stuck = frozenset(procfs.uninterruptible([link.pid for link in links]))
    asked = ask_all(links, lambda link: _environ(link, stuck), timeout).need_one()
    read = [link for link, _ in asked.answers]
    return OnHost(
        {link.rank: environ for link, environ in asked.answers},
        _backend(read, min(BACKEND_S, timeout)),
        host.facts([link.pid for link in read], deadline_s=min(FACTS_S, timeout)).versions,
        {link.rank: interfaces.names(link.pid) for link in read},
        asked.silent,
    )


def _environ(link: Link, stuck: frozenset[int]) -> dict[str, str]:
    """As the process was started; `procfs` itself would wait for a process in uninterruptible sleep."""
    if (gone := link.ended()) is not None:
        raise gone
    if link.pid in stuck:
        raise NotPermitted(
            text("process {pid} is in uninterruptible sleep: reading its environment would wait with it", pid=link.pid),
            "",
        )
    try:
        open(f"/proc/{link.pid}/environ", "rb").close()
    except PermissionError:
        raise NotPermitted(
            text("the environment of process {pid} may not be read", pid=link.pid), text("ask as its user, or as root")
        ) from None
    except OSError:
        raise TargetGone(text("process {pid} has ended", pid=link.pid)) from None
    return procfs.training_environ(link.pid)


def _backend(links: Sequence[Link], deadline_s: float) -> str | None:
    """The backend of the first rank whose agent is there already and knows one; None where there is none."""
    for link in links:
        client = link.answering()
        if client is None:
            continue
        try:
            groups = client.call("collectives", {}, deadline_s)["groups"]
        except TraindbgError:
            return None  # an older agent, or one that is busy: the rest holds without it
        return next((str(group["backend"]) for group in groups if group["backend"]), None)
    return None
