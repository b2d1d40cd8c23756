"""Why a job would not come up, judged from one `Preflight`. What is merely unusual is no finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from ..language import text
from ..model import Finding, NotAvailable, Preflight, PreflightHost, PreflightPort

__all__ = ["findings"]

MIB = 2**20
DOCKER_SHM_BYTES = 64 * MIB
"""What a container gets that was not given more."""
FULL_SHM_BYTES = 16 * MIB
FAR_S = 0.02
FEW_FILES = 1024
DRIVERS = {12: 525, 13: 580}
"""The oldest driver for a major version of CUDA (https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html)."""
INIT = "https://docs.pytorch.org/docs/stable/distributed.html#initialization"
RUN = "https://docs.pytorch.org/docs/stable/elastic/run.html"


def findings(look: Preflight, *, infiniband: bool = False) -> list[Finding]:
    """What would keep the job from starting, or from starting well; root causes first. `infiniband`: this machine has such devices."""
    found = [*_names(look), *_ports(look), *_ways(look), *_interfaces(look), *_processes(look), *_versions(look)]
    return [*found, *_shm(look), *_limits(look, infiniband), *_trial(look)]


def _finding(
    code: str,
    severity: Literal["critical", "warning", "info"],
    title: str,
    *,
    evidence: Sequence[str],
    cause: str,
    steps: Sequence[str],
    reference: str | None = None,
    confidence: Literal["high", "medium", "low"] = "high",
) -> Finding:
    return Finding(code, severity, title, (), None, list(evidence), cause, list(steps), reference, confidence)


# --- finding each other --------------------------------------------------------------------------------------------------


def _named(look: Preflight) -> list[PreflightHost]:
    """The hosts that the person named: our own name was only looked up."""
    return [host for host in look.hosts if host.name != look.host or look.nodes > 1]


def _names(look: Preflight) -> Iterator[Finding]:
    for host in _named(look):
        if host.addresses:
            continue
        yield _finding(
            "init_incomplete",
            "critical" if host.name != look.host else "warning",
            text("The name {name} means nothing here", name=host.name),
            evidence=[f"{host.name}: {host.problem}"],
            cause=text("Ranks that cannot resolve it wait, or fail, in init_process_group."),
            steps=[text("Correct it, enter it in DNS or /etc/hosts, or use an address.")],
            reference=INIT,
        )
    meeting = look.ports[0].host if look.ports else ""
    here = next((h for h in look.hosts if h.name == meeting), None)
    loop = meeting in ("localhost", "127.0.0.1", "::1") or (
        here is not None and here.name != look.host and _all_loopback(here.addresses)
    )
    if look.nodes > 1 and loop:
        yield _finding(
            "init_incomplete",
            "critical",
            text("{meeting} is this machine, and there are {nodes}", meeting=meeting or "localhost", nodes=look.nodes),
            evidence=[f"{meeting}: {', '.join(here.addresses) if here else 'loopback'}"],
            cause=text("Every machine would look for rank 0 on itself."),
            steps=[text("Name the machine of rank 0 as the others reach it: --rdzv-endpoint HOST:PORT.")],
            reference=RUN,
        )


def _all_loopback(addresses: Sequence[str]) -> bool:
    return bool(addresses) and all(address.startswith("127.") or address == "::1" for address in addresses)


def _ports(look: Preflight) -> Iterator[Finding]:
    for port in look.ports:
        told = _port_words(port)
        if told is not None:
            title, cause, step = told
            who = f"pid {port.holder_pid}: {port.holder}" if port.holder_pid is not None else port.detail
            yield _finding(
                "init_incomplete",
                "critical",
                title,
                evidence=[f"{port.host}:{port.port} {port.state}" + (f" ({who})" if who else "")],
                cause=cause,
                steps=[step],
                reference=INIT,
            )


def _port_words(port: PreflightPort) -> tuple[str, str, str] | None:
    at = f"{port.host}:{port.port}"
    return {
        "taken": (
            text("Port {port} of this machine is taken", port=port.port),
            text("Rank 0 could not listen there: EADDRINUSE. Often a leftover of an earlier run."),
            text(
                "End that process if it is a leftover, or take another port: --master-port, --rdzv-endpoint HOST:PORT."
            ),
        ),
        "filtered": (
            text("{at} does not answer at all", at=at),
            text("A firewall drops the packets, the address is wrong, or the machine is down."),
            text(
                "On that machine: `ping`, then open the port for this one; a listener to try with: python -m "
                "http.server {port}",
                port=port.port,
            ),
        ),
        "unreachable": (
            text("There is no way to {at}", at=at),
            text("The network says: {detail}.", detail=port.detail),
            text("Check the address, the routes (`ip route get ADDRESS`), and the firewall."),
        ),
        "not permitted": (
            text("This user may not listen at port {port}", port=port.port),
            text("Ports below 1024 are for root."),
            text("Take a port from 1024 on; 29500 is usual."),
        ),
    }.get(port.state)


def _ways(look: Preflight) -> Iterator[Finding]:
    """Hosts that resolve and do not answer, and hosts that are far away."""
    at = look.ports[0] if look.ports else None
    for host in _named(look):
        if host.addresses and host.problem and not host.local and (at is None or host.name != at.host):
            yield _silent(host)
        if not isinstance(host.latency_s, NotAvailable) and host.latency_s > FAR_S:
            yield _finding(
                "init_incomplete",
                "warning",
                text("{name} is {latency_s:.0f} ms away", name=host.name, latency_s=host.latency_s * 1000),
                evidence=[f"TCP handshake with {host.addresses[0]}: {host.latency_s * 1000:.1f} ms"],
                cause=text("Within a cluster it is below 1 ms; every collective pays this several times."),
                steps=[text("See whether the name leads over the right network.")],
                confidence="medium",
            )


def _silent(host: PreflightHost) -> Finding:
    no_way = isinstance(host.interface, NotAvailable)
    title = (
        text("There is no way to {name}", name=host.name) if no_way else text("{name} does not answer", name=host.name)
    )
    return _finding(
        "init_incomplete",
        "critical" if no_way else "warning",
        title,
        evidence=[f"{host.name} ({host.addresses[0]}): {host.problem}"],
        cause=text("This machine has no route there.")
        if no_way
        else text("Either the machine is down, or a firewall drops packets to ports where nobody listens."),
        steps=[
            text("See `ip route get ADDRESS` on both sides.")
            if no_way
            else text("Let the machines reach each other at all ports of the ephemeral range.")
        ],
        confidence="high" if no_way else "medium",
    )


def _interfaces(look: Preflight) -> Iterator[Finding]:
    if look.nodes == 1:
        return
    loopback = {i.name for i in look.interfaces if i.loopback}
    if look.chosen and set(look.chosen) <= loopback:
        variable = "NCCL_SOCKET_IFNAME" if look.backend == "nccl" else "GLOO_SOCKET_IFNAME"
        other = next((i.name for i in look.interfaces if i.up and i.addresses and not i.loopback), "eth0")
        yield _finding(
            "init_incomplete",
            "critical",
            text("{backend} would use the loopback here, which other machines cannot reach", backend=look.backend),
            evidence=[
                f"{', '.join(look.chosen)}: {look.chosen_by}",
                *(f"{h.name}: {', '.join(h.addresses)}" for h in look.hosts if h.name == look.host),
            ],
            cause=text("The machine's own name stands for 127.0.0.1, or the interface was chosen so."),
            steps=[text("Set {variable}={other} on all machines, or mend /etc/hosts.", variable=variable, other=other)],
            reference="https://docs.pytorch.org/docs/stable/distributed.html#choosing-the-network-interface-to-use",
        )
        return
    ways = {h.interface: h.name for h in _named(look) if not h.local and isinstance(h.interface, str)}
    missing = {interface: name for interface, name in ways.items() if interface not in look.chosen}
    if look.chosen and missing:
        yield _finding(
            "init_incomplete",
            "warning",
            text(
                "{backend} would use {chosen}, but the other machines are behind {missing}",
                backend=look.backend,
                chosen=", ".join(look.chosen),
                missing=", ".join(missing),
            ),
            evidence=[
                f"{look.chosen_by}: {', '.join(look.chosen)}",
                *(f"{name}: {interface}" for interface, name in missing.items()),
            ],
            cause=text("The ranks would offer addresses that the others cannot reach, or reach slowly."),
            steps=[text("Choose the interface that leads to the others, on all machines.")],
            confidence="medium",
        )


# --- having what they need -----------------------------------------------------------------------------------------------


def _processes(look: Preflight) -> Iterator[Finding]:
    if look.backend == "nccl" and isinstance(look.gpus, int) and look.per_node > look.gpus:
        yield _finding(
            "init_incomplete",
            "critical",
            text("{per_node} processes, and {gpus} GPUs here", per_node=look.per_node, gpus=look.gpus),
            evidence=[
                f"--nproc-per-node {look.per_node}",
                text("{gpus} GPUs are visible", gpus=look.gpus),
            ],
            cause=text("NCCL needs a GPU of its own for every rank; several on one hang, or are refused."),
            steps=[text("Lower --nproc-per-node, see CUDA_VISIBLE_DEVICES, or use --backend gloo.")],
            reference="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/communicators.html",
        )
    others = {h.name for h in look.hosts if h.name != look.host and not h.local}
    if others and not len(others) <= look.nodes <= len(others) + 1:
        yield _finding(
            "init_incomplete",
            "warning",
            text("--nnodes is {nodes}, and {count} machines are named", nodes=look.nodes, count=len(others) + 1),
            evidence=[", ".join(sorted(others))],
            cause=text("Ranks wait until WORLD_SIZE of them are there: for one machine too few, for ever."),
            steps=[text("Make the two agree.")],
            confidence="medium",
        )


def _versions(look: Preflight) -> Iterator[Finding]:
    torch, cuda = look.versions.get("torch"), look.versions.get("CUDA")
    if look.backend == "nccl" and torch is not None and cuda is None and "HIP" not in look.versions:
        yield _finding(
            "environment",
            "critical",
            text("torch {torch} was built without CUDA: it has no NCCL", torch=torch),
            evidence=[f"torch {torch}"],
            cause=text('init_process_group("nccl") fails.'),
            steps=[text("Install a CUDA build of torch, or use the backend gloo.")],
            reference="https://pytorch.org/get-started/locally/",
        )
    driver = look.versions.get("driver", "")
    major, oldest = (cuda or "").partition(".")[0], driver.partition(".")[0]
    if major.isdigit() and oldest.isdigit() and int(oldest) < DRIVERS.get(int(major), 0):
        yield _finding(
            "environment",
            "critical",
            text("The driver {driver} is too old for CUDA {cuda}", driver=driver, cuda=cuda),
            evidence=[f"driver {driver}", f"torch {torch}, CUDA {cuda}"],
            cause=text("CUDA {major} needs {DRIVERS} at least.", major=major, DRIVERS=DRIVERS[int(major)]),
            steps=[text("Update the driver, or install a build of torch for an older CUDA.")],
            reference="https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html",
        )


def _shm(look: Preflight) -> Iterator[Finding]:
    free, size = look.shm_free_bytes, look.shm_bytes
    if isinstance(free, NotAvailable) or isinstance(size, NotAvailable):
        return
    if free >= FULL_SHM_BYTES and size > DOCKER_SHM_BYTES:
        return
    yield _finding(
        "shm_full",
        "critical" if free < FULL_SHM_BYTES else "warning",
        text("/dev/shm is full") if free < FULL_SHM_BYTES else text("/dev/shm is small: 64 MiB is Docker's default"),
        evidence=[text("{free:.0f} MiB of {size:.0f} MiB are free", free=free / MIB, size=size / MIB)],
        cause=text("DataLoader workers and NCCL pass data through it; where it ends they die by SIGBUS, or wait."),
        steps=[text("Start the container with --shm-size=8g or --ipc=host; leftovers: ls -l /dev/shm")],
        reference="https://github.com/docker/cli/blob/master/docs/reference/run.md",
    )


def _limits(look: Preflight, infiniband: bool) -> Iterator[Finding]:
    wanted = {"nofile": max(FEW_FILES, 4 * look.world_size + 256), "nproc": 256 * look.per_node}
    low = {name: (look.limits[name], least) for name, least in wanted.items() if 0 <= look.limits.get(name, -1) < least}
    for name, (limit, least) in low.items():
        option = {"nofile": "-n", "nproc": "-u"}[name]
        what = {"nofile": text("open files"), "nproc": text("processes and threads")}[name]
        yield _finding(
            "environment",
            "warning",
            text("The limit of {what} is {limit}", what=what, limit=limit),
            evidence=[f"ulimit {option}: {limit}"],
            cause=text(
                "About {least} are needed on this machine: sockets to the other ranks, workers, shared tensors.",
                least=least,
            ),
            steps=[f"ulimit {option} {max(least, 65536)}"],
            confidence="medium",
        )
    if infiniband and look.backend == "nccl" and 0 <= look.limits.get("memlock", -1) < 2**30:
        yield _finding(
            "environment",
            "warning",
            text("InfiniBand may not get its memory locked: the limit is low"),
            evidence=[f"ulimit -l: {look.limits['memlock'] // 1024} KiB"],
            cause=text(
                "Buffers that are registered with the NIC are locked; without the capability IPC_LOCK, "
                "ibv_reg_mr fails at the limit."
            ),
            steps=["ulimit -l unlimited", text("For containers: --ulimit memlock=-1")],
            confidence="medium",
        )


def _trial(look: Preflight) -> Iterator[Finding]:
    trial = look.all_reduce
    if trial is not None and trial.problem:
        yield _finding(
            "init_incomplete",
            "critical",
            text(
                "An all_reduce over {backend} among {processes} processes of this machine does not work",
                backend=trial.backend,
                processes=trial.processes,
            ),
            evidence=[trial.problem, *trial.last_lines[-4:]],
            cause=text("What fails within one machine fails among several."),
            steps=[text("Mend this first; a longer --timeout where it was only slow.")],
        )
