"""How much memory training takes on one GPU, by the arithmetic of three papers. An estimate; what was assumed is said with it.

Weights, gradients and optimizer states per parameter, and how ZeRO divides them: Rajbhandari et al. 2020, "ZeRO: Memory Optimizations
Toward Training Trillion Parameter Models", section 3 (16 bytes a parameter in mixed precision with Adam).
Activations: Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", tables 2 and 3. LoRA: Hu et al. 2021.
"""

from __future__ import annotations

from ...language import text
from ...model import Given, Maybe, MemoryEstimate, ModelShape, NotAvailable, Plan
from .reading import (
    adapters_only,
    half_precision,
    is_megatron,
    model_parallel,
    on,
    per_node,
    positive,
    product,
    recomputes,
    says_how,
    shards,
    stage,
    stored_bytes,
)

__all__ = [
    "estimate",
    "has_master_copy",
    "kv_bytes_per_token",
    "mlp_matrices",
    "offloads_between_phases",
    "parameters",
    "tokens",
]

QUADRATIC = ("eager", "math", "naive")
"""Attention that keeps the matrix of scores; flash attention and SDPA, the default today, do not."""
ADAM_STATES = 8
OPTIMIZER_STATES = {"8bit": 2, "4bit": 1, "adafactor": 0, "lion": 4, "muon": 4, "sgd": 4, "adamw": 8, "adam": 8}
"""Bytes a parameter, by what is in the optimizer's name; the first that fits counts. Adafactor's rows and columns are next to nothing."""
LIKE_LLAMA = 128
"""Hidden units for each layer: 4096 / 32, 8192 / 80."""


def estimate(plan: Plan) -> Maybe[MemoryEstimate]:
    """Bytes on one GPU; `NotAvailable` where the model's size is not known."""
    if tuple(plan.dialects) == ("vllm",):
        return NotAvailable(text("an engine alone: nothing is trained"))
    total = parameters(plan.model)
    if total is None:
        reason = text("the model's size is not known here: --parameters 7B, or --model DIRECTORY with its config.json")
        return NotAvailable(reason)
    notes: list[str] = []
    experts = _expert_parameters(plan.model) if positive(plan.expert_parallel) else 0
    here = (total - experts + experts / product(plan.expert_parallel)) / model_parallel(plan)
    weights, gradients, optimizer = _states(plan, here, notes)
    open_ended = stored_bytes(plan) is None and not has_master_copy(plan) and not adapters_only(plan)
    level, among = stage(plan), shards(plan)
    if not says_how(plan) and among > 1:
        level = 3
        notes.append(text("how it is divided is not said; at best:"))
    if level:
        notes.append(text("stage {level}, divided by {among}", level=level, among=among))
    weights /= among if level >= 3 else 1
    gradients /= among if level >= 2 else 1
    optimizer /= among if level >= 1 else 1
    host = 0.0
    if not offloads_between_phases(plan):
        if on(plan.offload_optimizer) or on(plan.offload_parameters):
            host += gradients + optimizer
            gradients = optimizer = 0.0
        if on(plan.offload_parameters):
            host += weights
            weights = 0.0
    each = per_node(plan)
    activations = _activations(plan, notes)
    host *= 0 if on(plan.offload_to_disk) else each.value if each is not None else 1
    states = (int(weights), int(gradients), int(optimizer))
    least = sum(states) // 2 if open_ended else None
    return MemoryEstimate(total, *states, activations, int(host), least, tuple(notes))


def offloads_between_phases(plan: Plan) -> bool:
    """Whether "offload" means that states go to the CPU while the engine generates, and come back for training: verl, LightRFT's FSDP."""
    return "verl" in plan.dialects or ("lightrft" in plan.dialects and plan.sharding is not None)


# --- parameters ----------------------------------------------------------------------------------------------------------


def parameters(model: ModelShape) -> int | None:
    """As said, else counted from the shape: embeddings, attention, MLP or experts, norms. Right to 1 % for Llama, Qwen and GPT-2."""
    if model.parameters is not None:
        return model.parameters.value
    if model.hidden_size is None or model.layers is None or model.hidden_size.value <= 0 or model.layers.value <= 0:
        return None
    hidden, vocabulary = model.hidden_size.value, model.vocabulary.value if model.vocabulary else 0
    heads = model.heads.value if model.heads else 1
    width = model.head_dim.value if model.head_dim else hidden // max(1, heads)
    kv_heads = model.kv_heads.value if model.kv_heads else heads
    attention = 2 * hidden * width * (heads + kv_heads)
    matrices = mlp_matrices(model)
    inner = model.intermediate_size.value if model.intermediate_size else 4 * hidden
    mlp = matrices * hidden * inner
    if positive(model.experts):
        mlp = _expert_parameters(model) // model.layers.value
    tied = model.tied_embeddings.value if model.tied_embeddings else matrices == 2
    positions = model.longest.value * hidden if model.longest and matrices == 2 else 0
    return model.layers.value * (attention + mlp + 2 * hidden) + vocabulary * hidden * (1 if tied else 2) + positions


def _expert_parameters(model: ModelShape) -> int:
    """Of all experts of all layers, with what routes to them."""
    if model.experts is None or model.hidden_size is None or model.layers is None:
        return 0
    hidden = model.hidden_size.value
    size = model.expert_size or model.intermediate_size
    one = mlp_matrices(model) * hidden * (size.value if size else 4 * hidden)
    return model.layers.value * model.experts.value * (one + hidden)


def mlp_matrices(model: ModelShape) -> int:
    """3 where the MLP has a gate (SwiGLU), 2 where not; 4 x hidden is the size of those without."""
    if model.gated_mlp is not None:
        return 3 if model.gated_mlp.value else 2
    size, hidden = model.intermediate_size, model.hidden_size
    return 3 if size is not None and hidden is not None and size.value != 4 * hidden.value else 2


def _adapter(plan: Plan, total: float) -> float:
    """LoRA's parameters on all linear layers: rank x (rows + columns) of each. Where the shape is not known, of one like Llama's."""
    model, rank = plan.model, plan.lora_rank.value if plan.lora_rank else 0
    if rank <= 0:
        return total * 0.01  # the order of magnitude that the paper gives
    if model.hidden_size is None or model.layers is None:
        like: float = (total * LIKE_LLAMA / 12) ** (1 / 3)  # hidden units, of 12 L h^2 parameters with L = h / 128
        return rank * 20 * like * like / LIKE_LLAMA
    hidden = model.hidden_size.value
    inner = model.intermediate_size.value if model.intermediate_size else 4 * hidden
    heads = model.heads.value if model.heads else 1
    width = model.head_dim.value if model.head_dim else hidden // max(1, heads)
    kv_heads = model.kv_heads.value if model.kv_heads else heads
    attention = 2 * (hidden + heads * width) + 2 * (hidden + kv_heads * width)
    return model.layers.value * rank * (attention + mlp_matrices(model) * (hidden + inner)) / model_parallel(plan)


# --- states ----------------------------------------------------------------------------------------------------------------


def has_master_copy(plan: Plan) -> bool:
    """Whether the model is in 16 bits and the optimizer has its own weights in fp32: DeepSpeed, Megatron."""
    deepspeed = plan.sharding is None and ("deepspeed" in plan.dialects or plan.zero_stage is not None)
    return half_precision(plan) is not None and (deepspeed or is_megatron(plan))


def _states(plan: Plan, here: float, notes: list[str]) -> tuple[float, float, float]:
    """Bytes of weights, gradients and optimizer on one copy of the model, before ZeRO divides them."""
    states = _optimizer_states(plan)
    half = half_precision(plan)
    if adapters_only(plan):
        base = 0.55 if on(plan.load_in_4bit) else 1.05 if on(plan.load_in_8bit) else 2 if half else 4
        adapter = _adapter(plan, here)
        notes.append(text("LoRA: {adapter:.3g} M of them trained", adapter=adapter / 1000000.0))
        return here * base + adapter * 4, adapter * 4, adapter * states
    if has_master_copy(plan):
        gradient = 4 if is_megatron(plan) else 2
        notes.append(_per_parameter(2, gradient, 4 + states))
        return here * 2, here * gradient, here * (4 + states)
    stored = stored_bytes(plan) or 4
    if stored == 2 and states == ADAM_STATES:
        states //= 2
    notes.append(_per_parameter(stored, stored, states))
    if stored_bytes(plan) is None:
        notes.append(text("if it is loaded in fp32; in 16 bits, half of that"))
    elif half and stored == 4:
        notes.append(text("weights kept in fp32, computed in 16 bits"))
    return here * stored, here * stored, here * states


def _per_parameter(weight: int, gradient: int, optimizer: int) -> str:
    return text(
        "{weight} + {gradient} + {optimizer} bytes a parameter for weight, gradient, optimizer",
        weight=weight,
        gradient=gradient,
        optimizer=optimizer,
    )


def _optimizer_states(plan: Plan) -> int:
    if on(plan.low_rank_states):
        return 1
    name = plan.optimizer.value.lower() if plan.optimizer is not None else ""
    return next((size for part, size in OPTIMIZER_STATES.items() if part in name), ADAM_STATES)


# --- activations -----------------------------------------------------------------------------------------------------------


def tokens(plan: Plan) -> Given[int] | None:
    """The length of the longest sequence in training."""
    if positive(plan.sequence_length):
        return plan.sequence_length
    prompt, answer = plan.prompt_length, plan.response_length
    if prompt is None or answer is None:
        return None
    return Given(
        prompt.value + answer.value, f"{prompt.name} {prompt.value} + {answer.name} {answer.value}", answer.file
    )


def _activations(plan: Plan, notes: list[str]) -> Maybe[int]:
    """Korthikanti et al.: s b h (34 + 5 a s / h) bytes a layer in 16 bits, divided by tensor parallelism as in their table 2."""
    model, length = plan.model, tokens(plan)
    missing = [
        name
        for name, given in (
            ("hidden_size", model.hidden_size),
            ("num_layers", model.layers),
            ("sequence length", length),
            ("micro batch size", plan.micro_batch_size),
        )
        if not positive(given)
    ]
    if missing:
        return NotAvailable(text("not said: {missing}", missing=", ".join(missing)))
    assert model.hidden_size is not None
    assert model.layers is not None
    assert length is not None
    assert plan.micro_batch_size is not None
    split = product(plan.tensor_parallel)
    hidden, heads = model.hidden_size.value, model.heads.value if model.heads else 1
    sequence = length.value / product(plan.context_parallel)
    unit = sequence * plan.micro_batch_size.value * hidden
    whole = 10 / split if on(plan.sequence_parallel) else 10
    scores = 5 * heads * sequence / hidden / split if _keeps_scores(plan) else 0.0
    layer = unit * (whole + 24 / split + scores)
    if recomputes(plan):
        found = 2 * unit * model.layers.value + layer
        words = text("recomputed: 2 s b h a layer, and one layer in full")
    else:
        found = layer * model.layers.value
        words = text("34 s b h a layer") + (text(", and the scores") if scores else "")
    vocabulary = model.vocabulary.value if model.vocabulary else 0
    found += 4 * unit / split * (1 + vocabulary / hidden)
    figures = f"s {sequence:.0f}, b {plan.micro_batch_size.value}, h {hidden}"
    notes.append(text("activations: {words} ({figures}), and the logits in fp32", words=words, figures=figures))
    if half_precision(plan) is None:
        found *= 2
    return int(found)


def _keeps_scores(plan: Plan) -> bool:
    return plan.attention is not None and plan.attention.value.lower() in QUADRATIC


def kv_bytes_per_token(plan: Plan) -> int | None:
    """What the engine's cache takes for one token on one of its GPUs: keys and values of all layers."""
    model = plan.model
    if model.layers is None or model.hidden_size is None or model.heads is None:
        return None
    heads = model.kv_heads.value if model.kv_heads else model.heads.value
    width = model.head_dim.value if model.head_dim else model.hidden_size.value // max(1, model.heads.value)
    here = max(1, heads // product(plan.engine_tensor_parallel))
    size = 1 if plan.kv_cache_dtype is not None and "fp8" in plan.kv_cache_dtype.value else 2
    return 2 * model.layers.value // product(plan.engine_pipeline_parallel) * here * width * size
