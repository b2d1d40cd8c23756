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
            text(f"The name {host.name} means nothing here", f"此处无法解析主机名 {host.name}"),
            evidence=[f"{host.name}: {host.problem}"],
            cause=text(
                "Ranks that cannot resolve it wait, or fail, in init_process_group.",
                "无法解析它的 rank 会在 init_process_group 中等待或失败。",
            ),
            steps=[
                text(
                    "Correct it, enter it in DNS or /etc/hosts, or use an address.",
                    "更正名称，加入 DNS 或 /etc/hosts，或直接用地址。",
                )
            ],
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
            text(
                f"{meeting or 'localhost'} is this machine, and there are {look.nodes}",
                f"{meeting or 'localhost'} 是本机，而任务有 {look.nodes} 台机器",
            ),
            evidence=[f"{meeting}: {', '.join(here.addresses) if here else 'loopback'}"],
            cause=text("Every machine would look for rank 0 on itself.", "每台机器都会在自己身上寻找 rank 0。"),
            steps=[
                text(
                    "Name the machine of rank 0 as the others reach it: --rdzv-endpoint HOST:PORT.",
                    "给出其他机器可达的 rank 0 地址：--rdzv-endpoint HOST:PORT。",
                )
            ],
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
            text(f"Port {port.port} of this machine is taken", f"本机端口 {port.port} 已被占用"),
            text(
                "Rank 0 could not listen there: EADDRINUSE. Often a leftover of an earlier run.",
                "rank 0 无法监听：EADDRINUSE。常见于上次运行的残留进程。",
            ),
            text(
                "End that process if it is a leftover, or take another port: --master-port, --rdzv-endpoint HOST:PORT.",
                "若是残留进程则结束它，或换端口：--master-port、--rdzv-endpoint HOST:PORT。",
            ),
        ),
        "filtered": (
            text(f"{at} does not answer at all", f"{at} 完全没有回应"),
            text(
                "A firewall drops the packets, the address is wrong, or the machine is down.",
                "防火墙丢弃了数据包，或地址错误，或机器已关机。",
            ),
            text(
                f"On that machine: `ping`, then open the port for this one; a listener to try with: python -m http.server {port.port}",
                f"在那台机器上检查 ping，再放行该端口；可用 python -m http.server {port.port} 测试",
            ),
        ),
        "unreachable": (
            text(f"There is no way to {at}", f"无法到达 {at}"),
            text(f"The network says: {port.detail}.", f"网络返回：{port.detail}。"),
            text(
                "Check the address, the routes (`ip route get ADDRESS`), and the firewall.",
                "检查地址、路由（`ip route get ADDRESS`）和防火墙。",
            ),
        ),
        "not permitted": (
            text(f"This user may not listen at port {port.port}", f"当前用户无权监听端口 {port.port}"),
            text("Ports below 1024 are for root.", "1024 以下端口需 root 权限。"),
            text("Take a port from 1024 on; 29500 is usual.", "换用 1024 以上端口，通常为 29500。"),
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
                text(
                    f"{host.name} is {host.latency_s * 1000:.0f} ms away",
                    f"到 {host.name} 的时延为 {host.latency_s * 1000:.0f} ms",
                ),
                evidence=[f"TCP handshake with {host.addresses[0]}: {host.latency_s * 1000:.1f} ms"],
                cause=text(
                    "Within a cluster it is below 1 ms; every collective pays this several times.",
                    "集群内通常低于 1 ms；每次集合通信要付出数倍时延。",
                ),
                steps=[text("See whether the name leads over the right network.", "检查该名称是否经由正确的网络。")],
                confidence="medium",
            )


def _silent(host: PreflightHost) -> Finding:
    no_way = isinstance(host.interface, NotAvailable)
    title = (
        text(f"There is no way to {host.name}", f"无法到达 {host.name}")
        if no_way
        else text(f"{host.name} does not answer", f"{host.name} 没有回应")
    )
    return _finding(
        "init_incomplete",
        "critical" if no_way else "warning",
        title,
        evidence=[f"{host.name} ({host.addresses[0]}): {host.problem}"],
        cause=text("This machine has no route there.", "本机没有通往那里的路由。")
        if no_way
        else text(
            "Either the machine is down, or a firewall drops packets to ports where nobody listens.",
            "机器已关机，或防火墙丢弃发往未监听端口的数据包。",
        ),
        steps=[
            text("See `ip route get ADDRESS` on both sides.", "在两端查看 `ip route get 地址`。")
            if no_way
            else text(
                "Let the machines reach each other at all ports of the ephemeral range.",
                "让各机器在临时端口范围内互通。",
            )
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
            text(
                f"{look.backend} would use the loopback here, which other machines cannot reach",
                f"{look.backend} 会使用其他机器无法访问的回环网卡",
            ),
            evidence=[
                f"{', '.join(look.chosen)}: {look.chosen_by}",
                *(f"{h.name}: {', '.join(h.addresses)}" for h in look.hosts if h.name == look.host),
            ],
            cause=text(
                "The machine's own name stands for 127.0.0.1, or the interface was chosen so.",
                "本机主机名解析到 127.0.0.1，或网卡被设成如此。",
            ),
            steps=[
                text(
                    f"Set {variable}={other} on all machines, or mend /etc/hosts.",
                    f"在所有机器上设置 {variable}={other}，或修正 /etc/hosts。",
                )
            ],
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
                f"{look.backend} would use {', '.join(look.chosen)}, but the other machines are behind {', '.join(missing)}",
                f"{look.backend} 会用 {', '.join(look.chosen)}，而其他机器在 {', '.join(missing)} 一侧",
            ),
            evidence=[
                f"{look.chosen_by}: {', '.join(look.chosen)}",
                *(f"{name}: {interface}" for interface, name in missing.items()),
            ],
            cause=text(
                "The ranks would offer addresses that the others cannot reach, or reach slowly.",
                "rank 公布的地址可能不可达或很慢。",
            ),
            steps=[
                text(
                    "Choose the interface that leads to the others, on all machines.",
                    "在所有机器上选择通往其他机器的网卡。",
                )
            ],
            confidence="medium",
        )


# --- having what they need -----------------------------------------------------------------------------------------------


def _processes(look: Preflight) -> Iterator[Finding]:
    if look.backend == "nccl" and isinstance(look.gpus, int) and look.per_node > look.gpus:
        yield _finding(
            "init_incomplete",
            "critical",
            text(
                f"{look.per_node} processes, and {look.gpus} GPUs here",
                f"本机 {look.per_node} 个进程，但只有 {look.gpus} 块 GPU",
            ),
            evidence=[
                f"--nproc-per-node {look.per_node}",
                text(f"{look.gpus} GPUs are visible", f"可见 GPU {look.gpus} 块"),
            ],
            cause=text(
                "NCCL needs a GPU of its own for every rank; several on one hang, or are refused.",
                "NCCL 每个 rank 需独占一块 GPU；共用会卡死或报错。",
            ),
            steps=[
                text(
                    "Lower --nproc-per-node, see CUDA_VISIBLE_DEVICES, or use --backend gloo.",
                    "减小 --nproc-per-node，检查 CUDA_VISIBLE_DEVICES，或用 --backend gloo。",
                )
            ],
            reference="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/communicators.html",
        )
    others = {h.name for h in look.hosts if h.name != look.host and not h.local}
    if others and not len(others) <= look.nodes <= len(others) + 1:
        yield _finding(
            "init_incomplete",
            "warning",
            text(
                f"--nnodes is {look.nodes}, and {len(others) + 1} machines are named",
                f"--nnodes 为 {look.nodes}，但列出了 {len(others) + 1} 台机器",
            ),
            evidence=[", ".join(sorted(others))],
            cause=text(
                "Ranks wait until WORLD_SIZE of them are there: for one machine too few, for ever.",
                "rank 会等到 WORLD_SIZE 个全部到齐：少一台就永远等待。",
            ),
            steps=[text("Make the two agree.", "使两者一致。")],
            confidence="medium",
        )


def _versions(look: Preflight) -> Iterator[Finding]:
    torch, cuda = look.versions.get("torch"), look.versions.get("CUDA")
    if look.backend == "nccl" and torch is not None and cuda is None and "HIP" not in look.versions:
        yield _finding(
            "environment",
            "critical",
            text(f"torch {torch} was built without CUDA: it has no NCCL", f"torch {torch} 不含 CUDA：没有 NCCL"),
            evidence=[f"torch {torch}"],
            cause=text('init_process_group("nccl") fails.', 'init_process_group("nccl") 会失败。'),
            steps=[
                text(
                    "Install a CUDA build of torch, or use the backend gloo.", "安装 CUDA 版 torch，或使用 gloo 后端。"
                )
            ],
            reference="https://pytorch.org/get-started/locally/",
        )
    driver = look.versions.get("driver", "")
    major, oldest = (cuda or "").partition(".")[0], driver.partition(".")[0]
    if major.isdigit() and oldest.isdigit() and int(oldest) < DRIVERS.get(int(major), 0):
        yield _finding(
            "environment",
            "critical",
            text(f"The driver {driver} is too old for CUDA {cuda}", f"驱动 {driver} 对 CUDA {cuda} 来说太旧"),
            evidence=[f"driver {driver}", f"torch {torch}, CUDA {cuda}"],
            cause=text(
                f"CUDA {major} needs {DRIVERS[int(major)]} at least.", f"CUDA {major} 至少需要 {DRIVERS[int(major)]}。"
            ),
            steps=[
                text(
                    "Update the driver, or install a build of torch for an older CUDA.",
                    "升级驱动，或安装面向旧 CUDA 的 torch。",
                )
            ],
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
        text("/dev/shm is full", "/dev/shm 已满")
        if free < FULL_SHM_BYTES
        else text("/dev/shm is small: 64 MiB is Docker's default", "/dev/shm 太小：64 MiB 是 Docker 默认值"),
        evidence=[
            text(
                f"{free / MIB:.0f} MiB of {size / MIB:.0f} MiB are free",
                f"{size / MIB:.0f} MiB 中空闲 {free / MIB:.0f} MiB",
            )
        ],
        cause=text(
            "DataLoader workers and NCCL pass data through it; where it ends they die by SIGBUS, or wait.",
            "DataLoader worker 与 NCCL 通过它传数据；不足时会 SIGBUS 或等待。",
        ),
        steps=[
            text(
                "Start the container with --shm-size=8g or --ipc=host; leftovers: ls -l /dev/shm",
                "以 --shm-size=8g 或 --ipc=host 启动容器；残留：ls -l /dev/shm",
            )
        ],
        reference="https://github.com/docker/cli/blob/master/docs/reference/run.md",
    )


def _limits(look: Preflight, infiniband: bool) -> Iterator[Finding]:
    wanted = {"nofile": max(FEW_FILES, 4 * look.world_size + 256), "nproc": 256 * look.per_node}
    low = {name: (look.limits[name], least) for name, least in wanted.items() if 0 <= look.limits.get(name, -1) < least}
    for name, (limit, least) in low.items():
        option = {"nofile": "-n", "nproc": "-u"}[name]
        what = {"nofile": text("open files", "打开文件"), "nproc": text("processes and threads", "进程与线程")}[name]
        yield _finding(
            "environment",
            "warning",
            text(f"The limit of {what} is {limit}", f"{what}的上限为 {limit}"),
            evidence=[f"ulimit {option}: {limit}"],
            cause=text(
                f"About {least} are needed on this machine: sockets to the other ranks, workers, shared tensors.",
                f"本机约需 {least}：与其他 rank 的连接、worker、共享张量。",
            ),
            steps=[f"ulimit {option} {max(least, 65536)}"],
            confidence="medium",
        )
    if infiniband and look.backend == "nccl" and 0 <= look.limits.get("memlock", -1) < 2**30:
        yield _finding(
            "environment",
            "warning",
            text("InfiniBand may not get its memory locked: the limit is low", "InfiniBand 可能无法锁定内存：上限过低"),
            evidence=[f"ulimit -l: {look.limits['memlock'] // 1024} KiB"],
            cause=text(
                "Buffers that are registered with the NIC are locked; without the capability IPC_LOCK, ibv_reg_mr fails at the limit.",
                "向网卡注册的缓冲区会被锁定；没有 IPC_LOCK 权限时，超过上限 ibv_reg_mr 会失败。",
            ),
            steps=["ulimit -l unlimited", text("For containers: --ulimit memlock=-1", "容器：--ulimit memlock=-1")],
            confidence="medium",
        )


def _trial(look: Preflight) -> Iterator[Finding]:
    trial = look.all_reduce
    if trial is not None and trial.problem:
        yield _finding(
            "init_incomplete",
            "critical",
            text(
                f"An all_reduce over {trial.backend} among {trial.processes} processes of this machine does not work",
                f"本机 {trial.processes} 个进程经 {trial.backend} 的 all_reduce 失败",
            ),
            evidence=[trial.problem, *trial.last_lines[-4:]],
            cause=text("What fails within one machine fails among several.", "单机都失败，多机也会失败。"),
            steps=[
                text(
                    "Mend this first; a longer --timeout where it was only slow.",
                    "先解决它；若只是慢，请加大 --timeout。",
                )
            ],
        )
