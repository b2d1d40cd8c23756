"""Where a wait leads to a host at which nobody has looked, or to a process that nobody may look at."""

from __future__ import annotations

from ...language import text
from ...model import Channel, Channels, TargetName, parse_target
from .case import Case, View

__all__ = ["step"]


def step(case: Case, view: View) -> list[str]:
    """What to do to see whom `view` waits for, where its wait, or that of the process to which it leads, ends at a connection of which
    nobody is known that has the other end.
    """
    chain = case.chains.get(view.rank)
    last = chain.last if chain is not None else None
    host, pid = (view.host, view.pid) if last is None else (last.host or view.host, last.pid)
    tid = (view.training.tid if view.training is not None else 0) if last is None else last.tid
    beside = case.beside_on(host)
    partner = beside.partners.get(pid)
    channels = partner.channels if partner is not None else beside.channels.get(pid, Channels())
    ends = [one for one in channels.waited_at(tid) if one.ends is not None and not one.others]
    return [_of(ends[0], case.evidence.name)] if len(ends) == 1 else []


def _of(over: Channel, job: str) -> str:
    assert over.ends is not None
    address = over.ends.remote_host
    if over.far:
        return text(
            "Look with more rights: who has the other end of {channel} is a process of another user.", channel=over
        )
    named = parse_target(job)
    if named is not None and named.kind == "ssh" and ":" not in address:
        more = TargetName("ssh", named.id, f"{named.address},{address}")
        return text(
            "Name the host at the other end, {address}, too, and the wait is followed there: `traindbg diagnose {target}`.",
            address=address,
            target=str(more),
        )
    return text(
        "The other end is on another host, {address}: `traindbg targets ssh:{address}` shows what runs there.",
        address=address,
    )
