"""Workarounds and debugging that stayed: variables that cost speed, and some that can hang."""

from __future__ import annotations

from collections.abc import Iterator

from ...language import text
from .setting import Judged, Rule, Setting, judge

__all__ = ["RULES"]

LONG_IB_TIMEOUT = 22
"""4.096 us * 2^22 are 17 s a try, and there are several."""
NO_IB_TIMEOUT = 32
"""From here on there is none, by NCCL's documentation of the variable."""


def detours(setting: Setting) -> Iterator[Judged]:
    """Transports that are turned off. One is a workaround; both within a machine send everything over sockets."""
    if not setting.nccl:
        return
    inside = sorted(set(setting.on("NCCL_P2P_DISABLE")) & set(setting.on("NCCL_SHM_DISABLE")))
    if inside:
        yield judge(
            setting,
            ["NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"],
            inside,
            "warning",
            title=text("GPUs of one machine talk over the network: P2P and shared memory are off"),
            cause=text("Both direct ways are turned off; the network is many times slower."),
            steps=[text("Keep at most one of them, and take it out once its reason is mended.")],
        )
        return
    for name, lost in (
        ("NCCL_P2P_DISABLE", text("GPUs of one machine talk through its memory")),
        (
            "NCCL_SHM_DISABLE",
            text("GPUs that cannot reach each other directly talk over the network"),
        ),
        (
            "NCCL_IB_DISABLE",
            text("machines talk over TCP, also where there is InfiniBand"),
        ),
    ):
        ranks = setting.on(name)
        if ranks:
            yield judge(
                setting,
                [name],
                ranks,
                "info",
                title=text("{name}: {lost}", name=name, lost=lost),
                cause=text("A workaround, which costs bandwidth as long as it stays."),
                steps=[text("Take it out once what it works around is mended.")],
            )


def launch_blocking(setting: Setting) -> Iterator[Judged]:
    ranks = setting.on("CUDA_LAUNCH_BLOCKING")
    if ranks:
        yield judge(
            setting,
            ["CUDA_LAUNCH_BLOCKING"],
            ranks,
            "warning",
            title=text("CUDA_LAUNCH_BLOCKING=1: every kernel launch waits, and NCCL can hang"),
            cause=text(
                "It is for finding the line of a CUDA error. NCCL's kernels wait for other GPUs, so a launch "
                "that blocks can wait for ever (https://github.com/NVIDIA/nccl/issues/750)."
            ),
            steps=[text("Take it out again after debugging.")],
        )


def detail(setting: Setting) -> Iterator[Judged]:
    ranks = setting.where("TORCH_DISTRIBUTED_DEBUG", lambda v: v.strip().upper() == "DETAIL")
    if ranks:
        yield judge(
            setting,
            ["TORCH_DISTRIBUTED_DEBUG"],
            ranks,
            "warning" if setting.nccl and setting.backend is not None else "info",
            title=text("TORCH_DISTRIBUTED_DEBUG=DETAIL: every collective is preceded by another one"),
            cause=text(
                "It names mismatches, at the price of speed; with nccl it needs a gloo group besides, whose "
                "start can hang (https://github.com/pytorch/pytorch/issues/129672)."
            ),
            steps=[text("Take it out again after debugging.")],
        )


def infiniband_timeout(setting: Setting) -> Iterator[Judged]:
    ranks = setting.where("NCCL_IB_TIMEOUT", lambda v: v.strip().isdigit() and not 1 <= int(v) <= LONG_IB_TIMEOUT)
    if ranks and setting.nccl:
        value = int(setting.environ[ranks[0]]["NCCL_IB_TIMEOUT"])
        effect = (
            text("{value} means that InfiniBand never gives up", value=value)
            if value == 0 or value >= NO_IB_TIMEOUT
            else text("a lost peer is noticed after {seconds} at the earliest", seconds=_seconds(value))
        )
        yield judge(
            setting,
            ["NCCL_IB_TIMEOUT"],
            ranks,
            "warning",
            title=text("NCCL_IB_TIMEOUT={value} is an exponent, not seconds", value=value),
            cause=text("The time is 4.096 µs · 2^value for each of NCCL_IB_RETRY_CNT tries: {effect}.", effect=effect),
            steps=[
                text("Use 14 to 22, or leave it out; the time-out of collectives is init_process_group(timeout=...).")
            ],
        )


def _seconds(exponent: int) -> str:
    return f"{4.096e-6 * 2**exponent * 7:.0f} s"


def forced_protocol(setting: Setting) -> Iterator[Judged]:
    ranks = setting.where("NCCL_PROTO", lambda v: "LL128" in v.upper() and not v.startswith("^"))
    if ranks and setting.nccl:
        yield judge(
            setting,
            ["NCCL_PROTO"],
            ranks,
            "warning",
            title=text("NCCL_PROTO forces LL128, which corrupts data on machines that do not support it"),
            cause=text("NCCL itself uses LL128 only where it is safe."),
            steps=[text("Leave it out.")],
            confidence="medium",
        )


def too_many_sockets(setting: Setting) -> Iterator[Judged]:
    def product(rank: int) -> int:
        counts = [setting.environ[rank].get(n, "1") for n in ("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD")]
        return int(counts[0]) * int(counts[1]) if all(c.strip().isdigit() for c in counts) else 0

    ranks = tuple(rank for rank in setting.environ if product(rank) > 64)
    if ranks and setting.nccl:
        yield judge(
            setting,
            ["NCCL_NSOCKS_PERTHREAD", "NCCL_SOCKET_NTHREADS"],
            ranks,
            "info",
            title=text("more than 64 sockets per connection: NCCL uses fewer"),
            cause=text("NCCL_SOCKET_NTHREADS times NCCL_NSOCKS_PERTHREAD may be 64 at most."),
            steps=[text("Lower one of them.")],
        )


def trace_level(setting: Setting) -> Iterator[Judged]:
    ranks = setting.where("NCCL_DEBUG", lambda v: v.strip().upper() == "TRACE")
    if ranks and setting.nccl:
        yield judge(
            setting,
            ["NCCL_DEBUG"],
            ranks,
            "info",
            title=text("NCCL_DEBUG=TRACE shows little more than INFO"),
            cause=text("Most of its lines are compiled in only with `make TRACE=1`."),
            steps=[text("Use NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,NET,COLL.")],
        )


RULES: tuple[Rule, ...] = (
    detours,
    launch_blocking,
    detail,
    infiniband_timeout,
    forced_protocol,
    too_many_sockets,
    trace_level,
)
