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
            text("{value} is no port", value=port.value),
            arithmetic=[f"0 <= {port.name} <= 65535, {port.value}"],
            at=[port],
            cause=text("Ports are 1 to 65535."),
            steps=[text("Set {name} to 29500.", name=port.name)],
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
                text("Port {port} of this machine is taken", port=port.port)
                if port.state == "taken"
                else text("This user may not listen at port {port}", port=port.port),
                arithmetic=[f"{port.host}:{port.port} {port.state}" + (f" ({holder})" if holder else "")],
                at=[plan.master_port],
                cause=text("Rank 0 could not listen there (EADDRINUSE, EACCES). Often a leftover of an earlier run."),
                steps=[text("End that process if it is a leftover, or take another port above 1024.")],
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
            text("{value} is each machine itself, and there are {value2}", value=address.value, value2=nodes.value),
            arithmetic=[f"{nodes.name} {nodes.value}, {address.name} {address.value}"],
            at=[address, nodes],
            cause=text("Every machine would look for rank 0 on itself."),
            steps=[text("Set {name} to the name of the first machine as the others reach it.", name=address.name)],
            reference=INIT,
        )
    ]
