"""The port where the ranks are to meet, if it is of this machine."""

from __future__ import annotations

from ...language import text
from ...model import Finding, Plan
from .reading import finding

__all__ = ["rule"]

INIT = "https://docs.pytorch.org/docs/stable/distributed.html#initialization"
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def rule(plan: Plan) -> list[Finding]:
    return [*_numbers(plan), *_taken(plan), *_loopback(plan)]


def _numbers(plan: Plan) -> list[Finding]:
    port = plan.master_port
    if port is None or 0 <= port.value <= 65535:
        return []
    return [
        finding(
            "init_incomplete",
            "critical",
            text(f"{port.value} is no port", f"{port.value} 不是端口号"),
            arithmetic=[f"0 <= {port.name} <= 65535, {port.value}"],
            at=[port],
            cause=text("Ports are 1 to 65535.", "端口范围为 1 到 65535。"),
            steps=[text(f"Set {port.name} to 29500.", f"把 {port.name} 设为 29500。")],
            reference=INIT,
        )
    ]


def _taken(plan: Plan) -> list[Finding]:
    found = []
    for port in plan.machine.ports:
        if port.state not in ("taken", "not permitted"):
            continue
        holder = f"pid {port.holder_pid}: {port.holder}" if port.holder_pid is not None else port.detail
        found.append(
            finding(
                "init_incomplete",
                "critical",
                text(f"Port {port.port} of this machine is taken", f"本机端口 {port.port} 已被占用")
                if port.state == "taken"
                else text(f"This user may not listen at port {port.port}", f"当前用户无权监听端口 {port.port}"),
                arithmetic=[f"{port.host}:{port.port} {port.state}" + (f" ({holder})" if holder else "")],
                at=[plan.master_port],
                cause=text(
                    "Rank 0 could not listen there (EADDRINUSE, EACCES). Often a leftover of an earlier run.",
                    "rank 0 无法监听（EADDRINUSE、EACCES）。常见于上次运行的残留进程。",
                ),
                steps=[
                    text(
                        "End that process if it is a leftover, or take another port above 1024.",
                        "若是残留进程则结束它，或换 1024 以上的端口。",
                    )
                ],
                reference=INIT,
            )
        )
    return found


def _loopback(plan: Plan) -> list[Finding]:
    address, nodes = plan.master_address, plan.nodes
    if address is None or nodes is None or nodes.value < 2 or address.value.lower() not in LOOPBACK:
        return []
    return [
        finding(
            "init_incomplete",
            "critical",
            text(
                f"{address.value} is each machine itself, and there are {nodes.value}",
                f"{address.value} 指每台机器自己，而任务有 {nodes.value} 台",
            ),
            arithmetic=[f"{nodes.name} {nodes.value}, {address.name} {address.value}"],
            at=[address, nodes],
            cause=text("Every machine would look for rank 0 on itself.", "每台机器都会在自己身上寻找 rank 0。"),
            steps=[
                text(
                    f"Set {address.name} to the name of the first machine as the others reach it.",
                    f"把 {address.name} 设为其他机器可达的首机地址。",
                )
            ],
            reference=INIT,
        )
    ]
