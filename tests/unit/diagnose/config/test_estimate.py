"""The memory of training, against figures that were worked out by hand or published."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from cases import each

from jupyter_traindbg.diagnose.config import estimate
from jupyter_traindbg.diagnose.config.estimate import kv_bytes_per_token
from jupyter_traindbg.model import Given, Machine, MemoryEstimate, ModelShape, NotAvailable, Plan

GIB = 2**30


def given(**values: Any) -> dict[str, Given[Any]]:
    return {name: Given(value, name, "run.yaml") for name, value in values.items()}


def plan(*dialects: str, model: dict[str, Any] | None = None, **values: Any) -> Plan:
    return Plan(
        Machine("m"), dialects, model=ModelShape(**given(**(model or {"parameters": 7_500_000_000}))), **given(**values)
    )


def states(of: Plan) -> tuple[float, float, float]:
    found = estimate(of)
    assert isinstance(found, MemoryEstimate)
    return found.weights_bytes / 1e9, found.gradients_bytes / 1e9, found.optimizer_bytes / 1e9


@pytest.mark.parametrize(("zero", "due_gb"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_the_table_of_the_zero_paper(zero: int, due_gb: float) -> None:
    """7.5 B parameters on 64 GPUs: figure 1 of Rajbhandari et al. 2020."""
    assert sum(states(plan("deepspeed", zero_stage=zero, processes=64, bf16=True))) == pytest.approx(due_gb, rel=0.02)


def test_what_the_model_is_loaded_in_decides_outside_of_zero_and_fsdp() -> None:
    """autocast leaves the weights as they are: states of a model in bf16 are in bf16. FSDP and LLaMA-Factory make fp32 of them."""
    alone = {"processes": 1, "bf16": True}
    assert states(plan("transformers", **alone, loaded_in="bfloat16")) == (15, 15, 30)
    assert states(plan("transformers", **alone, loaded_in="float32")) == (30, 30, 60)
    assert states(plan("transformers", **alone, sharding="full_shard", loaded_in="bfloat16")) == (30, 30, 60)
    factory = dataclasses.replace(
        plan("transformers", **alone, loaded_in="bfloat16"), tuning=Given("full", "finetuning_type", "a")
    )
    assert states(factory) == (30, 30, 60)
    axolotl = dataclasses.replace(plan("transformers", **alone), model_path=Given("x", "base_model", "a"))
    assert states(axolotl) == (15, 15, 30)
    unsaid = estimate(plan("transformers", **alone))
    assert isinstance(unsaid, MemoryEstimate)
    assert (unsaid.states_bytes, unsaid.least_states_bytes) == (120e9, 60e9)


def test_llama_3_8b_by_published_figures() -> None:
    """8.03 B parameters; 16 bytes each in mixed precision; LoRA of rank 8 on all linear layers trains 20,971,520 of them."""
    shape = {
        "hidden_size": 4096, "layers": 32, "heads": 32, "kv_heads": 8, "intermediate_size": 14336, "vocabulary": 128256, "gated_mlp": True,
    }  # fmt: skip
    full = estimate(plan("accelerate", model=shape, processes=1, bf16=True, loaded_in="float32"))
    assert isinstance(full, MemoryEstimate)
    assert full.parameters == pytest.approx(8.030e9, rel=1e-3)
    assert full.states_bytes == pytest.approx(16 * 8.030e9, rel=1e-3)
    assert states(plan("accelerate", model=shape, processes=1, bf16=True, lora_rank=8))[1] == 4 * 20_971_520 / 1e9
    by_name = states(plan("accelerate", model={"parameters": 8_000_000_000}, processes=1, bf16=True, lora_rank=8))
    assert by_name[1] == pytest.approx(4 * 20_971_520 / 1e9, rel=0.2)


def test_an_engine_alone_trains_nothing_and_a_disk_is_no_memory() -> None:
    assert isinstance(estimate(plan("vllm")), NotAvailable)
    found = estimate(
        plan("deepspeed", zero_stage=3, processes=8, bf16=True, offload_optimizer=True, offload_to_disk=True)
    )
    assert isinstance(found, MemoryEstimate)
    assert found.host_bytes == 0


def test_autocast_and_fsdp_take_sixteen_bytes_as_well() -> None:
    assert states(plan("accelerate", processes=1, bf16=True)) == (30, 30, 60)
    assert states(plan("accelerate", processes=1)) == (30, 30, 60)
    assert states(plan("accelerate", processes=8, dtype="bf16", sharding="FULL_SHARD")) == (3.75, 3.75, 7.5)
    assert states(plan("accelerate", processes=8, dtype="bf16", sharding="SHARD_GRAD_OP")) == (30, 3.75, 7.5)


def test_hybrid_sharding_divides_within_a_machine() -> None:
    assert states(plan("accelerate", processes=16, nodes=2, sharding="HYBRID_SHARD"))[0] == 3.75


def test_model_parallel_megatron_and_its_distributed_optimizer() -> None:
    whole = {"tensor_parallel": 2, "pipeline_parallel": 2, "processes": 16, "bf16": True}
    assert states(plan("megatron", **whole)) == (3.75, 7.5, 22.5)
    assert states(plan("megatron", **whole, sharding="true")) == (3.75, 7.5, 22.5 / 4)


@each(
    ("optimizer", "due"), [("adamw_torch", 60), ("paged_adamw_8bit", 15), ("adafactor", 0), ("sgd", 30), ("Lion", 30)]
)
def test_optimizers(optimizer: str, due: float) -> None:
    assert states(plan("accelerate", processes=1, optimizer=optimizer))[2] == due


def test_what_is_offloaded_is_in_the_machine() -> None:
    found = estimate(plan("deepspeed", zero_stage=3, processes=8, bf16=True, offload_optimizer=True))
    assert isinstance(found, MemoryEstimate)
    assert (found.gradients_bytes, found.optimizer_bytes) == (0, 0)
    assert found.weights_bytes == pytest.approx(2 * 7.5e9 / 8)
    assert found.host_bytes == pytest.approx(14 * 7.5e9, rel=1e-6), "of all processes here together"


def test_offload_of_verl_is_between_the_phases() -> None:
    kept = plan("verl", processes=8, sharding="fsdp", offload_optimizer=True, offload_parameters=True)
    assert states(kept) == (3.75, 3.75, 7.5)


def test_lora_trains_little() -> None:
    shape = {
        "hidden_size": 4096,
        "layers": 32,
        "heads": 32,
        "kv_heads": 32,
        "intermediate_size": 11008,
        "vocabulary": 32000,
        "gated_mlp": True,
    }
    weights, gradients, optimizer = states(plan("accelerate", model=shape, processes=1, bf16=True, lora_rank=16))
    # 32 layers x 16 x (4 x 2 x 4096 + 3 x (4096 + 11008)) = 40.0 M
    assert gradients == pytest.approx(0.160, rel=0.01)
    assert optimizer == pytest.approx(0.320, rel=0.01)
    assert weights == pytest.approx(2 * 6.738 + 0.160, rel=0.01)


GPT3 = {"hidden_size": 12288, "layers": 96, "heads": 96, "vocabulary": 51200, "gated_mlp": False}


def activations(**values: Any) -> float:
    found = estimate(
        plan("megatron", model=GPT3, processes=64, bf16=True, micro_batch_size=1, sequence_length=2048, **values)
    )
    assert isinstance(found, MemoryEstimate)
    assert isinstance(found.activations_bytes, int)
    return found.activations_bytes


def test_the_formula_of_korthikanti_and_others() -> None:
    unit = 2048 * 12288
    logits = 4 * unit * (1 + 51200 / 12288)
    assert activations() == pytest.approx(34 * unit * 96 + logits, rel=1e-6)
    with_scores = 34 + 5 * 96 * 2048 / 12288  # 80 of the 114: the attention scores are the larger part
    assert activations(attention="eager") == pytest.approx(with_scores * unit * 96 + logits, rel=1e-6)
    assert activations(tensor_parallel=8) == pytest.approx((10 + 24 / 8) * unit * 96 + logits / 8, rel=1e-6)
    assert activations(tensor_parallel=8, sequence_parallel=True) == pytest.approx(
        34 / 8 * unit * 96 + logits / 8, rel=1e-6
    )
    assert activations(recompute=True) == pytest.approx(2 * unit * 96 + 34 * unit + logits, rel=1e-6)


def test_what_is_missing_is_said() -> None:
    nothing = estimate(Plan(Machine("m")))
    assert isinstance(nothing, NotAvailable)
    assert "--parameters 7B" in nothing.reason
    only_size = estimate(plan("deepspeed", processes=1))
    assert isinstance(only_size, MemoryEstimate)
    assert (
        str(only_size.activations_bytes)
        == "not available (not said: hidden_size, num_layers, sequence length, micro batch size)"
    )


def test_how_a_trainer_is_launched_is_not_in_its_yaml() -> None:
    """Where nothing says how the states are divided, the best case is judged."""
    machine = Machine("m", gpus=())
    alone = plan("transformers", bf16=True)
    assert states(dataclasses.replace(alone, machine=machine)) == (30, 30, 60)


def test_the_cache_of_one_token() -> None:
    """Llama 3 8B: 2 x 32 layers x 8 heads x 128 x 2 bytes = 128 KiB."""
    llama = {"hidden_size": 4096, "layers": 32, "heads": 32, "kv_heads": 8}
    assert kv_bytes_per_token(plan("vllm", model=llama)) == 128 * 1024
    assert kv_bytes_per_token(plan("vllm", model=llama, engine_tensor_parallel=2)) == 64 * 1024
    assert kv_bytes_per_token(plan("vllm", model=llama, engine_tensor_parallel=16)) == 16 * 1024, (
        "a head is not divided"
    )
    assert kv_bytes_per_token(plan("vllm", model=llama, kv_cache_dtype="fp8")) == 64 * 1024
    assert kv_bytes_per_token(plan("vllm")) is None
