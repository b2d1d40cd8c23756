"""A configuration before its run, as a result: for the tests of rendering."""

from __future__ import annotations

from typing import Any

from jupyter_traindbg.model import (
    ConfigPreflight,
    Finding,
    Given,
    Machine,
    MachineGpu,
    MemoryEstimate,
    ModelShape,
    NotAvailable,
    Plan,
    PreflightPort,
    RayNode,
    RayWorkerTrial,
    TrialStage,
    things,
)

GIB = 2**30


def _given(**values: Any) -> dict[str, Given[Any]]:
    return {
        name: Given(value, f"actor_rollout_ref.{name}", "ppo.yaml", n)
        for n, (name, value) in enumerate(values.items(), 1)
    }


def config_preflight(variables: int = 1) -> ConfigPreflight:
    """A run on 8 GPUs whose batch does not divide; `variables` are set by its script."""
    gpu = MachineGpu("NVIDIA H100 80GB HBM3", 80 * GIB, 0)
    machine = Machine(
        "node0", 64, 1000 * GIB, 900 * GIB, (gpu,) * 8, 2, 100 * GIB, 90 * GIB, {"out": 200 * GIB},
        (PreflightPort("127.0.0.1", 29500, "taken", "", 7, "python old.py"),), ("eth0",), {}, {"torch": "2.8.0", "driver": "570.86"},
    )  # fmt: skip
    plan = Plan(
        machine,
        ("verl",),
        ("/home/ada/ppo.yaml", "run.sh"),
        ModelShape(**_given(hidden_size=3584, layers=28)),
        {f"NCCL_V{n}": Given("1", f"NCCL_V{n}", "run.sh", n) for n in range(variables)},
        **_given(
            nodes=2, processes_per_node=8, prompts_per_rollout=100, bf16=True, loss_scale=0.5, save_directory="out"
        ),
    )
    memory = MemoryEstimate(
        7_600_000_000,
        15 * GIB,
        15 * GIB,
        30 * GIB,
        9 * GIB,
        3 * GIB,
        assumptions=("4 + 4 + 8 bytes a parameter", "34 s b h a layer"),
    )
    finding = Finding(
        "batch_size_config_error",
        "critical",
        "verl's batch sizes do not fit together: 100 % 8 = 4",
        things(["data.train_batch_size"]),
        "ppo.yaml:2 data.train_batch_size",
        ["100 % 8 = 4"],
        "The samples are divided among all GPUs.",
        ["Set train_batch_size to 104."],
    )
    return ConfigPreflight(plan, memory, (finding,), ("a.json is named and is not here",), 0.2)


def of_little() -> ConfigPreflight:
    """Nothing was said, and little is known of the machine."""
    return ConfigPreflight(
        Plan(Machine("here", gpus=NotAvailable("no driver"))), NotAvailable("the model's size is not known")
    )


def on_ray(nodes: int = 2, *, failed: bool = False) -> ConfigPreflight:
    """A collection on a Ray cluster of so many nodes, and the one worker that was tried there: it came up, or it stuck."""
    stages = (
        TrialStage("process", 1.25, 1.1, 96 * 2**20),
        TrialStage("import", 2.5, 2.4, 410 * 2**20),
        TrialStage("__init__", 0.4, 0.3, 700 * 2**20),
        TrialStage("run()", 9.0, 8.0, 820 * 2**20),
    )
    trial = RayWorkerTrial(
        "scai.worker:Worker", "node1", 4711, {"CPU": 1.0}, stages[: 2 if failed else 4], 830 * 2**20, 640 * 2**20, 12,
        NotAvailable("it has used no GPU"), "__init__" if failed else "", "not done in time" if failed else "",
        where="/home/ada/worker.py:41 __init__" if failed else None, cleaned=not failed,
    )  # fmt: skip
    machine = Machine(
        "the Ray cluster at 10.0.0.1:6379",
        32,
        256 * GIB,
        200 * GIB,
        (),
        ray_nodes=tuple(_node(n) for n in range(nodes)),
    )
    plan = Plan(
        machine, files=("guide.yaml",), ray_trial=trial, **_given(ray_workers=100, ray_cpus=1.0, ray_strategy="STRICT_PACK")
    )  # fmt: skip
    finding = Finding(
        "ray_waiting_for_resources",
        "critical",
        "The cluster cannot hold what is asked for: num_workers 100 x (1 CPU): 64 of 100 find a place",
        things(["selfplay.num_workers"]),
        "guide.yaml:2 selfplay.num_workers",
        ["100 x 1 CPU = 100 CPU > 64 CPU", "2 nodes: 32 CPU"],
        "The others stay in PENDING_CREATION.",
        ["Set num_workers to 64 at most."],
    )
    fits = {"1 CPU": 32 * nodes, "memory": 512, "cores, one each": 32 * nodes}
    start_s = NotAvailable("it did not come up") if failed else 6.1
    return ConfigPreflight(plan, verdict=(finding,), taken_s=14.0, fits={} if failed else fits, start_s=start_s)


def _node(number: int) -> RayNode:
    odd = number % 3 == 2
    total = {
        "CPU": 32.0,
        "object_store_memory": 60.0 * GIB,
        "node:10.0.0.1": 1.0,
        **({"GPU": 8.0, "<disk>": 2.0} if odd else {}),
    }
    unknown = NotAvailable("read from the GCS")
    return RayNode(
        f"id{number}", f"10.0.0.{number}", f"node{number}", number == 0, True, "", total, unknown if odd else {"CPU": 12.0},
        unknown if odd else 32, memory_total_bytes=unknown if odd else 256 * GIB, memory_used_bytes=unknown if odd else 56 * GIB,
    )  # fmt: skip
