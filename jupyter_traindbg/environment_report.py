"""The environment of a running job, with what is known about each variable: read from /proc, judged, put together."""

from __future__ import annotations

from collections.abc import Sequence

from .attach.base import Link, ask_each
from .diagnose import environment
from .errors import NotPermitted, TargetGone, TraindbgError
from .model import Environ, Silent
from .outside import host, interfaces, procfs

__all__ = ["of_job"]

BACKEND_S = 1.0


def of_job(name: str, links: Sequence[Link], timeout: float) -> Environ:
    """See `Job.environ`."""
    stuck = frozenset(procfs.uninterruptible([link.pid for link in links]))
    answers = ask_each(links, lambda link: _environ(link, stuck), timeout)
    read = {link: answer for link, answer in answers if not isinstance(answer, TraindbgError)}
    refused = [(link, answer) for link, answer in answers if isinstance(answer, TraindbgError)]
    if refused and not read:
        raise refused[0][1]
    by_rank = {link.rank: environ for link, environ in read.items()}
    facts = host.facts([link.pid for link in read], deadline_s=min(2.0, timeout))
    seen = {link.rank: interfaces.names(link.pid) for link in read}
    told = {"backend": _backend(list(read), min(BACKEND_S, timeout)), "versions": facts.versions, "interfaces": seen}
    rows = environment.rows(by_rank, **told)  # type: ignore[arg-type]  # the same words for both
    verdict = environment.findings(by_rank, **told)  # type: ignore[arg-type]
    silent = [Silent(link.rank, link.pid, error.cause, error.next_step) for link, error in refused]
    return Environ(name, tuple(sorted(by_rank)), tuple(rows), tuple(verdict), tuple(silent))


def _environ(link: Link, stuck: frozenset[int]) -> dict[str, str]:
    """As the process was started; `procfs` itself would wait for a process in uninterruptible sleep."""
    if (gone := link.ended()) is not None:
        raise gone
    if link.pid in stuck:
        raise NotPermitted(
            f"process {link.pid} is in uninterruptible sleep: reading its environment would wait with it", ""
        )
    try:
        open(f"/proc/{link.pid}/environ", "rb").close()
    except PermissionError:
        raise NotPermitted(
            f"the environment of process {link.pid} may not be read", "ask as its user, or as root"
        ) from None
    except OSError:
        raise TargetGone(f"process {link.pid} has ended") from None
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
