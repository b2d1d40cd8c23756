"""`ConfigPreflight`: whether anything speaks against a start; the configuration in one vocabulary, the memory it takes, the machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from ...language import text
from ...model import ConfigPreflight, Given, Machine, MemoryEstimate, NotAvailable, Plan
from ...words.durations import duration
from ..blocks import Answer, Bar, Block, Column, Fold, Inline, Items, Line, Pair, Pairs, Part, Span, Table
from ..common import DASH, measured
from ..units import plural, size
from . import ray_preflight
from .preflight import verdict

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
    named = ", ".join(path.rsplit("/", 1)[-1] for path in plan.files) or text("a command line", "命令行")
    if not plan.files and not _values(plan):
        named = text("this machine", "本机")
    words, tone = verdict(result.findings)
    frameworks = ", ".join(plan.dialects) or text("no framework", "无框架")
    yield Answer(words, [named, frameworks, duration(result.taken_s)], tone)
    values = _values(plan)
    first = [(name, given) for name, given in values if name in FIRST]
    if first:
        yield _table(text("What was read", "读到的配置"), first)
    if isinstance(result.memory, MemoryEstimate):
        yield from _memory(result.memory, plan.machine)
    yield from _ray(result)
    yield Pairs(list(_machine(plan, result)))
    rest = [(name, given) for name, given in values if name not in FIRST]
    if rest:
        yield Fold(
            text(plural(len(rest), "more value"), f"另有 {len(rest)} 个值"),
            [_table(text("Other values", "其他值"), rest)],
        )
    if result.notes:
        yield Items(list(result.notes), Span(text("Note", "注意"), "strong"))


def _ray(result: ConfigPreflight) -> Iterator[Block]:
    """The nodes of the cluster, and the worker that was tried on it."""
    if result.plan.machine.ray_nodes:
        yield ray_preflight.nodes(result.plan.machine.ray_nodes)
    if result.plan.ray_trial is not None:
        yield from ray_preflight.trial(result.plan.ray_trial, result.fits, result.start_s, result.plan.ray_workers)


def _values(plan: Plan) -> list[tuple[str, Given[Any]]]:
    """Everything that was said, in our words."""
    found = [(f"model {f.name}", getattr(plan.model, f.name)) for f in dataclasses.fields(plan.model)]
    found += [(f.name, getattr(plan, f.name)) for f in dataclasses.fields(plan)]
    found += [(f"${name}", given) for name, given in plan.environ.items()]
    return [(name, given) for name, given in found if isinstance(given, Given)]


def _table(caption: str, values: list[tuple[str, Given[Any]]]) -> Table:
    columns = [
        Column(text("what", "含义"), wrap=True),
        Column(text("value", "值"), wrap=True),
        Column(text("key", "键"), wrap=True),
        Column(text("from", "来自"), wrap=True),
    ]
    rows: list[list[Inline]] = [
        [
            Span(name.replace("_", " "), "strong"),
            _value(given.value),
            Span(given.key, "code"),
            f"{given.file}:{given.line}" if given.line is not None else given.file,
        ]
        for name, given in values
    ]
    return Table(caption, columns, rows, 40, text("values", "个值"))


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return text("yes", "是") if value else text("no", "否")
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)


def _memory(found: MemoryEstimate, machine: Machine) -> Iterator[Block]:
    activations = found.activations_bytes if isinstance(found.activations_bytes, int) else 0
    sizes = [
        (text("weights", "权重"), found.weights_bytes),
        (text("gradients", "梯度"), found.gradients_bytes),
        (text("optimizer", "优化器"), found.optimizer_bytes),
        (text("activations", "激活"), activations),
    ]
    total = sum(each for _, each in sizes)
    device = _device(machine)
    whole = max(total, device or 0, 1)
    parts = [Part(name, each / whole, size(each)) for name, each in sizes if each]
    of = text(f" of {size(device)}", f"，共 {size(device)}") if device else ""
    label = text(
        f"memory of one GPU in training, an estimate: {size(total)}{of}", f"训练时单卡显存（估算）：{size(total)}{of}"
    )
    yield Bar(label, parts)
    if isinstance(found.activations_bytes, NotAvailable):
        yield Line([text("activations are not in it: ", "不含激活："), found.activations_bytes.reason])
    if found.host_bytes:
        yield Line(
            text(f"offloaded to this machine: {size(found.host_bytes)}", f"卸载到主机：{size(found.host_bytes)}")
        )
    parameters = text("parameters", "参数") + f": {_billions(found.parameters)}"
    yield Fold(text("what the estimate assumes", "估算所作的假设"), [Items([parameters, *found.assumptions])])


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
    words: list[str | Span] = [Span(machine.name, "strong"), f" · {machine.cpus} CPU" if machine.cpus else ""]
    if machine.memory_bytes:
        words.append(
            text(
                f" · memory {size(machine.memory_free_bytes)} of {size(machine.memory_bytes)} free",
                f" · 内存空闲 {size(machine.memory_free_bytes)} / {size(machine.memory_bytes)}",
            )
        )
    yield Pair(text("machine", "机器"), [words])
    yield Pair("GPU", [_gpus(machine)])
    yield Pair("/dev/shm", [measured(machine.shm_free_bytes, lambda b: size(b) + text(" free", " 空闲"))])
    disks: list[Inline] = [f"{place}: {size(free)}" for place, free in machine.disk_free_bytes.items()]
    if disks:
        yield Pair(text("disk, free", "磁盘空闲"), disks)
    ports: list[Inline] = [f"{port.port} {port.state}" for port in machine.ports]
    if ports:
        yield Pair(text("port", "端口"), ports)
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    yield Pair(text("versions", "版本"), [versions] if versions else [DASH])


def _of_cluster(machine: Machine, result: ConfigPreflight) -> Iterator[Pair]:
    yield Pair(text("where", "地点"), [Span(machine.name, "strong")])
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    yield Pair(text("versions", "版本"), [versions or DASH])


def _gpus(machine: Machine) -> Inline:
    if isinstance(machine.gpus, NotAvailable):
        return measured(machine.gpus, str)
    if not machine.gpus:
        return text("none", "无")
    first = machine.gpus[0]
    return [f"{len(machine.gpus)} x {first.name}, ", measured(first.memory_bytes, size)]
