"""Variables by which ranks find each other and their GPUs, where they are real and cannot work."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

from ...language import text
from .setting import LOOPBACK, Judged, Rule, Setting, judge, ranks_in_words

__all__ = ["RULES", "gloo_interfaces", "nccl_interfaces"]

ALLOCATOR_KEYS = """
backend max_split_size_mb max_non_split_rounding_mb garbage_collection_threshold roundup_power2_divisions roundup_bypass_threshold_mb
expandable_segments release_lock_on_cudamalloc release_lock_on_hipmalloc large_segment_size_mb pinned_use_cuda_host_register
pinned_use_hip_host_register pinned_num_register_threads pinned_use_background_threads pinned_reserve_segment_size_mb
pinned_max_round_threshold_mb pinned_max_cached_size_mb pinned_free_catch_all graph_capture_record_stream_reuse
per_process_memory_fraction throw_on_cudamalloc_oom use_cuda_host_register
"""
"""Of PyTorch's allocator settings (c10/core/AllocatorConfig.h and c10/cuda/CUDAAllocatorConfig.h, 2.4 to 2.13)."""


def nccl_interfaces(value: str, names: Sequence[str]) -> list[str]:
    """Those of the interfaces `names` that ``NCCL_SOCKET_IFNAME=value`` leaves: prefixes, exact names after ``=``, all others after ``^``
    (https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname).
    """
    excluded = value.startswith("^")
    rest = value.removeprefix("^")
    exact = rest.startswith("=")
    wanted = [part.split(":")[0] for part in rest.removeprefix("=").split(",") if part]
    hit = [name for name in names if any(name == w if exact else name.startswith(w) for w in wanted)]
    return [name for name in names if name not in hit] if excluded else hit


def gloo_interfaces(value: str, names: Sequence[str]) -> list[str]:
    """Those of ``GLOO_SOCKET_IFNAME=value`` that do not exist among `names`: gloo takes exact names, and fails at one that is missing."""
    return [part for part in value.split(",") if part and part not in names]


def meeting_on_loopback(setting: Setting) -> Iterator[Judged]:
    ranks = tuple(
        r
        for r in setting.where("MASTER_ADDR", lambda a: LOOPBACK.fullmatch(a.strip()) is not None)
        if setting.spread(r)
    )
    if ranks:
        yield judge(
            setting,
            ["MASTER_ADDR", "WORLD_SIZE", "LOCAL_WORLD_SIZE"],
            ranks,
            "critical",
            title=text("MASTER_ADDR is the machine itself, in a job on several machines"),
            cause=text("Ranks of other machines look for rank 0 on their own machine."),
            steps=[text("Set it to the address of rank 0's machine, as the others reach it.")],
        )


def port_out_of_range(setting: Setting) -> Iterator[Judged]:
    ranks = setting.where("MASTER_PORT", lambda p: p.strip().isdigit() and not 0 <= int(p) <= 65535)
    if ranks:
        yield judge(
            setting,
            ["MASTER_PORT"],
            ranks,
            "critical",
            title=text("MASTER_PORT is no port"),
            cause=text("Ports end at 65535."),
            steps=[text("Choose one from 1024 to 65535; 29500 is torchrun's default.")],
        )


def rank_out_of_range(setting: Setting) -> Iterator[Judged]:
    def beyond(rank: int) -> bool:
        own, world = setting.environ[rank].get("RANK", ""), setting.environ[rank].get("WORLD_SIZE", "")
        return own.isdigit() and world.isdigit() and int(own) >= int(world)

    ranks = tuple(rank for rank in setting.environ if beyond(rank))
    if ranks:
        yield judge(
            setting,
            ["RANK", "WORLD_SIZE"],
            ranks,
            "critical",
            title=text("RANK is not below WORLD_SIZE"),
            cause=text("Ranks count from 0; init_process_group refuses this one."),
            steps=[text("Set WORLD_SIZE to the number of processes on all machines together.")],
        )


def _unmet(name: str, value: str, names: Sequence[str]) -> bool:
    if name.startswith("GLOO"):
        return bool(gloo_interfaces(value, names))
    return len(value) > 1 and not nccl_interfaces(value, names)  # NCCL itself ignores a single character


def missing_interface(setting: Setting) -> Iterator[Judged]:
    """NCCL_SOCKET_IFNAME is find-or-fail, GLOO_SOCKET_IFNAME wants exact names: only where the interfaces are known."""
    known = {rank: names for rank, names in setting.interfaces.items() if rank in setting.environ}
    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        set_to = {r: setting.environ[r][name] for r in known if name in setting.environ[r]}
        ranks = tuple(r for r, value in set_to.items() if _unmet(name, value, known[r]))
        if not ranks or setting.unused(name):
            continue
        there = ", ".join(known[ranks[0]]) or "none"
        value = setting.environ[ranks[0]][name]
        yield judge(
            setting,
            [name],
            ranks,
            "critical",
            title=text("{name}={value}: there is no such interface", name=name, value=value),
            cause=text("It is find or fail; the machine has {there}.", there=there),
            steps=[text("Leave it out, or name one of those.")],
        )


def loopback_interface(setting: Setting) -> Iterator[Judged]:
    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        ranks = tuple(
            r for r in setting.where(name, lambda v: v.strip().removeprefix("=") == "lo") if setting.spread(r)
        )
        if ranks and not setting.unused(name):
            yield judge(
                setting,
                [name, "WORLD_SIZE", "LOCAL_WORLD_SIZE"],
                ranks,
                "critical",
                title=text("{name} is the loopback, in a job on several machines", name=name),
                cause=text("Other machines cannot reach what listens on lo."),
                steps=[text("Leave it out, or name the interface that leads to the other machines.")],
            )


def one_communicator_address(setting: Setting) -> Iterator[Judged]:
    ranks = setting.where("NCCL_COMM_ID", bool)
    if ranks and setting.nccl:
        yield judge(
            setting,
            ["NCCL_COMM_ID"],
            ranks,
            "warning",
            title=text("NCCL_COMM_ID makes all communicators meet at one address"),
            cause=text("PyTorch makes a communicator per group: the second one waits, or meets the first one's."),
            steps=[text("Leave it out: PyTorch hands out the ids itself.")],
        )


# --- GPUs --------------------------------------------------------------------------------------------------------------


def _visible(value: str) -> int | None:
    """How many GPUs ``CUDA_VISIBLE_DEVICES=value`` leaves; CUDA stops at the first that is not valid. None where that is unclear."""
    devices = [part.strip() for part in value.split(",")]
    count = 0
    for device in devices:
        if device in ("", "-1") or device.lower() in ("none", "void", "nodevfiles"):
            return count
        count += 1
    return count


def no_gpu(setting: Setting) -> Iterator[Judged]:
    ranks = setting.where("CUDA_VISIBLE_DEVICES", lambda value: _visible(value) == 0)
    if ranks and setting.backend is not None and setting.nccl and "gloo" not in setting.backend:
        yield judge(
            setting,
            ["CUDA_VISIBLE_DEVICES"],
            ranks,
            "critical",
            title=text("CUDA_VISIBLE_DEVICES hides all GPUs, and the backend is nccl"),
            cause=text("NCCL needs a GPU for every rank."),
            steps=[text("Leave it out, or use the backend gloo.")],
        )


def local_rank_beyond(setting: Setting) -> Iterator[Judged]:
    def beyond(rank: int) -> bool:
        environ = setting.environ[rank]
        local, visible = environ.get("LOCAL_RANK", ""), _visible(environ.get("CUDA_VISIBLE_DEVICES", "")) or 0
        return local.isdigit() and 0 < visible <= int(local)

    ranks = tuple(rank for rank in setting.environ if beyond(rank))
    if ranks and setting.nccl:
        yield judge(
            setting,
            ["LOCAL_RANK", "CUDA_VISIBLE_DEVICES"],
            ranks,
            "warning",
            title=text("LOCAL_RANK is beyond the GPUs that CUDA_VISIBLE_DEVICES leaves"),
            cause=text(
                "torch.cuda.set_device(LOCAL_RANK) fails there, and a program that catches it puts several ranks "
                "on one GPU."
            ),
            steps=[text("Let every rank see all GPUs, or use device 0 in every rank.")],
            confidence="medium",
        )


def shared_gpu(setting: Setting) -> Iterator[Judged]:
    """Two ranks of one machine with the same LOCAL_RANK and the same GPUs."""
    seats: dict[tuple[str, str, str], list[int]] = {}
    for rank, environ in setting.environ.items():
        machine = setting.machine(rank)
        if machine is not None and "LOCAL_RANK" in environ:
            seats.setdefault((machine, environ["LOCAL_RANK"], environ.get("CUDA_VISIBLE_DEVICES", "")), []).append(rank)
    double = [rank for ranks in seats.values() if len(ranks) > 1 for rank in ranks]
    if double and setting.nccl:
        yield judge(
            setting,
            ["LOCAL_RANK"],
            double,
            "critical" if setting.backend is not None else "warning",
            title=text(
                "two ranks of a machine have the same LOCAL_RANK: {ranks_in_words}",
                ranks_in_words=ranks_in_words(double, len(setting.environ)),
            ),
            cause=text("They use the same GPU, with which NCCL hangs or refuses to work."),
            steps=[text("Give each process of a machine its own LOCAL_RANK, from 0 on; torchrun does.")],
        )


def allocator_keys(setting: Setting) -> Iterator[Judged]:
    known = ALLOCATOR_KEYS.split()
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        for value, ranks in setting.values(name):
            for key in re.findall(r"(?:^|,)\s*(\w+)\s*:", value or ""):
                meant = difflib.get_close_matches(key, known, n=1, cutoff=0.8) if key not in known else []
                if meant:
                    yield judge(
                        setting,
                        [name],
                        ranks,
                        "critical",
                        title=text(
                            "{name} has no setting {key!r}: {meant!r} is meant?", name=name, key=key, meant=meant[0]
                        ),
                        cause=text("PyTorch refuses it when it first uses the GPU."),
                        steps=[text("Write {meant}.", meant=meant[0])],
                        confidence="medium",
                    )


RULES: tuple[Rule, ...] = (
    meeting_on_loopback,
    port_out_of_range,
    rank_out_of_range,
    missing_interface,
    loopback_interface,
    one_communicator_address,
    no_gpu,
    local_rank_beyond,
    shared_gpu,
    allocator_keys,
)
