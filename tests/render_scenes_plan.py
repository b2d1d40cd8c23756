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
        ("4 + 4 + 8 bytes a parameter", "34 s b h a layer"),
    )
    finding = Finding(
        "batch_size_config_error",
        "critical",
        "verl's batch sizes do not fit together: 100 % 8 = 4",
        ["data.train_batch_size"],
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
