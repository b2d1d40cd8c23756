"""DataLoader workers against cores, memory and /dev/shm."""

from __future__ import annotations

from collections.abc import Iterator

from ...language import text
from ...model import Finding, Given, NotAvailable, Plan
from ..preflight import DOCKER_SHM_BYTES
from .estimate import tokens
from .reading import finding, gib, per_node, positive, product

__all__ = ["rule"]

LOADER = "https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading"
DOCKER = "https://docs.docker.com/reference/cli/docker/container/run/"
WORKER_BYTES = 400 * 2**20
"""What a worker that has imported torch takes besides the data set, roughly."""
TOKEN_BYTES = 3 * 8
"""Ids, mask and labels, as int64."""


def rule(plan: Plan) -> list[Finding]:
    workers = plan.workers
    if workers is None or workers.value <= 0:
        return []
    each = per_node(plan)
    # verl's loader is in its one driver process; elsewhere every process has one
    loaders = 1 if "verl" in plan.dialects or each is None else each.value
    return [*_cores(plan, workers, each, loaders), *_memory(plan, workers, loaders), *_shm(plan, workers, loaders)]


def _cores(plan: Plan, workers: Given[int], each: Given[int] | None, loaders: int) -> Iterator[Finding]:
    wanted, cores = workers.value * loaders, plan.machine.cpus
    if not cores or wanted <= cores:
        return
    compared = f"{workers.name} {workers.value} x {loaders} = {wanted} > {cores} CPU"
    yield finding(
        "dataloader_oversubscribed",
        "warning",
        text("More DataLoader workers than cores") + f": {compared}",
        arithmetic=[compared],
        at=[workers, each if loaders > 1 else None],
        cause=text(
            "They take turns with each other and with the training processes, which need a core each: "
            "slower, or frozen."
        ),
        steps=[
            text(
                "Set {name} to {value}: a core for each process, the rest for workers.",
                name=workers.name,
                value=max(1, (cores - loaders) // loaders),
            )
        ],
        reference=LOADER,
    )


def _memory(plan: Plan, workers: Given[int], loaders: int) -> Iterator[Finding]:
    wanted, free = workers.value * loaders * WORKER_BYTES, plan.machine.memory_free_bytes
    if not free or wanted <= free:
        return
    compared = f"{workers.name} {workers.value} x {loaders} x {gib(WORKER_BYTES)} = {gib(wanted)} > {gib(free)}"
    yield finding(
        "host_oom_killed",
        "warning",
        text("The workers will not fit into the free memory") + f": {compared}",
        arithmetic=[compared],
        at=[workers],
        cause=text(
            "Each is a process with Python and torch, and with its own copy of whatever it touches of the data set."
        ),
        steps=[
            text(
                "Set {name} to {value} at most.", name=workers.name, value=max(0, int(free // WORKER_BYTES // loaders))
            )
        ],
        reference=LOADER,
        confidence="medium",
    )


def _shm(plan: Plan, workers: Given[int], loaders: int) -> Iterator[Finding]:
    size, free = plan.machine.shm_bytes, plan.machine.shm_free_bytes
    if isinstance(size, NotAvailable) or isinstance(free, NotAvailable):
        return
    length, micro = tokens(plan), plan.micro_batch_size
    ahead = plan.prefetch.value if positive(plan.prefetch) and plan.prefetch is not None else 2
    batches = product(length, micro) * TOKEN_BYTES * workers.value * ahead * loaders if length is not None else 0
    if size > DOCKER_SHM_BYTES and batches <= free:
        return
    compared = text("/dev/shm {size}, free {free}", size=gib(size), free=gib(free))
    if batches > free:
        compared += f" < {gib(batches)}"
    yield finding(
        "shm_full",
        "critical" if batches > free else "warning",
        text("/dev/shm is too small for the workers' batches") + f": {compared}",
        arithmetic=[
            compared,
            text(
                "{name} {value} x {ahead} batches ahead x {loaders} processes pass through it",
                name=workers.name,
                value=workers.value,
                ahead=ahead,
                loaders=loaders,
            ),
        ],
        at=[workers],
        cause=text(
            "Workers hand over batches there; where it ends they die: bus error (SIGBUS). 64 MiB is Docker's default."
        ),
        steps=[
            text("Start the container with --shm-size=8g or --ipc=host."),
            text("Or set {name} to 0.", name=workers.name),
        ],
        reference=DOCKER,
    )
