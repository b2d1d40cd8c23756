"""Processes against GPUs and machines."""

from __future__ import annotations

from collections.abc import Iterator

from ...language import text
from ...model import Finding, NotAvailable, Plan
from .ray_demand import demands
from .reading import finding, multiple_of, per_node, positive, product, shares_gpus, world_size

__all__ = ["rule"]

NCCL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/communicators.html"
OPENRLHF = "https://github.com/OpenRLHF/OpenRLHF/blob/v0.9.9/openrlhf/cli/train_ppo_ray.py"


def rule(plan: Plan) -> list[Finding]:
    return [*(_hidden(plan) or _gpus(plan)), *_machines(plan), *_engines(plan)]


def _hidden(plan: Plan) -> list[Finding]:
    """More processes than GPUs that the configuration itself lets them see: wherever that runs."""
    visible, each = plan.environ.get("CUDA_VISIBLE_DEVICES"), plan.processes_per_node
    if (
        visible is None
        or each is None
        or not positive(each)
        or (plan.backend is not None and "nccl" not in plan.backend.value)
    ):
        return []
    count = len([part for part in visible.value.split(",") if part.strip() and not part.strip().startswith("-")])
    if each.value <= count:
        return []
    compared = f"{each.name} {each.value} > {count} (CUDA_VISIBLE_DEVICES={visible.value})"
    return [
        finding(
            "world_size_gpu_mismatch",
            "critical",
            text("More processes than GPUs that they may see") + f": {compared}",
            arithmetic=[compared],
            at=[each, visible],
            cause=text('Each process takes the GPU of its local rank: from the next one "invalid device ordinal".'),
            steps=[
                text(
                    "Set {name} to {count}, or name {value} GPUs in CUDA_VISIBLE_DEVICES.",
                    name=each.name,
                    count=count,
                    value=each.value,
                )
            ],
            reference=NCCL,
        )
    ]


def _gpus(plan: Plan) -> Iterator[Finding]:
    """A machine without any GPU is one where configurations are written, not run: that is a note, no finding."""
    gpus, each = plan.machine.gpus, per_node(plan)
    if isinstance(gpus, NotAvailable) or not gpus or each is None or each.value <= len(gpus):
        return
    if plan.machine.ray_nodes and demands(plan):
        return  # Ray decides where they go: `ray_placement`
    if plan.backend is not None and "nccl" not in plan.backend.value.lower():
        return
    compared = f"{each.name} {each.value} > {len(gpus)} GPU"
    yield finding(
        "world_size_gpu_mismatch",
        "critical",
        text("More processes than GPUs on {name}", name=plan.machine.name) + f": {compared}",
        arithmetic=[compared, ", ".join(dict.fromkeys(gpu.name for gpu in gpus))],
        at=[each],
        cause=text('Each process takes the GPU of its local rank: from the next one "invalid device ordinal".'),
        steps=[
            text("Set {name} to {count} (and the batch sizes with it).", name=each.name, count=len(gpus)),
            text("See CUDA_VISIBLE_DEVICES if there should be more; --gpus N if the run goes to another machine."),
        ],
        reference=NCCL,
    )


def _machines(plan: Plan) -> Iterator[Finding]:
    processes, nodes = plan.processes, plan.nodes
    if processes is not None and nodes is not None and nodes.value > 1 and processes.value % nodes.value:
        compared = f"{processes.name} {processes.value} % {nodes.name} {nodes.value} = {processes.value % nodes.value}"
        yield finding(
            "world_size_gpu_mismatch",
            "critical",
            text("The processes do not divide among the machines") + f": {compared}",
            arithmetic=[compared],
            at=[processes, nodes],
            cause=text(
                "{name} counts the processes of all machines together; accelerate gives each the same number.",
                name=processes.name,
            ),
            steps=[
                text(
                    "Set {name} to {multiple_of}.",
                    name=processes.name,
                    multiple_of=multiple_of(processes.value, nodes.value),
                )
            ],
            reference="https://huggingface.co/docs/accelerate/package_reference/cli",
        )
    elif processes is not None and plan.processes_per_node is not None and positive(plan.processes_per_node):
        each = plan.processes_per_node
        if processes.value != product(nodes) * each.value:
            compared = f"{processes.name} {processes.value} != {product(nodes)} x {each.name} {each.value} = {product(nodes) * each.value}"
            yield finding(
                "world_size_gpu_mismatch",
                "critical",
                text("The world size is not machines x processes") + f": {compared}",
                arithmetic=[compared],
                at=[processes, nodes, each],
                cause=text("Ranks wait until as many have come as the world size says."),
                steps=[text("Set {name} to {product}.", name=processes.name, product=product(nodes) * each.value)],
            )
    known = plan.machine.nodes
    if known is not None and nodes is not None and nodes.value > known:
        compared = f"{nodes.name} {nodes.value} > {known}"
        yield finding(
            "world_size_gpu_mismatch",
            "critical",
            text("More machines are asked for than there are") + f": {compared}",
            arithmetic=[compared],
            at=[nodes],
            cause=text("The job would wait for the others for ever."),
            steps=[text("Set {name} to {known}.", name=nodes.name, known=known)],
        )


def _engines(plan: Plan) -> Iterator[Finding]:
    """OpenRLHF's engines on the GPUs of its actors: it asserts that they are equally many."""
    engines, world = plan.engines, world_size(plan)
    if "openrlhf" not in plan.dialects or engines is None or world is None or not shares_gpus(plan):
        return
    size = product(plan.engine_tensor_parallel)
    if engines.value <= 0 or engines.value * size == world.value:
        return
    compared = f"{engines.name} {engines.value} x {size} = {engines.value * size} != {world.value} GPUs"
    yield finding(
        "world_size_gpu_mismatch",
        "critical",
        text("Engines and actors share GPUs, and are not equally many") + f": {compared}",
        arithmetic=[compared],
        at=[engines, plan.engine_tensor_parallel, world],
        cause=text("With all models colocated, actor GPUs == engines x tensor parallel size is asserted."),
        steps=[
            text("Set {name} to {size}.", name=engines.name, size=world.value // size)
            if world.value % size == 0
            else text("Choose a tensor parallel size that divides {value}.", value=world.value)
        ],
        reference=OPENRLHF,
    )
