"""The words of the frameworks in one vocabulary, each value with where it came from."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from cases import each

from jupyter_traindbg.errors import UsageError
from jupyter_traindbg.model import Given, Machine, ModelShape, Plan
from jupyter_traindbg.preflight.config import dialects, planning, sources

MACHINE = Machine("node0")
FIELDS = {f.name for f in dataclasses.fields(Plan)} | {f"model.{f.name}" for f in dataclasses.fields(ModelShape)}


def planned(*words: str, **more: Any) -> Plan:
    return planning.plan_of(sources.read(words, {}), MACHINE, **more)


def values(plan: Plan) -> dict[str, object]:
    return {f.name: v.value for f in dataclasses.fields(plan) if isinstance(v := getattr(plan, f.name), Given)}


@each("dialect", dialects.every(), ids=lambda d: d.name)
def test_every_key_of_every_dialect_leads_to_a_field(dialect: dialects.Dialect) -> None:
    assert set(dialect.keys.values()) | set(dialect.defaults) <= FIELDS
    assert all(key == key.lower() and "-" not in key for key in dialect.keys), "paths are compared in this spelling"
    assert dialect.source.startswith("https://") or dialect.anywhere


def test_verl(tmp_path: Path) -> None:
    path = tmp_path / "ppo.yaml"
    path.write_text(
        "data:\n  train_batch_size: 96\n  max_response_length: 512\n"
        "actor_rollout_ref:\n  actor:\n    ppo_mini_batch_size: 32\n"
        "  rollout:\n    n: 4\n    agent: {num_workers: 8}\n    max_model_len: ${data.max_response_length}\n"
        "trainer: {nnodes: 2, n_gpus_per_node: 8}\nuser_key: [1, 2]\n"
    )
    plan = planned(str(path), "trainer.n_gpus_per_node=4", "+extra.key=x")
    assert plan.dialects == ("verl",)
    assert values(plan).items() >= {
        "prompts_per_rollout": 96, "mini_batch_prompts": 32, "samples_per_prompt": 4, "engine_length": 512, "nodes": 2,
        "processes_per_node": 4, "colocated": True,
    }.items()  # fmt: skip
    assert plan.workers is None, "the agents' workers are not the loader's"
    assert plan.prompts_per_rollout == Given(96, "data.train_batch_size", "ppo.yaml", 2)
    assert plan.prompts_per_rollout.where == "ppo.yaml:2 data.train_batch_size"
    assert plan.processes_per_node == Given(4, "trainer.n_gpus_per_node", "command line")


def test_what_only_a_shell_could_tell_is_neither_a_value_nor_the_default() -> None:
    plan = planned(
        "python", "-m", "verl.trainer.main_ppo", "actor_rollout_ref.rollout.n=${SAMPLES}", "data.train_batch_size=8"
    )
    assert plan.samples_per_prompt is None
    assert planned("python", "-m", "verl.trainer.main_ppo").samples_per_prompt is not None


def test_deepspeed_named_by_a_trainer(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(
        '{"train_batch_size": "auto", "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}'
    )
    (tmp_path / "sft.yaml").write_text(
        "model_name_or_path: nobody/base-7B\nper_device_train_batch_size: 2\ndeepspeed: ds.json\nbf16: true\n"
    )
    plan = planned(str(tmp_path / "sft.yaml"))
    assert set(plan.dialects) == {"deepspeed", "transformers"}
    assert (
        values(plan).items()
        >= {"zero_stage": 2, "offload_optimizer": True, "micro_batch_size": 2, "bf16": True}.items()
    )
    assert plan.train_batch_size is None, "auto says nothing"
    assert plan.model.parameters == Given(7_000_000_000, "parameters", "the name base-7B")


def test_accelerate_and_what_its_command_says_after_it(tmp_path: Path) -> None:
    path = tmp_path / "acc.yaml"
    path.write_text(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 2\nnum_processes: 16\n"
        "fsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n  fsdp_offload_params: false\n"
    )
    plan = planned(
        "accelerate", "launch", "--config_file", str(path), "--num_processes", "8", "t.py", "--num_workers", "4"
    )
    assert values(plan).items() >= {
        "processes": 8, "nodes": 2, "dtype": "bf16", "sharding": "FULL_SHARD", "offload_parameters": False, "workers": 4,
    }.items()  # fmt: skip


@each(
    ("words", "dialect", "expected"),
    [
        ("--rollout_batch_size 64 --engine_mem_util 0.6 --fsdp", "lightrft", {"engine_memory_share": 0.6, "sharding": "True"}),
        ("--rollout_batch_size 64 --vllm_num_engines 4", "openrlhf", {"prompts_per_rollout": 64, "engines": 4}),
        ("--rollout.batch_size 64 --vllm.num_engines 4 --train.batch_size 32", "openrlhf", {"train_batch_size": 32}),
        ("--tensor-model-parallel-size 4 --use-distributed-optimizer", "megatron", {"tensor_parallel": 4, "sharding": "True"}),
        ("--per_device_train_batch_size 4 --fsdp 'full_shard offload'", "transformers", {"offload_optimizer": True}),
        ("--gpu-memory-utilization 0.9 --max-model-len 8192", "vllm", {"engine_memory_share": 0.9, "engine_length": 8192}),
        ("--training-batch-size 4 --optimization-num-workers 3", None, {"micro_batch_size": 4, "workers": 3}),
        ("--dp_size 2 --unheard_of 5 --num_workers many", None, {"data_parallel": 2}),
    ],
)  # fmt: skip
def test_flags(words: str, dialect: str | None, expected: dict[str, object]) -> None:
    import shlex

    plan = planned("python", "t.py", *shlex.split(words))
    assert set(plan.dialects) == ({dialect} if dialect else set())
    assert values(plan).items() >= expected.items()


def test_a_key_of_no_use_is_a_note_and_an_unknown_one_is_nothing() -> None:
    read = sources.read(["python", "t.py", "--num_workers", "many", "--unheard_of", "5"], {})
    planning.plan_of(read, MACHINE)
    assert read.notes == ["--num_workers: 'many' is no whole number; passed over"]


def test_secrets_and_what_does_not_matter_stay_where_they_are() -> None:
    plan = planned(
        "NCCL_DEBUG=INFO", "HF_TOKEN=hf_x1", "MY_PASSWORD=p", "WORLD_SIZE=$N", "python", "t.py", "--wandb_key", "k2"
    )
    assert {name: given.value for name, given in plan.environ.items()} == {"NCCL_DEBUG": "INFO", "HF_TOKEN": "(hidden)"}
    assert not {"hf_x1", "p", "k2"} & set(repr(plan).replace("'", " ").split())


def test_credentials_in_a_url_are_not_read() -> None:
    plan = planned(
        "python", "t.py", "--output_dir", "s3://me:secretword@bucket/x", "--model_name_or_path", "https://tok@h/m"
    )
    assert (plan.save_directory.value, plan.model_path.value) == ("s3://(hidden)@bucket/x", "https://(hidden)@h/m")  # type: ignore[union-attr]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no file none\.yaml"):
        sources.read(["none.yaml"], {})
    (tmp_path / "a.yaml").write_text("deepspeed: gone.json\n")
    assert "gone.json is named and is not here" in sources.read([str(tmp_path / "a.yaml")], {}).notes[0]


def test_what_accelerate_takes_where_no_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "accelerate").mkdir()
    (tmp_path / "accelerate" / "default_config.yaml").write_text(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: FULL_SHARD}\nnum_processes: 8\n"
    )
    environ = {"HF_HOME": str(tmp_path)}

    def plan(*words: str) -> Plan:
        return planning.plan_of(sources.read(["accelerate", "launch", *words], environ), Machine("m"))

    alone = plan("--num_processes", "4", "train.py")
    assert alone.sharding is not None
    assert alone.processes is not None
    assert (alone.sharding.value, alone.processes.value) == ("FULL_SHARD", 4)
    (tmp_path / "other.yaml").write_text("compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\n")
    assert plan("--config_file", str(tmp_path / "other.yaml"), "train.py").sharding is None


def test_files_that_name_each_other_end(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("config: b.yaml\nnum_workers: 1\n")
    (tmp_path / "b.yaml").write_text("config: a.yaml\nnum_workers: 2\n")
    read = sources.read([str(tmp_path / "a.yaml")], {})
    assert len(read.files) == 2
    assert read.value("num_workers") == 1, "who names a file comes after it"
