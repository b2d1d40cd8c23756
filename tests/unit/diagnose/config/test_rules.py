# ruff: noqa: E501 - a table of cases, a line each
"""What is wrong with a plan: every verdict from one that is well but for one thing."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from cases import each

from jupyter_traindbg.diagnose import config as rules
from jupyter_traindbg.model import (
    Given,
    Machine,
    MachineGpu,
    ModelShape,
    NotAvailable,
    Plan,
    PreflightPort,
    UnmetRequirement,
)

GIB = 2**30
H100 = MachineGpu("NVIDIA H100 80GB HBM3", 80 * GIB, 0)
MACHINE = Machine(
    "node0", 64, 1000 * GIB, 900 * GIB, (H100,) * 8, None, 100 * GIB, 90 * GIB, {"out": 2000 * GIB},
    versions={"torch": "2.8.0", "CUDA": "12.8", "driver": "570.86"},
)  # fmt: skip


def given(**values: Any) -> dict[str, Given[Any]]:
    return {name: Given(value, name, "run.yaml", n) for n, (name, value) in enumerate(values.items(), 1)}


SEVEN_B = ModelShape(
    **given(
        hidden_size=3584, layers=28, heads=28, kv_heads=4, head_dim=128, intermediate_size=18944, vocabulary=152064, tied_embeddings=False,
        gated_mlp=True,
    )
)  # fmt: skip


def plan(*dialects: str, machine: Machine = MACHINE, model: ModelShape = ModelShape(), **values: Any) -> Plan:  # noqa: B008
    environ = {name: Given(value, name, "run.sh", 1) for name, value in values.pop("environ", {}).items()}
    return Plan(machine, dialects, ("run.yaml",), model, environ, **given(**values))


def titles(of: Plan) -> list[str]:
    return [finding.title for finding in rules.findings(of)]


VERL = plan(
    "verl", model=SEVEN_B, processes_per_node=8, nodes=1, prompts_per_rollout=256, samples_per_prompt=5, mini_batch_prompts=64,
    micro_batch_size=4, prompt_length=512, response_length=1024, engine_tensor_parallel=2, engine_memory_share=0.5, engine_sleeps=True,
    colocated=True, sharding="fsdp", bf16=True, recompute=True, workers=8, save_directory="out", keep_checkpoints=3,
)  # fmt: skip
LIGHTRFT = plan(
    "lightrft", "launcher", model=SEVEN_B, processes_per_node=8, micro_batch_size=2, train_batch_size=512, prompts_per_rollout=64,
    samples_per_prompt=8, advantage_estimator="group_norm", zero_stage=3, bf16=True, recompute=True, prompt_length=1024, response_length=1024,
    engine_memory_share=0.4, engine_sleeps=True, engine_tensor_parallel=4, colocated=True,
)  # fmt: skip
OPENRLHF = plan(
    "openrlhf", model=SEVEN_B, nodes=1, processes_per_node=8, engines=4, engine_tensor_parallel=2, colocated=True, engine_sleeps=True,
    engine_memory_share=0.5, micro_batch_size=2, micro_rollout_batch_size=4, train_batch_size=128, prompts_per_rollout=128,
    samples_per_prompt=4, zero_stage=3, bf16=True, recompute=True, sequence_length=2048,
)  # fmt: skip
DEEPSPEED = plan(
    "deepspeed", model=SEVEN_B, processes_per_node=8, train_batch_size=64, micro_batch_size=2, accumulation=4, zero_stage=3, fp16=True,
    loss_scale=0.0, sequence_length=2048, recompute=True,
)  # fmt: skip
MEGATRON = plan(
    "megatron", "launcher", model=SEVEN_B, nodes=2, processes_per_node=8, tensor_parallel=4, pipeline_parallel=2, micro_batch_size=1,
    train_batch_size=64, steps=1000, bf16=True, sharding="true", sequence_length=4096, sequence_parallel=True,
)  # fmt: skip
ACCELERATE = plan("accelerate", nodes=2, processes=16, master_address="node0", master_port=29500, sharding="FULL_SHARD")
VLLM = plan("vllm", model=SEVEN_B, engine_memory_share=0.9, engine_length=32768, engine_tensor_parallel=2)
HEALTHY = {
    "verl": VERL,
    "lightrft": LIGHTRFT,
    "openrlhf": OPENRLHF,
    "deepspeed": DEEPSPEED,
    "megatron": MEGATRON,
    "accelerate": ACCELERATE,
    "vllm": VLLM,
}


@each("name", HEALTHY)
@each("language", ["en", "zh"])
def test_what_is_well_is_no_finding(name: str, language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", language)
    assert titles(HEALTHY[name]) == []


def test_an_empty_plan_and_an_unknown_machine_are_no_finding() -> None:
    assert titles(plan()) == []
    for healthy in HEALTHY.values():
        assert titles(dataclasses.replace(healthy, machine=Machine("somewhere", cpus=64))) == []


def old(**changes: Any) -> Machine:
    return dataclasses.replace(MACHINE, **changes)


CASES: list[tuple[Plan, dict[str, Any], str, str, str]] = [
    # batch sizes
    (DEEPSPEED, {"train_batch_size": 60}, "batch_size_config_error", "critical", r"train_batch_size 60 != micro_batch_size 2 x accumulation 4 x 8 processes = 64"),
    (DEEPSPEED, {"train_batch_size": 60, "accumulation": None}, "batch_size_config_error", "critical", r"60 % \(micro_batch_size 2 x 8 processes = 16\) = 12"),
    (LIGHTRFT, {"train_batch_size": 500, "samples_per_prompt": None}, "batch_size_config_error", "critical", r"500 % \(micro_batch_size 2 x 8 processes = 16\) = 4"),
    (LIGHTRFT, {"train_batch_size": 256}, "batch_size_config_error", "info", r"prompts_per_rollout 64 x samples_per_prompt 8 = 512 > train_batch_size 256"),
    (LIGHTRFT, {"train_batch_size": 1024}, "batch_size_config_error", "info", r"prompts_per_rollout 64 x samples_per_prompt 8 = 512 < train_batch_size 1024"),
    (LIGHTRFT, {"max_samples": 63}, "batch_size_config_error", "critical", r"max_samples 63 < 64; num_rollouts_per_episodes = 63 x 8 // 512 x 512 // 512 = 0"),
    (LIGHTRFT, {"samples_per_prompt": 1, "train_batch_size": 64}, "batch_size_config_error", "critical", "group_norm needs several samples"),
    (LIGHTRFT, {"prompts_per_rollout": 4, "train_batch_size": 32}, "batch_size_config_error", "critical", r"prompts_per_rollout 4 // 8 GPUs = 0"),
    (OPENRLHF, {"prompts_per_rollout": 16}, "batch_size_config_error", "warning", r"16 x samples_per_prompt 4 = 64 < train_batch_size 128"),
    (OPENRLHF, {"prompts_per_rollout": 136}, "batch_size_config_error", "warning", r"= 544; 544 % train_batch_size 128 = 32"),
    (OPENRLHF, {"micro_rollout_batch_size": 128}, "batch_size_config_error", "critical", r"// micro_rollout_batch_size 128 = 4 < 8"),
    (VERL, {"prompts_per_rollout": 32, "mini_batch_prompts": 64}, "batch_size_config_error", "critical", "prompts_per_rollout 32 < mini_batch_prompts 64"),
    (VERL, {"prompts_per_rollout": 100}, "batch_size_config_error", "critical", r"100 x rollout.n 5 = 500; 500 % 8 GPUs = 4"),
    (VERL, {"micro_batch_size": 3}, "batch_size_config_error", "critical", r"64 x rollout.n 5 // 8 = 40; 40 % micro_batch_size 3 = 1"),
    (VERL, {"mini_batch_prompts": 1}, "batch_size_config_error", "critical", r"1 x rollout.n 5 // 8 = 0"),
    (VERL, {"micro_batch_everywhere": 8}, "batch_size_config_error", "critical", "micro_batch_everywhere 8, micro_batch_size 4"),
    (VERL, {"micro_batch_everywhere": 24, "micro_batch_size": None}, "batch_size_config_error", "critical", "64 % micro_batch_everywhere 24 = 16"),
    (VERL, {"micro_batch_everywhere": 4, "micro_batch_size": None}, "batch_size_config_error", "critical", "4 x 1 < 8 GPUs"),
    (MEGATRON, {"train_batch_size": 63}, "batch_size_config_error", "critical", r"63 % \(micro_batch_size 1 x 2 data-parallel processes = 2\) = 1"),
    # processes
    (VERL, {"processes_per_node": 16}, "world_size_gpu_mismatch", "critical", "processes_per_node 16 > 8 GPU"),
    (ACCELERATE, {"processes": 15}, "world_size_gpu_mismatch", "critical", r"processes 15 % nodes 2 = 1"),
    (ACCELERATE, {"processes": 8, "processes_per_node": 8}, "world_size_gpu_mismatch", "critical", r"processes 8 != 2 x processes_per_node 8 = 16"),
    (MEGATRON, {"machine": old(nodes=1)}, "world_size_gpu_mismatch", "critical", "nodes 2 > 1"),
    (OPENRLHF, {"engines": 3}, "world_size_gpu_mismatch", "critical", r"engines 3 x 2 = 6 != 8 GPUs"),
    # parallel sizes
    (MEGATRON, {"tensor_parallel": 3}, "world_size_gpu_mismatch", "critical", r"16 GPUs % \(tensor_parallel 3 x pipeline_parallel 2 = 6\) = 4"),
    (MEGATRON, {"data_parallel": 4}, "world_size_gpu_mismatch", "critical", r"x data_parallel 4 = 32 != 16 GPUs"),
    (MEGATRON, {"tensor_parallel": 8, "pipeline_parallel": 1}, "world_size_gpu_mismatch", "critical", "heads 28 % tensor_parallel 8 = 4"),
    (MEGATRON, {"tensor_parallel": 1, "pipeline_parallel": 8}, "world_size_gpu_mismatch", "critical", "layers 28 % pipeline_parallel 8 = 4"),
    (VERL, {"engine_tensor_parallel": 3}, "world_size_gpu_mismatch", "critical", "8 GPUs % engine_tensor_parallel 3 = 2"),
    (VERL, {"context_parallel": 8}, "world_size_gpu_mismatch", "critical", "heads 28 % context_parallel 8 = 4"),
    (VLLM, {"engine_tensor_parallel": 8}, "world_size_gpu_mismatch", "critical", "heads 28 % engine_tensor_parallel 8 = 4"),
    # memory
    (DEEPSPEED, {"zero_stage": 0}, "cuda_oom", "critical", r"states alone do not fit: 11\d\.\d GiB > 80.0 GiB"),
    (DEEPSPEED, {"recompute": None, "micro_batch_size": 32, "train_batch_size": 1024}, "cuda_oom", "warning", "activations will not fit beside the states"),
    (LIGHTRFT, {"engine_sleeps": None, "engine_memory_share": 0.95}, "cuda_oom", "warning", "Training and the engine will not fit side by side"),
    (DEEPSPEED, {"offload_optimizer": True, "machine": old(memory_bytes=64 * GIB)}, "host_oom_killed", "critical", r"does not fit into this machine: \d+\.\d GiB > 64.0 GiB"),
    (VLLM, {"engine_memory_share": 0.05}, "kv_cache_oom", "critical", r"weights do not fit into its share: 7\.1 GiB > 4.0 GiB"),
    (VLLM, {"engine_memory_share": 0.1, "engine_length": 40000}, "kv_cache_oom", "critical", r"cannot hold one request of the greatest length: 1\.1 GiB > 9\d\d MiB"),
    (VLLM, {"engine_memory_share": 1.5}, "vllm_init_fail", "critical", "is no share: engine_memory_share 1.5"),
    (VERL, {"engine_memory_share": 0.98}, "vllm_init_fail", "warning", r"engine_memory_share 0.98 x 80.0 GiB = "),
    (ACCELERATE, {"machine": old(gpus=(H100, dataclasses.replace(H100, memory_used_bytes=60 * GIB)) * 4)}, "cuda_oom", "warning", r"4 of 8 GPUs are in use already: GPU 1: 60\.0 GiB of 80\.0 GiB"),
    # data and disk
    (DEEPSPEED, {"workers": 16}, "dataloader_oversubscribed", "warning", "workers 16 x 8 = 128 > 64 CPU"),
    (DEEPSPEED, {"workers": 8, "machine": old(memory_free_bytes=20 * GIB)}, "host_oom_killed", "warning", r"workers 8 x 8 x 400 MiB = 25.0 GiB > 20.0 GiB"),
    (DEEPSPEED, {"workers": 4, "machine": old(shm_bytes=64 * 2**20, shm_free_bytes=64 * 2**20)}, "shm_full", "warning", r"/dev/shm 64 MiB"),
    (DEEPSPEED, {"workers": 4, "machine": old(shm_bytes=GIB, shm_free_bytes=2**20)}, "shm_full", "critical", r"free 1 MiB < 6 MiB"),
    (VERL, {"machine": old(disk_free_bytes={"out": 300 * GIB})}, "checkpoint_disk_full", "warning", r"keep_checkpoints 3 \+ 1 x 85\.\d GiB = 34\d\.\d GiB > 300.0 GiB"),
    (VERL, {"machine": old(disk_free_bytes={"out": 50 * GIB})}, "checkpoint_disk_full", "critical", r"> 50.0 GiB"),
    # where they meet
    (ACCELERATE, {"machine": old(ports=(PreflightPort("127.0.0.1", 29500, "taken", "", 7, "python old.py"),))}, "init_incomplete", "critical", "Port 29500 of this machine is taken"),
    (ACCELERATE, {"master_port": 295000}, "init_incomplete", "critical", "295000 is no port"),
    (ACCELERATE, {"master_address": "localhost"}, "init_incomplete", "critical", "localhost is each machine itself, and there are 2"),
    # software
    (DEEPSPEED, {"machine": old(unmet=(UnmetRequirement("vllm", "0.9.0", "torch==2.7.0", "torch 2.8.0"),))}, "import_error", "warning", r"vllm 0.9.0 asks for torch==2.7.0"),
    (DEEPSPEED, {"machine": old(versions={"CUDA": "13.0", "driver": "550.54"})}, "cuda_version_mismatch", "critical", "driver 550.54 is too old for CUDA 13.0"),
    (DEEPSPEED, {"environ": {"NCCL_TIMEOUT": "1800"}}, "environment", "info", "NCCL_TIMEOUT does nothing here"),
    (DEEPSPEED, {"loss_scale": 1.0}, "grad_scaler_underflow", "warning", "fp16 without loss scaling: loss_scale 1"),
    (DEEPSPEED, {"bf16": True}, "cli_argument_error", "critical", "bf16 and fp16 are both on"),
    (VERL, {"machine": old(gpus=(MachineGpu("Tesla V100-SXM2-32GB", 80 * GIB),) * 8)}, "cuda_version_mismatch", "critical", "Tesla V100-SXM2-32GB has no bf16"),
]  # fmt: skip


def changed(healthy: Plan, changes: dict[str, Any]) -> Plan:
    changes = dict(changes)
    whole = {name: changes.pop(name) for name in ("machine", "environ") if name in changes}
    if "environ" in whole:
        whole["environ"] = {name: Given(value, name, "run.sh", 3) for name, value in whole["environ"].items()}
    set_ = {name: None if value is None else Given(value, name, "run.yaml", 99) for name, value in changes.items()}
    return dataclasses.replace(healthy, **whole, **set_)


@each(("healthy", "changes", "code", "severity", "said"), CASES, ids=[f"{c[2]}-{i}" for i, c in enumerate(CASES)])
def test_a_verdict(healthy: Plan, changes: dict[str, Any], code: str, severity: str, said: str) -> None:
    found = rules.findings(changed(healthy, changes))
    (one,) = [f for f in found if f.code == code and re.search(said, f.title)]
    assert one.severity == severity
    assert [f.title for f in found if f.severity == "critical" and f is not one and f.code != code] == []
    assert one.cause
    assert one.next_steps
    assert one.evidence
    assert one.reference is None or one.reference.startswith("https://")
    keys = {name for name in changes if name not in ("machine", "environ") and changes[name] is not None}
    if keys and code not in ("environment", "cuda_oom"):
        assert keys & set(one.who), "it names the key that was changed"


@each(("healthy", "changes", "code"), [c[:3] for c in CASES], ids=[f"{c[2]}-{i}" for i, c in enumerate(CASES)])
def test_it_is_said_in_chinese_too(
    healthy: Plan, changes: dict[str, Any], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    chinese = re.compile("[\u4e00-\u9fff]")
    for found in rules.findings(changed(healthy, changes)):
        if found.code != code:
            continue
        assert chinese.search(found.title + found.cause)
        assert chinese.search(found.cause)
        assert all(chinese.search(step) or step.startswith("pip ") for step in found.next_steps)


def test_what_is_told_to_do_mends_it() -> None:
    mended = [
        (DEEPSPEED, {"train_batch_size": 60}, "Set train_batch_size to 64.", {"train_batch_size": 64}),
        (VERL, {"micro_batch_size": 3}, "Or micro_batch_size to 2, a divisor of 40.", {"micro_batch_size": 2}),
        (
            VERL,
            {"mini_batch_prompts": 50, "micro_batch_size": 3},
            "Set mini_batch_prompts to 48: 48 x 5 / 8 = 30, a multiple of 3.",
            {"mini_batch_prompts": 48},
        ),
        (VERL, {"prompts_per_rollout": 100}, "Set prompts_per_rollout to 104.", {"prompts_per_rollout": 104}),
        (
            VLLM,
            {"engine_tensor_parallel": 8},
            "Set engine_tensor_parallel to one of 1, 2, 4.",
            {"engine_tensor_parallel": 4},
        ),
        (VLLM, {"engine_memory_share": 0.1, "engine_length": 40000}, None, {"engine_memory_share": 0.2}),
        (ACCELERATE, {"processes": 15}, "Set processes to 14 or 16.", {"processes": 14}),
    ]
    for healthy, wrong, step, right in mended:
        broken = changed(healthy, wrong)
        found = rules.findings(broken)
        assert found
        assert step is None or step in [s for f in found for s in f.next_steps]
        assert titles(changed(broken, right)) == []


def test_states_that_fit_in_16_bits_are_a_warning() -> None:
    """A trainer with ``bf16: true`` may load its model in either; nobody is told that it cannot be where it can."""
    found = rules.findings(plan("transformers", "launcher", model=SEVEN_B, processes_per_node=1, bf16=True))
    assert [(f.severity, f.code) for f in found] == [("warning", "cuda_oom")]
    assert "if it is loaded in fp32" in found[0].title
    assert found[0].next_steps[0].startswith("Load it in 16 bits")
    surely = rules.findings(plan("transformers", "launcher", model=SEVEN_B, processes_per_node=1, loaded_in="float32"))
    assert [(f.severity, f.next_steps[0][:3]) for f in surely] == [("critical", "Use")]


def test_where_a_deepspeed_json_runs_is_assumed_to_be_here() -> None:
    sizes = {"train_batch_size": 256, "micro_batch_size": 4, "accumulation": 4}
    (here,) = rules.findings(plan("deepspeed", **sizes))
    assert (here.severity, "Or start 16 processes." in here.next_steps) == ("warning", True)
    (nowhere,) = rules.findings(plan("deepspeed", **{**sizes, "train_batch_size": 250}))
    assert nowhere.severity == "critical", "no number of processes makes 250 of 16s"
    (started,) = rules.findings(plan("deepspeed", processes_per_node=8, **sizes))
    assert started.severity == "critical"


def test_a_launcher_alone_does_not_say_that_nothing_is_divided() -> None:
    assert titles(plan("launcher", model=SEVEN_B, processes_per_node=8, bf16=True)) == []


def test_more_processes_than_the_configuration_shows_them() -> None:
    for machine in (MACHINE, Machine("here", gpus=())):
        hidden = plan("launcher", machine=machine, processes_per_node=4, environ={"CUDA_VISIBLE_DEVICES": "0,1"})
        assert [t for t in titles(hidden) if "than GPUs" in t] == [
            "More processes than GPUs that they may see: processes_per_node 4 > 2 (CUDA_VISIBLE_DEVICES=0,1)"
        ]
    assert titles(plan("launcher", processes_per_node=2, environ={"CUDA_VISIBLE_DEVICES": "0,1"})) == []


def test_the_environment_is_judged_as_it_would_be() -> None:
    """The shell's own folklore is not the configuration's business; what harms is."""
    quiet = dataclasses.replace(DEEPSPEED, machine=old(environ={"NCCL_TIMEOUT": "1800"}))
    assert titles(quiet) == []
    (found,) = rules.findings(changed(DEEPSPEED, {"environ": {"NCCL_TIMEOUT": "1800"}}))
    assert found.where == "run.sh:3 NCCL_TIMEOUT"


def test_a_machine_without_a_gpu_is_compared_with_nothing() -> None:
    for none in ((), NotAvailable("no driver")):
        assert titles(dataclasses.replace(VERL, machine=old(gpus=none))) == []
