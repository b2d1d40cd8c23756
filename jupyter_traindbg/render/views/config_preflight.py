"""`ConfigPreflight`: whether anything speaks against a start; the configuration in one vocabulary, the memory it takes, the machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from ...language import counted, pgettext, text
from ...model import ConfigPreflight, Given, Machine, MemoryEstimate, NotAvailable, Plan
from ...words.durations import duration
from ..blocks import Answer, Bar, Block, Column, Fold, Inline, Items, Line, Pair, Pairs, Part, Span, Table
from ..common import DASH, measured
from ..setting_names import setting_words
from ..units import size
from . import ray_preflight
from .preflight import port_state, verdict

FIRST = (
    "nodes",
    "processes_per_node",
    "processes",
    "tensor_parallel",
    "pipeline_parallel",
    "context_parallel",
    "train_batch_size",
    "micro_batch_size",
    "accumulation",
    "prompts_per_rollout",
    "samples_per_prompt",
    "mini_batch_prompts",
    "micro_rollout_batch_size",
    "sequence_length",
    "prompt_length",
    "response_length",
    "zero_stage",
    "sharding",
    "engine_memory_share",
    "engine_tensor_parallel",
    "engine_length",
    "ray_workers",
    "ray_cpus",
    "ray_gpus",
    "ray_memory",
    "ray_strategy",
    "workers",
    "keep_checkpoints",
)
"""What decides the arithmetic; the other values are folded."""


def view(result: ConfigPreflight) -> Iterator[Block]:
    plan = result.plan
    named = ", ".join(path.rsplit("/", 1)[-1] for path in plan.files) or text("a command line")
    if not plan.files and not _values(plan):
        named = text("this machine")
    words, tone = verdict(result.findings)
    frameworks = ", ".join(plan.dialects) or text("no framework")
    yield Answer(words, [named, frameworks, duration(result.taken_s)], tone)
    values = _values(plan)
    first = [(name, given) for name, given in values if name in FIRST]
    if first:
        yield _table(text("What was read"), first)
    if isinstance(result.memory, MemoryEstimate):
        yield from _memory(result.memory, plan.machine)
    yield from _ray(result)
    yield Pairs(list(_machine(plan, result)))
    rest = [(name, given) for name, given in values if name not in FIRST]
    if rest:
        yield Fold(
            counted("{n} more value", "{n} more values", len(rest)),
            [_table(text("Other values"), rest)],
        )
    if result.notes:
        yield Items(list(result.notes), Span(text("Note"), "strong"))


def _ray(result: ConfigPreflight) -> Iterator[Block]:
    """The nodes of the cluster, and the worker that was tried on it."""
    if result.plan.machine.ray_nodes:
        yield ray_preflight.nodes(result.plan.machine.ray_nodes)
    if result.plan.ray_trial is not None:
        yield from ray_preflight.trial(result.plan.ray_trial, result.fits, result.start_s, result.plan.ray_workers)


def _values(plan: Plan) -> list[tuple[str, Given[Any]]]:
    """Everything that was said, in our words."""
    found = [(f"model_{f.name}", getattr(plan.model, f.name)) for f in dataclasses.fields(plan.model)]
    found += [(f.name, getattr(plan, f.name)) for f in dataclasses.fields(plan)]
    found += [(f"${name}", given) for name, given in plan.environ.items()]
    return [(name, given) for name, given in found if isinstance(given, Given)]


def _table(caption: str, values: list[tuple[str, Given[Any]]]) -> Table:
    columns = [
        Column(pgettext("of a setting", "what"), wrap=True),
        Column(text("value"), wrap=True),
        Column(text("key"), wrap=True),
        Column(text("from"), wrap=True),
    ]
    rows: list[list[Inline]] = [
        [
            Span(setting_words(name), "strong"),
            _value(given.value),
            Span(given.key, "code"),
            f"{given.file}:{given.line}" if given.line is not None else given.file,
        ]
        for name, given in values
    ]
    return Table(caption, columns, rows, 40, pgettext("more", "values"))


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return text("yes") if value else text("no")
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)


def _memory(found: MemoryEstimate, machine: Machine) -> Iterator[Block]:
    activations = found.activations_bytes if isinstance(found.activations_bytes, int) else 0
    sizes = [
        (text("weights"), found.weights_bytes),
        (text("gradients"), found.gradients_bytes),
        (text("optimizer"), found.optimizer_bytes),
        (text("activations"), activations),
    ]
    total = sum(each for _, each in sizes)
    device = _device(machine)
    whole = max(total, device or 0, 1)
    parts = [Part(name, each / whole, size(each)) for name, each in sizes if each]
    of = text(" of {size}", size=size(device)) if device else ""
    label = text("memory of one GPU in training, an estimate: {size}{of}", size=size(total), of=of)
    yield Bar(label, parts)
    if isinstance(found.activations_bytes, NotAvailable):
        yield Line([text("activations are not in it: "), found.activations_bytes.reason])
    if found.host_bytes:
        yield Line(text("offloaded to this machine: {size}", size=size(found.host_bytes)))
    parameters = text("parameters") + text(": ") + _billions(found.parameters)
    yield Fold(text("what the estimate assumes"), [Items([parameters, *found.assumptions])])


def _billions(parameters: int) -> str:
    """As people say it: ``7.62 B``, ``124 M``."""
    return f"{parameters / 1e9:.3g} B" if parameters >= 1e9 else f"{parameters / 1e6:.3g} M"


def _device(machine: Machine) -> int | None:
    if isinstance(machine.gpus, NotAvailable):
        return None
    return min((gpu.memory_bytes for gpu in machine.gpus if isinstance(gpu.memory_bytes, int)), default=None)


def _machine(plan: Plan, result: ConfigPreflight) -> Iterator[Pair]:
    machine = plan.machine
    if machine.ray_nodes:
        yield from _of_cluster(machine, result)
        return
    cpus = text(" · {n} CPU", n=machine.cpus) if machine.cpus else ""
    words: list[str | Span] = [Span(machine.name, "strong"), cpus]
    if machine.memory_bytes:
        words.append(
            text(
                " · memory {size} of {size2} free",
                size=size(machine.memory_free_bytes),
                size2=size(machine.memory_bytes),
            )
        )
    yield Pair(text("machine"), [words])
    yield Pair("GPU", [_gpus(machine)])
    yield Pair("/dev/shm", [measured(machine.shm_free_bytes, lambda b: size(b) + text(" free"))])
    disks: list[Inline] = [f"{place}: {size(free)}" for place, free in machine.disk_free_bytes.items()]
    if disks:
        yield Pair(text("disk, free"), disks)
    ports: list[Inline] = [f"{port.port} {port_state(port.state)}" for port in machine.ports]
    if ports:
        yield Pair(text("port"), ports)
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    yield Pair(text("versions"), [versions] if versions else [DASH])


def _of_cluster(machine: Machine, result: ConfigPreflight) -> Iterator[Pair]:
    yield Pair(pgettext("of a machine", "where"), [Span(machine.name, "strong")])
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    yield Pair(text("versions"), [versions or DASH])


def _gpus(machine: Machine) -> Inline:
    if isinstance(machine.gpus, NotAvailable):
        return measured(machine.gpus, str)
    if not machine.gpus:
        return text("none")
    first = machine.gpus[0]
    return [f"{len(machine.gpus)} x {first.name}, ", measured(first.memory_bytes, size)]
