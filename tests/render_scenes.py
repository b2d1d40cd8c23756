"""Results as jobs give them, made by hand: small ones, ones of 300 ranks, empty ones, hostile ones."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

from render_scenes_checkpoints import FINDING, GIB, INFO, MIB, checkpoint, compared, inspected, verified
from render_scenes_collectives import collectives, halted, without_groups
from render_scenes_diagnosis import dumps_of_nothing, healthy, of_dumps, ray_job, stuck, unknown, unsound
from render_scenes_environ import alone, environ, preflight
from render_scenes_logs import followed, followed_quietly, healthy_log, log_diagnosis
from render_scenes_memory import memory
from render_scenes_pictures import picture_of_loss, picture_of_lr
from render_scenes_plan import config_preflight, of_little, on_ray
from render_scenes_profile import on_gpu, one_rank, sampled, slower_in_one, unseen, waited_for
from render_scenes_ray import collector, nothing, thousand
from render_scenes_report import report
from render_scenes_rescue import nothing_left, plan, rescued
from render_scenes_slow import hung, late_rank, nothing_slow, starved
from render_scenes_sql import one_value, query_rows, sql_tables
from render_scenes_stacks import all_different, stacks
from render_scenes_threads import deadlocked, threads
from render_scenes_watch import exported, little, watched

from jupyter_traindbg.model import (
    Attached,
    Changed,
    Checkpoint,
    Compared,
    Detached,
    Device,
    DeviceProcess,
    Environ,
    Exported,
    FirstNonFinite,
    Freed,
    GpuReport,
    Grads,
    GradStat,
    GroupChange,
    InForce,
    Inspected,
    LearningRates,
    LogEntry,
    Memory,
    NotAvailable,
    OptimizerGroup,
    OptimizerLr,
    Picture,
    Problem,
    Profile,
    Rank,
    RankChange,
    RankFreed,
    RankGrads,
    RankLr,
    RankMemory,
    RankSteps,
    Report,
    Result,
    Silent,
    Slow,
    SqlColumn,
    SqlRows,
    SqlTables,
    Stacks,
    Step,
    Steps,
    Target,
    Targets,
    Threads,
    Verified,
    Xid,
)

NOT_HERE = NotAvailable("not measured here")


def silent(ranks: Sequence[int]) -> tuple[Silent, ...]:
    return tuple(
        Silent(r, 1000 + r, f"process {1000 + r} did not answer in 10 s", "`traindbg stacks` looks from outside")
        for r in ranks
    )


PYTHON = "/opt/conda/envs/llm/bin/python3.11"
TRAINED = "/home/ada/llm/pretrain/train.py --config configs/big.yaml --lr 3e-4 --seed 7"


def ranks_of(launcher: int, ranks: int, silent: Sequence[int] = (), first: int = 1000) -> list[Target]:
    """A job of torchrun: its launcher and its ranks, in all of which but the `silent` ones an agent answers."""
    run = f"{PYTHON} /opt/conda/envs/llm/bin/torchrun --nproc-per-node={ranks} --rdzv-backend=c10d --max-restarts 3 {TRAINED}"
    name = f"torchrun:{launcher}"
    of_it = [
        Target(str(first + r), first + r, "rank", f"{PYTHON} -u {TRAINED}", "ada", 8000.0, "torch", r, ranks,
               agent=r not in silent, part_of=name)
        for r in range(ranks)
    ]  # fmt: skip
    return [Target(name, launcher, "launcher", run, "ada", 8100.0, "torch", None, ranks), *of_it]


def kernel(kernel_id: str, pid: int, notebook: str | None, framework: Any = "torch") -> Target:
    command = f"{PYTHON} -m ipykernel_launcher -f /home/ada/.local/share/jupyter/runtime/kernel-{kernel_id}.json"
    return Target(f"kernel:{kernel_id}", pid, "kernel", command, "ada", 340.0, framework, notebook=notebook)


TRAIN = kernel("7f3a21b0-5f0e-4c1c-9d3e-0a1b2c3d4e5f", 500, "/home/ada/llm/train.ipynb")
SPACED = kernel("49993c88-d186-4f6b-be1a-e20cca5d2bbb", 501, "/home/ada/llm/notes/my runs (2).ipynb")
NAMELESS = kernel("0a11b2c3-8f12-4a6b-9a70-c2f3a5b6d7e8", 502, None, NotAvailable("no deep learning library is loaded"))


def closed(pid: int) -> Target:
    command = f"python /srv/{pid}/finetune.py --model llama"
    why = f"process {pid} belongs to root, you are ada"
    return Target(str(pid), pid, "process", command, "root", 86400.0 * 3, NOT_HERE, why_not=why)


def targets(ranks: int) -> Targets:
    return Targets((*ranks_of(900, ranks), TRAIN, closed(77), closed(78)))


def attached(ranks: int, dead: Sequence[int] = ()) -> Attached:
    made = [
        Rank(
            r,
            ranks,
            1000 + r,
            "outside only" if r in dead else "injected",
            "3.11.9",
            "2.9.1",
            ("torch", "lightning"),
            r not in dead,
        )
        for r in range(ranks)
    ]
    return Attached("torchrun:900", tuple(made), 0.312, silent(dead))


def step(n: int, rank: int = 0, **changes: Any) -> Step:
    took = 0.0123 * (1.4 if rank == 1 else 1 + rank / 10000)
    loss = 2.9 * math.exp(-n / 40) + 0.05 * math.sin(n * 1.7)
    settings: dict[str, Any] = {
        "step": n, "time_s": 1.79e9 + n * took, "duration_s": took, "optimizer": 0, "optimizer_step": n, "loss": loss,
        "micro_batches": 1, "lr": (1e-3 * 0.99**n, 1e-4), "grad_norm": 1.5 + math.cos(n), "rss_bytes": 900 * MIB + n * 4096,
        "cuda_allocated_bytes": None, "cuda_reserved_bytes": None, "cuda_peak_bytes": None, "data_wait_s": took * 0.08,
        "forward_s": took * 0.31, "backward_s": took * 0.49, "optimizer_s": took * 0.1, "other_s": took * 0.02, **changes,
    }  # fmt: skip
    return Step(**settings)


def steps(ranks: int, n: int = 120) -> Steps:
    first = {f"{part}_s": None for part in ("duration", "data_wait", "forward", "backward", "optimizer", "other")}
    return Steps(
        tuple(
            RankSteps(r, 1000 + r, (step(1, r, **first), *(step(i, r) for i in range(2, n + 1)))) for r in range(ranks)
        )
    )


def grads(ranks: int, parameters: int = 400, bad_rank: int | None = None) -> Grads:
    names = [
        f"decoder.layers.{i // 8}.{('attention', 'mlp')[i % 2]}.{('q', 'k', 'v', 'out')[i % 4]}.weight_{i}"
        for i in range(parameters)
    ]
    unscanned = NotAvailable("its norm is finite; ask with detail to scan every element")
    none = NotAvailable("no gradient: it is None now")

    def stat(i: int, rank: int) -> GradStat:
        if rank == bad_rank and i in (17, 40):
            return GradStat(names[i], (512, 512), "bfloat16", math.nan, 3.2e38, 0.125, 24000, 12)
        if i % 50 == 49:
            return GradStat(names[i], (512,), "bfloat16", none, none, none, 0, 0)
        norm = 0.0 if i % 60 == 7 else 3.2 / (1 + i) + (rank * 1e-3 if rank == bad_rank else 0)
        return GradStat(names[i], (512, 512), "bfloat16", norm, unscanned, unscanned, 0, 0)

    made = []
    for rank in range(ranks):
        first = FirstNonFinite("decoder.layers.2.attention", "forward", True, False, 57) if rank == bad_rank else None
        total = math.nan if rank == bad_rank else 4.0625
        made.append(
            RankGrads(
                rank,
                1000 + rank,
                "after optimizer step 1204",
                True,
                total,
                tuple(stat(i, rank) for i in range(parameters)),
                first,
                after_step=54 + rank % 3,
                optimizer_step=1204,
            )
        )
    return Grads(tuple(made), (), (FINDING,) if bad_rank is not None else (), same_step=True)


def lr(ranks: int) -> LearningRates:
    groups = (
        OptimizerGroup(
            0, 3e-4, 0.1, None, (0.9, 0.95), 148, 124_000_000, (2.9991e-4, 2.9983e-4, 2.9974e-4, 2.9965e-4, 2.9957e-4)
        ),
        OptimizerGroup(
            1, 3e-5, 0.0, None, (0.9, 0.95), 98, 121_344, (2.9991e-5, 2.9983e-5, 2.9974e-5, 2.9965e-5, 2.9957e-5)
        ),
    )
    return LearningRates(
        tuple(RankLr(r, 1000 + r, (OptimizerLr("AdamW", groups, "CosineAnnealingLR", 1204),)) for r in range(ranks))
    )


_PINNED = GroupChange(0, "AdamW", 0, "lr", 3e-4, 3e-4, 1e-4, "hold 0.0001")
_SCALED = GroupChange(0, "AdamW", 1, "lr", 3e-5, 3e-5, 3e-6, "scale 0.1", "a compiled step is compiled again")
_CLIPPED = GroupChange(0, "AdamW", None, "clip_norm", NOT_HERE, NOT_HERE, 1.0, "hold 1")


def lr_in_force(ranks: int) -> LearningRates:
    """The same, with one group pinned, one's weight decay halved, and gradients clipped."""
    (optimizer,) = lr(1).ranks[0].optimizers
    first, second = optimizer.groups
    groups = (
        dataclasses.replace(first, effective_lr=1e-4, effective_weight_decay=0.05),
        dataclasses.replace(second, effective_lr=3e-5, effective_weight_decay=0.0),
    )
    actions = (
        InForce(0, "AdamW", 0, "lr", "hold 0.0001", 3e-4, 1e-4),
        InForce(0, "AdamW", 0, "weight_decay", "scale 0.5", 0.1, 0.05),
        InForce(
            0, "AdamW", None, "clip_norm", "hold 1", NOT_HERE, 1.0, so_far="clipped 12 of 40 steps, last norm 3.25"
        ),
    )
    log = (
        LogEntry(1.79e9, 41, "learning rate pinned at 0.0001 (group 0)", (_PINNED,)),
        LogEntry(1.79e9 + 65, 90, "gradients clipped at norm 1", (_CLIPPED,)),
    )
    shown = dataclasses.replace(optimizer, groups=groups)
    return LearningRates(tuple(RankLr(r, 1000 + r, (shown,), "", actions, log) for r in range(ranks)))


def lr_changed(ranks: int, *odd: RankChange) -> Changed:
    """All ranks at one step, whose number by their agents' counts differs; but the `odd` ones."""
    made = [RankChange(r, 1000 + r, "verified", 56 + r % 3, 1205, (_PINNED, _SCALED)) for r in range(ranks)]
    for rank in odd:
        made[rank.rank] = rank
    verdict = (FINDING,) if any(rank.state == "differs" for rank in odd) else ()
    undo = "%lr --undo, or %lr --release for the schedule's own values"
    return Changed("torchrun:900", "learning rate pinned at 0.0001", tuple(made), ranks > 1, undo, 0.123, (), verdict)


_DIFFERS = RankChange(1, 1001, "differs", 57, 1205, (_PINNED,), "group 0 of AdamW used 0.0003 and not 0.0001")
_ARMED = RankChange(0, 1000, "armed", NOT_HERE, NOT_HERE, (_PINNED,), "none came within 10 s")


def freed(ranks: int) -> Freed:
    cuda: list[Any] = [5 * GIB, 5 * GIB, 70 * GIB, 6 * GIB]
    return Freed(
        tuple(
            RankFreed(r, 1000 + r, "before the next batch", 1204, 3 * GIB, 2 * GIB + r * MIB, *cuda, 0.21, r != 1)
            for r in range(ranks)
        ),
        zero_grad=True,
    )


def device(index: int, **changes: Any) -> Device:
    ours = DeviceProcess(1000 + index, "python", 61 * GIB, index)
    settings: dict[str, Any] = {
        "index": index, "uuid": f"GPU-{index}", "name": "NVIDIA H100 80GB HBM3", "memory_used_bytes": 62 * GIB,
        "memory_total_bytes": 80 * GIB, "utilization_percent": 97, "memory_utilization_percent": 61, "power_w": 612.4,
        "power_limit_w": 700.0, "temperature_c": 64, "throttle_reasons": (), "ecc_uncorrected": 0, "ecc_corrected": 0, "xid_errors": 0,
        "processes": (ours,), "cuda_index": index, **changes,
    }  # fmt: skip
    return Device(**settings)


def gpu(devices: int = 2) -> GpuReport:
    made = [device(i) for i in range(devices)]
    sick = {
        "throttle_reasons": ("hardware thermal slowdown",),
        "temperature_c": 91,
        "ecc_uncorrected": 2,
        "xid_errors": 3,
    }
    stranger = DeviceProcess(31337, "python3", 9 * GIB)
    made[-1] = device(
        devices - 1, xids=(Xid(79, 340.0, 1001), Xid(31, 4000.0)), processes=(*made[-1].processes, stranger), **sick
    )  # type: ignore[misc]
    return GpuReport(tuple(made), "580.01", "13.1", taken_s=0.081, verdict=(INFO,))


def gpu_hung() -> GpuReport:
    nothing = dict.fromkeys(
        ("name", "memory_used_bytes", "memory_total_bytes", "utilization_percent", "memory_utilization_percent", "power_w",
         "power_limit_w", "temperature_c", "throttle_reasons", "ecc_uncorrected", "ecc_corrected", "xid_errors", "processes"),
        NotAvailable("the driver does not answer"),
    )  # fmt: skip
    return GpuReport(
        tuple(device(i, **nothing) for i in range(8)), "580.01", NOT_HERE, Problem("the NVIDIA driver did not answer in 10 s"),
        (4242, 4243), 10.0,
        hung_call="nvmlDeviceGetUtilizationRates",
    )  # fmt: skip


SMALL: dict[str, Result] = {
    "log": log_diagnosis(4),
    "followed log": followed(2),
    "log without times": log_diagnosis(1, dated=False),
    "report": report(6),
    "checkpoint": checkpoint(2),
    "checkpoint of a hung job": checkpoint(2, missing=(1,), hung=True),
    "checkpoint in shards": checkpoint(2, hung=True, kind="sharded"),
    "targets": targets(2),
    "targets, many kinds": Targets((*ranks_of(900, 2), TRAIN, SPACED, NAMELESS)),
    "targets, nobody lets in": Targets((closed(77),)),
    "attached": attached(2, dead=(1,)),
    "detached": Detached("torchrun:900", 2),
    "detached, with actions in force": Detached(
        "torchrun:900", 2, lr_in_force(1).ranks[0].in_force, "no step came meanwhile: it ended where each rank stands"
    ),
    "stacks": stacks(2),
    "threads": threads(2, unknown=(1,)),
    "threads, a deadlock": deadlocked(2),
    "threads, too many": threads(2, starved=True),
    "slow, a starved loader": starved(2),
    "slow, a late rank": late_rank(2),
    "slow, nothing": nothing_slow(2),
    "slow, no step": hung(2),
    "profile": one_rank(),
    "profile, one slower in one operator": slower_in_one(2),
    "profile, one that all wait for": waited_for(4),
    "profile, on a GPU": on_gpu(),
    "profile, stacks alone": sampled(),
    "profile, nothing seen": unseen(),
    "steps": steps(2),
    "grads": grads(2, 40, bad_rank=1),
    "lr": lr(2),
    "lr, actions in force": lr_in_force(2),
    "weight decay": dataclasses.replace(lr_in_force(2), setting="weight_decay"),
    "clipping": dataclasses.replace(lr_in_force(2), setting="clip_norm"),
    "lr changed": lr_changed(2),
    "lr changed, but on one rank": lr_changed(2, _DIFFERS),
    "lr armed": Changed("4711", "learning rate pinned at 0.0001", (_ARMED,), False, "%lr --undo", 10.0, silent([1])),
    "freed": freed(2),
    "memory": memory(2),
    "gpu": gpu(),
    "gpu driver hangs": gpu_hung(),
    "checkpoint verified": verified(2),
    "checkpoint verified, good": verified(2, bad=False),
    "checkpoint inspected": inspected(2),
    "checkpoint compared": compared(2),
    "collectives": collectives(2),
    "collectives, two GPUs stopped": halted(),
    "diagnosis": stuck(2),
    "diagnosis of dumps": of_dumps(4),
    "diagnosis, nothing wrong": healthy(),
    "diagnosis, unsound": unsound(2),
    "diagnosis of a Ray job": ray_job(8),
    "environ": environ(2),
    "preflight": preflight(2),
    "config preflight": config_preflight(),
    "config preflight on ray": on_ray(3),
    "config preflight on ray, stuck": on_ray(1, failed=True),
    "ray workers": collector(),
    "ray rescue, a plan": plan(2),
    "ray rescue": rescued(2),
    "ray workers with a verdict": collector(verdict=True, progress=True),
    "preflight, the trial failed": preflight(2, failed=True),
    "watched": watched(1),
    "watched, a rank lost": watched(2, odd=1),
    "watched, events": watched(2, view="events"),
    "exported": exported(2),
    "query": query_rows(12),
    "query for one value": one_value(),
    "sql tables": sql_tables(3),
    "picture of the loss": picture_of_loss(2, 60, bad=20),
    "picture of the learning rate": picture_of_lr(60),
    "picture of a profile": one_rank().plot(),
    "picture of a profile of two ranks": slower_in_one(2).plot(),
}
LARGE: dict[str, Result] = {
    "log": log_diagnosis(300),
    "followed log": followed(300),
    "report": report(300, missing=100),
    "checkpoint": checkpoint(300, missing=range(3, 300, 8)),
    "targets": targets(300),
    "targets, some without an agent": Targets(ranks_of(900, 300, silent=range(0, 300, 7))),
    "targets, all by themselves": Targets([closed(pid) for pid in range(300)]),
    "attached": attached(300, dead=range(0, 300, 7)),
    "stacks": stacks(300, odd=17),
    "stacks, all different": all_different(300),
    "threads": threads(300),
    "slow": late_rank(300, 217),
    "profile": slower_in_one(300, 217),
    "steps": steps(300),
    "grads": grads(300, 400),
    "grads, one rank not finite": grads(300, 400, bad_rank=7),
    "lr": lr(300),
    "lr, actions in force": lr_in_force(300),
    "weight decay": dataclasses.replace(lr_in_force(300), setting="weight_decay"),
    "clipping": dataclasses.replace(lr(300), setting="clip_norm", own_clip_norms=(1.0,)),
    "lr changed": lr_changed(300),
    "lr changed, but on one rank": lr_changed(300, _DIFFERS),
    "freed": freed(300),
    "memory": memory(300),
    "gpu": gpu(64),
    "checkpoint verified": verified(3000),
    "checkpoint inspected": inspected(330),
    "checkpoint compared": compared(330),
    "collectives": collectives(300, late=17),
    "diagnosis": stuck(300, odd=17),
    "diagnosis of dumps": of_dumps(300),
    "diagnosis, unsound": unsound(300),
    "diagnosis of a Ray job": ray_job(300),
    "environ": environ(300, odd=17),
    "preflight": preflight(300),
    "config preflight": config_preflight(300),
    "config preflight on ray": on_ray(300),
    "ray workers": thousand(300),
    "ray rescue": rescued(300),
    "a thousand ray workers": thousand(1000),
    "watched": watched(300, odd=17),
    "watched, all ranks": watched(300, view="ranks"),
    "exported": exported(300),
    "query": query_rows(5000, more=True),
    "picture of the loss": picture_of_loss(300, 300),
}
EMPTY: dict[str, Result] = {
    "log": healthy_log(),
    "followed log": followed_quietly(),
    "report": Report("/tmp/a.zip", 0, "this machine", (), ()),
    "checkpoint": Checkpoint("/ck", "replicated", "hung", False, True, (), 1, (), (), (), (), 0, 0.0),
    "targets": Targets(()),
    "attached": Attached("4711", (), 0.0),
    "detached": Detached("4711", 0),
    "stacks": Stacks(()),
    "threads": Threads(()),
    "slow": Slow(()),
    "profile": Profile(()),
    "steps": Steps((RankSteps(0, 1000, (), "torch has not been imported in this process"),)),
    "grads": Grads((RankGrads(0, 1000, "now", False, NOT_HERE, ()),)),
    "lr": LearningRates((RankLr(0, 1000, (), "no optimizer was found"),)),
    "lr changed": Changed("4711", "everything released", (RankChange(0, 1000, "in force", 3, 7, ()),), False, "", 0.1),
    "freed": Freed(
        (RankFreed(0, 1000, "at once", 0, 0, 0, NOT_HERE, NOT_HERE, NOT_HERE, NOT_HERE, 0.0),), zero_grad=False
    ),
    "memory": Memory((RankMemory(0, 1000, 0, 0, (), NOT_HERE, ()),)),
    "gpu": GpuReport((), NOT_HERE, NOT_HERE, Problem("there is no NVIDIA driver")),
    "checkpoint verified": Verified("ckpt", "", NOT_HERE, (), 0, 0.0),
    "checkpoint inspected": Inspected("ckpt", "safetensors", 8, (), NOT_HERE, "", (), (), NOT_HERE),
    "checkpoint compared": Compared("a", "b", 0, 0, 0, ()),
    "collectives": without_groups(),
    "diagnosis": unknown(),
    "diagnosis of dumps": dumps_of_nothing(),
    "environ": Environ("4711", (0,), ()),
    "preflight": alone(),
    "config preflight": of_little(),
    "ray workers": nothing(),
    "ray rescue": nothing_left(),
    "watched": little(),
    "exported": Exported("/tmp/trace.json", "trace", 0, 0, 0, 0, 0),
    "query": SqlRows("from events", (SqlColumn("rank", "BIGINT"),), ()),
    "sql tables": SqlTables(()),
    "picture": Picture("loss", "loss of rank 0", ()),
}


def changed(value: Any, change: Callable[[str, str, Any], Any]) -> Any:
    """`value` with every field of every dataclass within it replaced by ``change(name, annotation, value)``."""
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, NotAvailable)):
        fields = {
            f.name: change(f.name, str(f.type), changed(getattr(value, f.name), change))
            for f in dataclasses.fields(value)
        }
        return dataclasses.replace(value, **fields)
    if isinstance(value, (list, tuple)):
        return tuple(changed(v, change) for v in value)
    if isinstance(value, dict):
        return {k: changed(v, change) for k, v in value.items()}
    return value
