"""torchrun has started no rank: it waits for the torchruns of other hosts, or cannot reach the place where they are to meet."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...language import text
from ...model import Activity, Finding, JobEvidence, MeetingPoint, NotAvailable
from ...words.durations import time_words
from .case import Case, Hit

__all__ = ["rule"]

PATIENCE_S = 10.0
"""torchruns are never started at the very same moment."""
REFERENCE = "https://docs.pytorch.org/docs/stable/elastic/run.html"
_RENDEZVOUS = "/torch/distributed/elastic/rendezvous/"
_NODES = re.compile(r"--nnodes[= ](\S+)")


def rule(case: Case) -> list[Hit]:
    """Only where there is no rank, neither alive nor dead, and torchrun's own stack says that it is in its rendezvous."""
    evidence = case.evidence
    if len(case.roles("not seen")) < len(case.views) or not _in_rendezvous(evidence):
        return []
    waited = evidence.launcher_running_s
    if waited is not None and waited < PATIENCE_S:
        return []
    point = evidence.meeting[0] if evidence.meeting else None
    unreached = _unreached(evidence, point)
    return [_out_of_reach(evidence, point, unreached) if point and unreached else _others_missing(evidence, point)]


def _in_rendezvous(evidence: JobEvidence) -> bool:
    look = evidence.launcher
    frames = [f for p in look.processes for t in p.threads for f in t.frames] if look is not None else []
    return any(_RENDEZVOUS in f.file for f in frames)


def _unreached(evidence: JobEvidence, point: MeetingPoint | None) -> str:
    """In words, what keeps torchrun from the meeting place; empty where it has come there."""
    if point is None:
        return ""
    activity = evidence.launcher_activity
    connections = activity.sockets if isinstance(activity, Activity) else ()
    if any(point.port in (c.local_port, c.remote_port) and not c.connecting for c in connections):
        return ""
    if any(c.connecting for c in connections):
        return text("no answer comes from there (SYN_SENT)")
    return {
        "refused": text("nobody listens there"),
        "filtered": text("no answer comes from there"),
        "unreachable": text("there is no route to it"),
        "unresolved": text("the name does not resolve"),
    }.get(point.state, "")


def _evidence(evidence: JobEvidence) -> list[str]:
    found = [text("started as `{launcher_command}`", launcher_command=evidence.launcher_command)]
    if evidence.launcher_running_s is not None:
        since = time_words(evidence.launcher_running_s)
        found.append(text("it has run for {since}, and has no ranks", since=since))
    activity = evidence.launcher_activity
    return [*found, *map(str, activity.sockets[:3] if not isinstance(activity, NotAvailable) else ())]


def _out_of_reach(evidence: JobEvidence, point: MeetingPoint, why: str) -> Hit:
    name = f"{point.address}:{point.port}"
    return _hit(
        text("The job cannot begin: torchrun does not reach the meeting place {name}: {why}", name=name, why=why),
        evidence,
        text("Wrong address or port, the torchrun of the host that is to listen there was not started, or a firewall."),
        [
            text("From this host: `traindbg nccl-check --preflight --rdzv-endpoint {name}`.", name=name),
            text("Start the torchrun of the host with that address, and give all hosts the same address and port."),
        ],
    )


def _others_missing(evidence: JobEvidence, point: MeetingPoint | None) -> Hit:
    match = _NODES.search(evidence.launcher_command)
    nodes = match.group(1) if match else text("several")
    at = "" if point is None else text(" at {address}:{port}", address=point.address, port=point.port)
    return _hit(
        text(
            "The job cannot begin: torchrun waits{at} for the torchruns of other hosts (--nnodes {nodes})",
            at=at,
            nodes=nodes,
        ),
        evidence,
        text(
            "On some host torchrun was not started, has ended, or meets elsewhere: another --rdzv-id, address or port."
        ),
        [
            text(
                "See on every host that torchrun runs there, with the same --nnodes, --rdzv-id and "
                "--rdzv-endpoint (or --master-addr, --master-port and a --node-rank of its own)."
            ),
            text("From the other hosts: `traindbg nccl-check --preflight --rdzv-endpoint HOST:PORT`."),
        ],
    )


def _hit(title: str, evidence: JobEvidence, cause: str, next_steps: Sequence[str]) -> Hit:
    return Hit(
        Finding(
            "init_incomplete",
            "critical",
            title,
            evidence=tuple(_evidence(evidence)),
            cause=cause,
            next_steps=tuple(next_steps),
            reference=REFERENCE,
        )
    )
