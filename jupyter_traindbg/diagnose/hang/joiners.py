"""Ranks on their way into the process group: how far they are, what they were told, how their connections are; and how a verdict says it.

Ranks meet in two stages. First each connects to a store at MASTER_ADDR:MASTER_PORT, where rank 0 or torchrun listens; then they connect to
each other at addresses they leave there. (torch 2.13, rendezvous.py and distributed_c10d.py.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ...language import either, text
from ...model import Finding, Joining, MeetingPoint, NotAvailable, RankEvidence, Socket, rank_subjects
from ...words.durations import time_words
from ...words.ranks import ranks_words
from .case import Case, Hit, View
from .words import alike, command_words, place, short_place

__all__ = [
    "EXPLAINS",
    "Joiner",
    "absent_ranks",
    "connections",
    "hit",
    "holder_words",
    "interfaces",
    "joiners",
    "launcher_listens",
    "outcome",
    "place_words",
    "point_words",
    "preflight",
    "several_hosts",
]

EXPLAINS = {"init_incomplete": ("rank_ended", "collective_not_issued")}
REFERENCE = "https://docs.pytorch.org/docs/stable/distributed.html#initialization"
_TORCH = ("torch/distributed/distributed_c10d.py", "torch/distributed/rendezvous.py")
Link = Literal["connected", "connecting", "none", "not known"]
_AT_STORE = {"rendezvous", "_create_c10d_store", "_env_rendezvous_handler", "_tcp_rendezvous_handler"}


@dataclass(frozen=True)
class Joiner:
    """A rank in ``init_process_group``. ``stage``: on the way to the store, or past it, on the way to the other ranks. ``link``: how far
    its connection to the store is.
    """

    view: View
    told: Joining
    stage: Literal["store", "mesh"]
    point: MeetingPoint | None
    link: Link

    @property
    def rank(self) -> int:
        return self.view.rank

    @property
    def meets_at(self) -> tuple[str, int] | None:
        return (self.told.address, self.told.port) if self.told.address and self.told.port else None


def joiners(case: Case) -> list[Joiner]:
    """The living ranks that are in ``init_process_group``, in order."""
    return [joiner for view in case.views if (joiner := _joiner(case, view)) is not None]


# --- who joins -----------------------------------------------------------------------------------------------------


def _joiner(case: Case, view: View) -> Joiner | None:
    stage = _stage(view)
    if stage is None or view.role == "ended":
        return None
    told = _told(view.evidence)
    points = case.evidence.meeting
    point = next((p for p in points if (p.address, p.port) == (told.address, told.port)), None)
    return Joiner(view, told, stage, point, _link(view, told.port))


def _stage(view: View) -> Literal["store", "mesh"] | None:
    if view.now.thread is None:
        return None
    inside = {f.function.rsplit(".", 1)[-1] for f in view.now.thread.frames if f.file.endswith(_TORCH)}
    if "init_process_group" not in inside:
        return None
    return "store" if inside & _AT_STORE else "mesh"


def _told(rank: RankEvidence) -> Joining:
    """What it was told by its own frames, else by the environment that it was started with."""
    if isinstance(rank.joining, Joining):
        return rank.joining
    names = {} if isinstance(rank.environ, NotAvailable) else rank.environ

    def number(name: str) -> int | None:
        return int(names[name]) if names.get(name, "").isdigit() else None

    listens = names.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    return Joining(
        number("RANK"),
        number("WORLD_SIZE"),
        names.get("MASTER_ADDR"),
        number("MASTER_PORT"),
        serves=number("RANK") == 0 and listens,
    )


def _link(view: View, port: int | None) -> Link:
    if view.activity is None:
        return "not known"
    states = {c.state for c in connections(view) if port is None or c.remote_port == port}
    return "connected" if "ESTABLISHED" in states else "connecting" if "SYN_SENT" in states else "none"


def connections(view: View) -> list[Socket]:
    """Those that have, or look for, another end."""
    return [] if view.activity is None else [s for s in view.activity.sockets if not s.listens]


# --- words ---------------------------------------------------------------------------------------------------------


def hit(
    joiners: Sequence[Joiner],
    blamed: Sequence[int],
    *,
    title: str,
    evidence: Sequence[str],
    cause: str,
    next_steps: Sequence[str],
    where: str | None = None,
    confidence: Literal["high", "medium", "low"] = "high",
) -> Hit:
    of_blamed = next((j for j in joiners if j.rank in blamed), joiners[0])
    finding = Finding(
        code="init_incomplete",
        severity="critical",
        title=either(title[:1].upper() + title[1:], title),
        who=rank_subjects(blamed),
        where=where or place(of_blamed.view.now.frame),
        evidence=[*evidence, *_waits(joiners), *_told_words(joiners)],
        cause=cause,
        next_steps=next_steps,
        reference=REFERENCE,
        confidence=confidence,
    )
    return Hit(finding, tuple(blamed))


def _waits(joining: Sequence[Joiner]) -> list[str]:
    """Where they stand, those in the same stage together."""
    found = []
    for same in alike(joining, lambda j: (j.stage, j.link, j.view.now.frame))[:4]:
        which, one = ranks_words(j.rank for j in same), len(same) == 1
        at, stage = short_place(same[0].view.now.frame), _stage_words(same[0])
        found.append(
            text(
                "{which} {value} in init_process_group, {stage}, at {at}",
                which=which,
                value="waits" if one else "wait",
                stage=stage,
                at=at,
            )
        )
    return found


def _stage_words(joiner: Joiner) -> str:
    if joiner.stage == "mesh":
        return text("past the store, for the other ranks")
    if joiner.link == "connected":
        return text("at the store, for all to come there")
    if joiner.link == "not known":
        return text("at the job's store, or on the way to it")
    return text("on the way to the job's store")


def _told_words(joiners: Sequence[Joiner]) -> list[str]:
    """What they were told, those that were told the same together."""
    found = []
    for same in alike(joiners, lambda j: (j.meets_at, j.told.world_size, j.told.timeout_s, j.told.backend))[:4]:
        told = same[0].told
        parts = [text("meet at {address}:{port}", address=told.address, port=told.port)] if told.address else []
        parts.append(text("{world_size} ranks", world_size=told.world_size))
        if told.backend and told.backend != "undefined":
            parts.append(told.backend)
        if told.timeout_s is not None:
            parts.append(text("time-out {timeout_s}", timeout_s=time_words(told.timeout_s)))
        which = ranks_words(j.rank for j in same)
        verb = "were" if len(same) > 1 else "was"
        found.append(
            text(
                "{which} {verb} told: {parts}", which=which, verb=verb, parts=", ".join(parts), parts2="，".join(parts)
            )
        )
    return found


def place_words(joiner: Joiner) -> str:
    return f"{joiner.told.address}:{joiner.told.port}"


def outcome(joiner: Joiner) -> str:
    """What became of the attempt, as the end of a sentence."""
    state = (
        "filtered" if joiner.link == "connecting" else joiner.point.state if joiner.point is not None else "not known"
    )
    said = {
        "unresolved": text(": the name does not resolve"),
        "refused": text(": nobody listens there"),
        "filtered": text(": no answer from there"),
        "unreachable": text(": there is no route to it"),
    }
    return said.get(state, "")


def point_words(joiners: Sequence[Joiner]) -> list[str]:
    """What was seen at the places where they look, and how their connections are."""
    found = []
    for point in dict.fromkeys(j.point for j in joiners if j.point is not None):
        name = f"{point.address}:{point.port}"
        if not point.addresses:
            found.append(text("{address} does not resolve", address=point.address))
        elif point.state == "open" and point.holder_pid is not None:
            found.append(text("{holder_words} listens at {name}", holder_words=holder_words(point), name=name))
        else:
            seen = {
                "open": text("somebody listens"),
                "refused": text("nobody listens"),
                "filtered": text("no answer"),
                "unreachable": text("no route"),
            }.get(point.state, text("not known"))
            own = text(", an address of this host") if point.local else ""
            found.append(text("at {name}{own}: {seen}", name=name, own=own, seen=seen))
    for joiner in joiners:
        if joiner.link == "connecting":
            found.append(text("rank {rank}'s connection is in state SYN_SENT: asked, not answered", rank=joiner.rank))
    return found[:8]


def holder_words(point: MeetingPoint) -> str:
    command = command_words(point.holder_command)
    return text("process {holder_pid} (`{command}`)", holder_pid=point.holder_pid, command=command)


def preflight(joiner: Joiner) -> str:
    command = f"%nccl_check --preflight --master-addr {joiner.told.address} --master-port {joiner.told.port}"
    return text("From each host: `{command}`.", command=command)


def interfaces(rank: RankEvidence) -> list[str]:
    names = {} if isinstance(rank.environ, NotAvailable) else rank.environ
    return [f"{name}={names[name]}" for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME") if name in names]


def absent_ranks(joiners: Sequence[Joiner]) -> list[int]:
    size = max((j.told.world_size or 0 for j in joiners), default=0)
    return sorted(set(range(size)) - {j.rank if j.told.rank is None else j.told.rank for j in joiners})


def several_hosts(case: Case, joiners: Sequence[Joiner]) -> bool:
    """By what torchrun says of its nodes, else by there being more ranks than were started here."""
    environs = [e for j in joiners if not isinstance(e := j.view.evidence.environ, NotAvailable)]
    nodes = {e["GROUP_WORLD_SIZE"] for e in environs if "GROUP_WORLD_SIZE" in e}
    if nodes:
        return nodes != {"1"}
    sizes = {e["WORLD_SIZE"] for e in environs if "WORLD_SIZE" in e}
    here = case.evidence.nproc
    return here is not None and any(size.isdigit() and int(size) > here for size in sizes)


def launcher_listens(joiners: Sequence[Joiner]) -> bool:
    return any(
        not isinstance(j.view.evidence.environ, NotAvailable)
        and j.view.evidence.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        for j in joiners
    )
