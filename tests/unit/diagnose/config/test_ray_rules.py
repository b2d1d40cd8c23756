# ruff: noqa: E501 - a table of cases, a line each
"""What is wrong with a plan on a Ray cluster: the arithmetic of places, cores, memory and GPUs, from clusters made up here."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from cases import each

from jupyter_traindbg.diagnose import config as rules
from jupyter_traindbg.diagnose.config import ray_demand, ray_start
from jupyter_traindbg.model import (
    Finding,
    Given,
    Machine,
    MachineGpu,
    ModelShape,
    NotAvailable,
    Plan,
    RayNode,
    RayWorkerTrial,
    TrialStage,
)

GIB = 2**30
H100 = MachineGpu("NVIDIA H100 80GB HBM3", 80 * GIB, 0)


def node(
    number: int,
    cpus: float = 8,
    gpus: float = 0,
    *,
    free: dict[str, float] | None = None,
    head: bool = False,
    ip: str = "",
    **more: Any,
) -> RayNode:
    total = {"CPU": cpus, "memory": 30.0 * GIB, "object_store_memory": 10.0 * GIB, **({"GPU": gpus} if gpus else {})}
    total |= more.pop("resources", {})
    values: dict[str, Any] = {"cpus": int(cpus), "memory_total_bytes": 32 * GIB, "memory_used_bytes": 4 * GIB, **more}
    available = total if free is None else {**total, **free}
    return RayNode(f"n{number}", ip or f"10.0.0.{number}", f"node{number}", head, True, "", total, available, **values)


def cluster(*nodes: RayNode) -> Machine:
    gpus = max((int(n.resources_total.get("GPU", 0)) for n in nodes), default=0)
    return Machine("the Ray cluster", 8, 32 * GIB, 28 * GIB, (H100,) * gpus, ray_nodes=nodes)


def plan(machine: Machine, *dialects: str, model: ModelShape = ModelShape(), **values: Any) -> Plan:  # noqa: B008
    given = {name: Given(value, name, "run.yaml", n) for n, (name, value) in enumerate(values.items(), 1)}
    return Plan(machine, dialects, ("run.yaml",), model, **given)


def found(of: Plan) -> list[Finding]:
    return rules.findings(of)


TWO = cluster(node(1, head=True), node(2))
GPUS = cluster(node(1, head=True), node(2, 32, 4), node(3, 32, 4))
SMALL = ModelShape(parameters=Given(54_000_000, "num_parameters", "run.yaml", 9))

HEALTHY = {
    "a worker a core": plan(TWO, ray_workers=16),
    "booked cores": plan(TWO, ray_workers=16, ray_cpus=1.0),
    "train on gpus": plan(GPUS, ray_workers=8, ray_use_gpu=True),
    "four a gpu": plan(GPUS, ray_workers=32, ray_gpus=0.25, model=SMALL),
    "packed on one": plan(TWO, ray_workers=8, ray_cpus=1.0, ray_strategy="STRICT_PACK"),
    "spread over both": plan(TWO, ray_workers=2, ray_cpus=8.0, ray_strategy="STRICT_SPREAD"),
    "verl": plan(GPUS, "verl", processes_per_node=4, nodes=2),
    "openrlhf": plan(GPUS, "openrlhf", processes_per_node=4, nodes=1, engines=2, engine_tensor_parallel=2),
}


@each("name", HEALTHY)
@each("language", ["en", "zh"])
def test_what_fits_is_no_finding(name: str, language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", language)
    assert [f.title for f in found(HEALTHY[name])] == []


CASES: list[tuple[Plan, str, str, str]] = [
    # infeasible
    (plan(TWO, ray_workers=1, ray_cpus=9.0), "ray_infeasible", "critical", r"9 CPU > 8 CPU"),
    (plan(TWO, ray_workers=1, ray_gpus=1.0), "ray_infeasible", "critical", r"1 GPU > 0 GPU"),
    (plan(TWO, ray_workers=1, ray_memory=40 * GIB), "ray_infeasible", "critical", r"40.0 GiB memory > 30.0 GiB memory"),
    (plan(cluster(node(1, 0)), ray_workers=1), "ray_infeasible", "critical", r"1 CPU > 0 CPU"),
    (plan(cluster(node(1), node(2, 0, 8)), ray_workers=1, ray_cpus=1.0, ray_gpus=1.0), "ray_infeasible", "critical", r"2 nodes?|1 node"),
    # not all find a place
    (plan(TWO, ray_workers=100, ray_cpus=1.0), "ray_waiting_for_resources", "critical", r"100 x 1 CPU = 100 CPU > 16 CPU"),
    (plan(GPUS, ray_workers=16, ray_use_gpu=True), "ray_waiting_for_resources", "critical", r"16 x 1 GPU = 16 GPU > 8 GPU"),
    (plan(GPUS, ray_workers=32, ray_gpus=0.3), "ray_waiting_for_resources", "critical", r"24 of 32 find a place"),
    (plan(TWO, ray_workers=10, ray_cpus=3.0), "ray_waiting_for_resources", "critical", r"4 of 10 find a place"),
    # placement groups
    (plan(TWO, ray_workers=12, ray_cpus=1.0, ray_strategy="STRICT_PACK"), "ray_waiting_for_resources", "critical", r"8 of 12"),
    (plan(TWO, ray_workers=3, ray_cpus=1.0, ray_strategy="STRICT_SPREAD"), "ray_waiting_for_resources", "critical", r"2 of 3"),
    (plan(GPUS, "verl", processes_per_node=8, nodes=1), "ray_waiting_for_resources", "critical", r"STRICT_PACK|4 of 8"),
    (plan(GPUS, "verl", processes_per_node=4, nodes=3), "ray_waiting_for_resources", "critical", r"3 x processes_per_node 4 \(STRICT_PACK\): 2 of 3 find a node"),
    (plan(GPUS, "openrlhf", processes_per_node=4, nodes=2, engines=2), "ray_waiting_for_resources", "critical", r"engines 2 x 1.*: 0 of 2"),
    # taken by others
    (plan(cluster(node(1, free={"CPU": 1})), ray_workers=4, ray_cpus=1.0), "ray_waiting_for_resources", "warning", r"1 of 4 find a place now"),
    # cores and memory
    (plan(TWO, ray_workers=100), "ray_too_many_for_cores", "warning", r"ray_workers 100 > 16 CPU"),
    (plan(cluster(node(1, 4, ip="10.0.0.9"), node(2, 4, ip="10.0.0.9")), ray_workers=6), "ray_too_many_for_cores", "warning", r"6 > 4 CPU \(1 machine\)"),
    (plan(cluster(node(1, 1000)), ray_workers=900), "ray_too_many_for_memory", "warning", r"900 x 150 MiB = 131.8 GiB > "),
    # GPUs in parts
    (plan(GPUS, ray_workers=2, ray_gpus=1.5), "cli_argument_error", "critical", r"above 1 only whole GPUs"),
    (plan(GPUS, ray_workers=2, ray_gpus=0.33333), "cli_argument_error", "critical", r"finer than 0.0001"),
    (plan(GPUS, ray_workers=2, ray_gpus=1.0, ray_use_gpu=False), "cli_argument_error", "critical", r"use_gpu is off"),
    (plan(GPUS, ray_workers=8, ray_gpus=0.6), "ray_gpu_fraction", "info", r"1 // ray_gpus 0.6 = 1"),
    (plan(GPUS, ray_workers=8, ray_gpus=0.1, model=ModelShape(parameters=Given(7_000_000_000, "p", "run.yaml"))), "cuda_oom", "warning", r"8 x 26.6 GiB = 212.5 GiB > 80.0 GiB"),
    (plan(GPUS, ray_workers=8, ray_device="cuda"), "ray_same_gpu", "warning", r"All 8 workers will load onto GPU 0"),
    # the object store
    (plan(TWO, ray_workers=16, model=ModelShape(parameters=Given(500_000_000, "p", "run.yaml"))), "ray_object_store_full", "warning", r"16 x 1.9 GiB = 29.8 GiB > 10.0 GiB"),
    (plan(TWO, ray_workers=2, model=ModelShape(parameters=Given(7_000_000_000, "p", "run.yaml"))), "ray_object_store_full", "warning", r"One set of weights .*26.1 GiB > 10.0 GiB"),
]  # fmt: skip


@each("case", CASES, ids=lambda case: f"{case[1]}-{case[3][:20]}")
@each("language", ["en", "zh"])
def test_what_does_not_fit_is_told_with_its_sum(
    case: tuple[Plan, str, str, str], language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, code, severity, words = case
    monkeypatch.setenv("TRAINDBG_LANG", language)
    told = [f for f in found(of) if f.code == code]
    assert told, [f.title for f in found(of)]
    first = told[0]
    assert first.severity == severity
    if language == "en":
        assert re.search(words, "\n".join([first.title, *first.evidence])), [first.title, *first.evidence]
        assert not re.search(r"[一-鿿]", f"{first.title}{first.cause}{first.next_steps}")
    else:
        assert re.search(r"[一-鿿]", first.title)
        assert all(re.search(r"[一-鿿]", words) for words in [first.cause, *first.next_steps])
    assert first.next_steps
    assert first.evidence
    assert first.where is not None
    assert first.where.startswith("run.yaml:")


def test_the_part_of_a_gpu_that_is_advised_lets_so_many_share_it() -> None:
    """0.1667, a sixth rounded up, lets five."""
    (told,) = [f for f in found(plan(GPUS, ray_workers=6, ray_gpus=0.18)) if f.code == "ray_gpu_fraction"]
    part, sharing = re.search(r"([\d.]+) lets (\d+) share", told.next_steps[0]).groups()  # type: ignore[union-attr]
    assert (part, sharing) == ("0.1666", "6")
    assert ray_demand.on_node({"GPU": float(part)}, {"GPU": 1.0}) == 6


def test_a_plan_that_says_nothing_of_workers_is_not_judged() -> None:
    assert found(plan(TWO)) == []


def test_what_cannot_be_known_is_no_finding() -> None:
    bare = RayNode("n", "10.0.0.1", "n", True, True, "", {"CPU": 4.0}, NotAvailable("GCS"))
    assert found(plan(cluster(bare), ray_workers=500)) == []


def test_a_strict_pack_that_would_fit_loosely_is_told_so() -> None:
    (told,) = found(plan(TWO, ray_workers=12, ray_cpus=1.0, ray_strategy="STRICT_PACK"))
    assert any("PACK" in step and "together the nodes have room" in step for step in told.next_steps)


@each(
    ("each", "has", "fits"),
    [
        ({"GPU": 0.25}, {"GPU": 2.0}, 8),
        ({"GPU": 0.3}, {"GPU": 1.0}, 3),
        ({"GPU": 0.3}, {"GPU": 0.9}, 0),  # a part of a device that is taken in part may not be whole enough
        ({"GPU": 2.0}, {"GPU": 5.0}, 2),
        ({"CPU": 0.1}, {"CPU": 1.0}, 10),
        ({}, {"CPU": 1.0}, 10**9),
        ({}, {"CPU": 0.5}, 0),
        ({"disk": 1.0}, {"CPU": 4.0}, 0),
    ],
)
def test_how_many_a_node_holds(each: dict[str, float], has: dict[str, float], fits: int) -> None:
    assert ray_demand.on_node(each, has) == fits


# --- a worker that was tried -------------------------------------------------------------------------------------------

STAGES = (
    TrialStage("process", 1.2, 1.0, 80 * 2**20),
    TrialStage("import", 2.0, 1.8, 300 * 2**20),
    TrialStage("__init__", 0.5, 0.2, 500 * 2**20),
    TrialStage("run()", 4.0, 3.0, 900 * 2**20),
)
TRIED = RayWorkerTrial("scai.worker:Worker", "node1", 7, {"CPU": 1.0}, STAGES, 950 * 2**20, 800 * 2**20, 12)


def tried(trial: RayWorkerTrial, machine: Machine = TWO, workers: int = 100) -> Plan:
    return dataclasses.replace(plan(machine, ray_workers=workers, ray_cpus=1.0), ray_trial=trial)


def test_a_trial_says_how_many_fit_and_how_long_they_take() -> None:
    of = tried(TRIED)
    assert ray_start.fitting(of) == {
        "1 CPU": 16,
        "memory": 2 * int((0.95 * 32 - 4) * 1024 // 800),
        "cores, one each": 16,
    }
    assert ray_start.start_s(of) == pytest.approx(100 * 3.0 / 16)
    assert ray_start.start_s(tried(TRIED, workers=1)) == pytest.approx(3.7), "never faster than one"


def test_a_measured_memory_is_counted_in_place_of_the_rule_of_thumb() -> None:
    (told,) = [f for f in found(tried(TRIED, cluster(node(1, 1000)), 64)) if f.code == "ray_too_many_for_memory"]
    assert told.severity == "critical"
    assert "ray_workers 64 x 800 MiB = 50.0 GiB" in told.title
    assert "measured with one" in told.evidence


def test_a_long_start_is_no_hang() -> None:
    slow = dataclasses.replace(
        TRIED, resources={}, stages=(TrialStage("process", 5, 4, 1), TrialStage("import", 20, 20, 1), STAGES[2])
    )
    (told,) = [f for f in found(tried(slow)) if f.code == "ray_startup_slow"]
    assert told.severity == "info"
    assert "ray_workers 100 x 24.2 s CPU / 16 CPU = 151 s" in told.title


@each(
    ("stage", "raised", "code"),
    [
        ("process", False, "ray_waiting_for_resources"),
        ("import", True, "ray_died_in_init"),
        ("__init__", True, "ray_died_in_init"),
        ("__init__", False, "ray_stuck_in_init"),
        ("run()", False, "ray_worker_stuck"),
        ("run()", True, "ray_worker_died"),
    ],
)
def test_a_worker_that_does_not_come_up_alone_speaks_for_all(stage: str, raised: bool, code: str) -> None:
    names = [s.name for s in STAGES]
    done = STAGES[: names.index(stage)]
    failed = dataclasses.replace(
        TRIED, stages=done, failed_in=stage, problem="no such engine", raised=raised, where="w.py:3 __init__"
    )
    told = found(tried(failed, workers=16))[0]
    assert (told.code, told.severity, told.where) == (code, "critical", "w.py:3 __init__")
    assert f"{stage}: no such engine" in told.title
    if stage != "run()":
        assert isinstance(ray_start.start_s(tried(failed)), NotAvailable)


def test_a_worker_that_is_not_seen_to_end_is_told() -> None:
    assert "ray_trial_left" in [f.code for f in found(tried(dataclasses.replace(TRIED, cleaned=False), workers=4))]
