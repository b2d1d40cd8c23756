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
        return text("no answer comes from there (SYN_SENT)", "对方没有应答（SYN_SENT）")
    return {
        "refused": text("nobody listens there", "该处无人监听"),
        "filtered": text("no answer comes from there", "对方没有应答"),
        "unreachable": text("there is no route to it", "没有到达的路由"),
        "unresolved": text("the name does not resolve", "主机名无法解析"),
    }.get(point.state, "")


def _evidence(evidence: JobEvidence) -> list[str]:
    found = [text(f"started as `{evidence.launcher_command}`", f"启动命令：`{evidence.launcher_command}`")]
    if evidence.launcher_running_s is not None:
        since = time_words(evidence.launcher_running_s)
        found.append(text(f"it has run for {since}, and has no ranks", f"已运行 {since}，还没有任何 rank"))
    activity = evidence.launcher_activity
    return [*found, *map(str, activity.sockets[:3] if not isinstance(activity, NotAvailable) else ())]


def _out_of_reach(evidence: JobEvidence, point: MeetingPoint, why: str) -> Hit:
    name = f"{point.address}:{point.port}"
    return _hit(
        text(
            f"The job cannot begin: torchrun does not reach the meeting place {name}: {why}",
            f"任务无法开始：torchrun 无法到达会合地址 {name}：{why}",
        ),
        evidence,
        text(
            "Wrong address or port, the torchrun of the host that is to listen there was not started, or a firewall.",
            "地址或端口错误，应在该处监听的主机上的 torchrun 未启动，或被防火墙阻挡。",
        ),
        [
            text(
                f"From this host: `traindbg nccl-check --preflight --rdzv-endpoint {name}`.",
                f"在本机执行：`traindbg nccl-check --preflight --rdzv-endpoint {name}`。",
            ),
            text(
                "Start the torchrun of the host with that address, and give all hosts the same address and port.",
                "在该地址的主机上启动 torchrun，并让所有主机使用相同的地址和端口。",
            ),
        ],
    )


def _others_missing(evidence: JobEvidence, point: MeetingPoint | None) -> Hit:
    match = _NODES.search(evidence.launcher_command)
    nodes = match.group(1) if match else text("several", "多")
    at = "" if point is None else text(f" at {point.address}:{point.port}", f"（{point.address}:{point.port}）")
    return _hit(
        text(
            f"The job cannot begin: torchrun waits{at} for the torchruns of other hosts (--nnodes {nodes})",
            f"任务无法开始：torchrun 正在等待其他主机上的 torchrun{at}（--nnodes {nodes}）",
        ),
        evidence,
        text(
            "On some host torchrun was not started, has ended, or meets elsewhere: another --rdzv-id, address or port.",
            "某台主机上的 torchrun 未启动、已结束，或在别处会合：--rdzv-id、地址或端口不同。",
        ),
        [
            text(
                "See on every host that torchrun runs there, with the same --nnodes, --rdzv-id and --rdzv-endpoint (or --master-addr, "
                "--master-port and a --node-rank of its own).",
                "检查每台主机上 torchrun 是否在运行，且 --nnodes、--rdzv-id、--rdzv-endpoint（或 --master-addr、--master-port）相同，"
                "--node-rank 各不相同。",
            ),
            text(
                "From the other hosts: `traindbg nccl-check --preflight --rdzv-endpoint HOST:PORT`.",
                "在其他主机上执行：`traindbg nccl-check --preflight --rdzv-endpoint HOST:PORT`。",
            ),
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
