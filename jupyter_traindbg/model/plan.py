"""What a run is going to be, by its configuration, and the machine that it is to run on: what `preflight` judges before a start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from .base import Maybe, NotAvailable, Result
from .finding import Finding
from .preflight import PreflightPort
from .ray import RayNode, Resources

__all__ = [
    "ConfigPreflight",
    "Given",
    "Machine",
    "MachineGpu",
    "MemoryEstimate",
    "ModelShape",
    "Plan",
    "RayWorkerTrial",
    "TrialStage",
    "UnmetRequirement",
]

T = TypeVar("T")
_NOT_LOOKED_AT = NotAvailable("not looked at")


@dataclass(frozen=True)
class Given(Generic[T]):
    """A value of the configuration, the key that it had there, and where that stands."""

    value: T
    key: str
    """As it is written: ``data.train_batch_size``, ``--micro_train_batch_size``."""
    file: str
    line: int | None = None

    @property
    def where(self) -> str:
        """``"ppo.yaml:12 data.train_batch_size"``; a file that has no line numbers for us is named alone."""
        return f"{self.file}:{self.line} {self.key}" if self.line is not None else f"{self.file} {self.key}"

    @property
    def name(self) -> str:
        """The last part of the key, as people say it: ``train_batch_size``."""
        return self.key.lstrip("-+").rpartition(".")[2] or self.key

    def __str__(self) -> str:
        return f"{self.name} {self.value}"


# --- the machine -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MachineGpu:
    """One device. The name decides what it can compute (``bf16``), its memory what fits."""

    name: str
    memory_bytes: Maybe[int] = _NOT_LOOKED_AT
    memory_used_bytes: Maybe[int] = _NOT_LOOKED_AT


@dataclass(frozen=True)
class UnmetRequirement:
    """An installed package whose own metadata asks for another version of another installed package."""

    package: str
    version: str
    wants: str
    """``"torch==2.6.0"``, as the metadata (`Requires-Dist`) says."""
    has: str


@dataclass(frozen=True)
class Machine:
    """The resources that a run would find: of this machine, or of anything else that somebody describes (one node of a cluster)."""

    name: str
    cpus: int = 0
    memory_bytes: int = 0
    memory_free_bytes: int = 0
    """0: not known, of these three."""
    gpus: Maybe[Sequence[MachineGpu]] = _NOT_LOOKED_AT
    """Those that a program started here would see; empty where there are none."""
    nodes: int | None = None
    """How many machines like this one there are; None: only this one was looked at."""
    shm_bytes: Maybe[int] = _NOT_LOOKED_AT
    shm_free_bytes: Maybe[int] = _NOT_LOOKED_AT
    disk_free_bytes: Mapping[str, int] = field(default_factory=dict)
    """By the directory that the configuration names."""
    ports: Sequence[PreflightPort] = ()
    """The ports that the configuration names, where they are of this machine."""
    interfaces: Sequence[str] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    """What has to do with training; secrets are hidden already."""
    versions: Mapping[str, str] = field(default_factory=dict)
    unmet: Sequence[UnmetRequirement] = ()
    ray_nodes: Sequence[RayNode] = ()
    """The nodes of the Ray cluster that this stands for, those alive; the fields above are then of one of them. Empty: no cluster."""


# --- one worker, started to be timed -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrialStage:
    """One thing that a worker does before it is of use: ``process``, ``import``, ``__init__``, or the name of the method called."""

    name: str
    took_s: float
    cpu_s: float
    """CPU time of all its threads and children, in seconds."""
    rss_bytes: int
    """Resident memory when it was done."""


@dataclass(frozen=True)
class RayWorkerTrial:
    """One worker that was started on a Ray cluster, timed, and taken away again."""

    worker: str
    """``module:Class``"""
    node: str = ""
    pid: int = 0
    resources: Resources = field(default_factory=dict)
    """What it was started with, by Ray's names; its own declaration, where it has one."""
    stages: Sequence[TrialStage] = ()
    peak_bytes: int = 0
    """The most resident memory that it had."""
    own_bytes: int = 0
    """What one more like it adds to a node at most: the peak, less the pages that it shares with other processes."""
    threads: int = 0
    gpu_bytes: Maybe[int] = _NOT_LOOKED_AT
    failed_in: str = ""
    """The stage that it did not get through; empty where all went well."""
    problem: str = ""
    raised: bool = False
    """Whether the user's code raised; else it was not done in time."""
    where: str | None = None
    """The user's innermost ``"file:line function"`` of the problem."""
    cleaned: bool = True
    """Whether its process is seen to be gone."""

    @property
    def took_s(self) -> float:
        """From asking Ray for it to the end of ``__init__``."""
        return sum(stage.took_s for stage in self.stages[:3])

    @property
    def cpu_s(self) -> float:
        """CPU time up to the end of ``__init__``."""
        return sum(stage.cpu_s for stage in self.stages[:3])


# --- the plan --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelShape:
    """What decides the size of a transformer. None: the configuration does not say."""

    parameters: Given[int] | None = None
    hidden_size: Given[int] | None = None
    layers: Given[int] | None = None
    heads: Given[int] | None = None
    kv_heads: Given[int] | None = None
    head_dim: Given[int] | None = None
    intermediate_size: Given[int] | None = None
    vocabulary: Given[int] | None = None
    tied_embeddings: Given[bool] | None = None
    gated_mlp: Given[bool] | None = None
    experts: Given[int] | None = None
    expert_size: Given[int] | None = None
    """Hidden units of one expert."""
    longest: Given[int] | None = None
    """The longest sequence that the model was made for."""


@dataclass(frozen=True)
class Plan:
    """A run in one vocabulary, whatever framework's words it was configured in. None: not said, and nothing was assumed.

    Batch sizes count sequences, unless they say prompts. "Per GPU" is per process: one process has one GPU.
    """

    machine: Machine
    dialects: Sequence[str] = ()
    """The frameworks whose keys were recognised: ``verl``, ``deepspeed``, ``torchrun``, ..."""
    files: Sequence[str] = ()
    model: ModelShape = ModelShape()
    environ: Mapping[str, Given[str]] = field(default_factory=dict)
    """Variables that the configuration or the command sets itself."""

    # how it is started
    nodes: Given[int] | None = None
    processes_per_node: Given[int] | None = None
    processes: Given[int] | None = None
    """On all machines together."""
    master_address: Given[str] | None = None
    master_port: Given[int] | None = None
    backend: Given[str] | None = None

    # what Ray is asked for
    ray_workers: Given[int] | None = None
    """Actors (or workers of Ray Train, or RLlib's env runners) that do the same side by side."""
    ray_cpus: Given[float] | None = None
    """Logical CPUs for each of them. None: not said; an actor then needs one to be placed and none to run."""
    ray_gpus: Given[float] | None = None
    ray_memory: Given[int] | None = None
    """Bytes that Ray books for each; it reserves nothing."""
    ray_custom: Mapping[str, Given[float]] = field(default_factory=dict)
    """Resources with names of their own."""
    ray_use_gpu: Given[bool] | None = None
    """Ray Train's: a GPU for each worker."""
    ray_device: Given[str] | None = None
    """What their model is put on: ``cuda``, ``cpu``."""
    ray_strategy: Given[str] | None = None
    """PACK, SPREAD, STRICT_PACK (all on one node) or STRICT_SPREAD (each on a node of its own)."""
    ray_trial: RayWorkerTrial | None = None

    # how the model is divided
    tensor_parallel: Given[int] | None = None
    pipeline_parallel: Given[int] | None = None
    context_parallel: Given[int] | None = None
    """Parts that a sequence is cut into: context, ring-attention and Ulysses parallelism."""
    data_parallel: Given[int] | None = None
    expert_parallel: Given[int] | None = None
    sequence_parallel: Given[bool] | None = None
    """Megatron's: what tensor parallelism leaves whole is divided along the sequence as well."""

    # batches
    train_batch_size: Given[int] | None = None
    """Sequences in one optimizer step on all GPUs."""
    micro_batch_size: Given[int] | None = None
    """Sequences in one forward pass on one GPU."""
    accumulation: Given[int] | None = None
    prompts_per_rollout: Given[int] | None = None
    samples_per_prompt: Given[int] | None = None
    mini_batch_prompts: Given[int] | None = None
    """verl's ppo_mini_batch_size: prompts in one optimizer step."""
    micro_batch_everywhere: Given[int] | None = None
    """verl's old ppo_micro_batch_size: on all GPUs together."""
    micro_rollout_batch_size: Given[int] | None = None
    max_samples: Given[int] | None = None
    """At most so many prompts of the dataset are used."""
    dynamic_batch: Given[bool] | None = None
    advantage_estimator: Given[str] | None = None

    # lengths, in tokens
    sequence_length: Given[int] | None = None
    prompt_length: Given[int] | None = None
    response_length: Given[int] | None = None

    # numbers and memory
    model_path: Given[str] | None = None
    bf16: Given[bool] | None = None
    fp16: Given[bool] | None = None
    dtype: Given[str] | None = None
    """What is computed in."""
    loaded_in: Given[str] | None = None
    """What the weights are loaded in, and kept in unless something makes fp32 of them: ``bfloat16``."""
    loss_scale: Given[float] | None = None
    """0: dynamic."""
    zero_stage: Given[int] | None = None
    sharding: Given[str] | None = None
    """FSDP's: FULL_SHARD, SHARD_GRAD_OP, HYBRID_SHARD, NO_SHARD."""
    offload_optimizer: Given[bool] | None = None
    offload_parameters: Given[bool] | None = None
    offload_to_disk: Given[bool] | None = None
    """What is offloaded goes to an NVMe disk, not into the machine's memory."""
    optimizer: Given[str] | None = None
    recompute: Given[bool] | None = None
    """Activation checkpointing of whole layers."""
    attention: Given[str] | None = None
    lora_rank: Given[int] | None = None
    tuning: Given[str] | None = None
    """``full``, or by which adapter: ``lora``, ``oft``, ``freeze``."""
    low_rank_states: Given[bool] | None = None
    """An optimizer whose states are of low rank, or of one block at a time (GaLore, APOLLO, BAdam)."""
    load_in_4bit: Given[bool] | None = None
    load_in_8bit: Given[bool] | None = None

    # the inference engine
    engine_tensor_parallel: Given[int] | None = None
    engine_pipeline_parallel: Given[int] | None = None
    engines: Given[int] | None = None
    engine_memory_share: Given[float] | None = None
    """vLLM's gpu_memory_utilization: of the whole device."""
    engine_length: Given[int] | None = None
    """max_model_len: the longest request, prompt and answer."""
    engine_dtype: Given[str] | None = None
    kv_cache_dtype: Given[str] | None = None
    engine_sleeps: Given[bool] | None = None
    """Whether it gives its memory back while the model is trained."""
    colocated: Given[bool] | None = None
    """Whether engine and training share the GPUs."""
    asynchronous: Given[bool] | None = None
    """Whether engines generate while the model is trained: then they have GPUs of their own."""

    # data and files
    workers: Given[int] | None = None
    """DataLoader workers of one process."""
    prefetch: Given[int] | None = None
    save_directory: Given[str] | None = None
    keep_checkpoints: Given[int] | None = None
    save_every: Given[int] | None = None
    steps: Given[int] | None = None
    save_only_model: Given[bool] | None = None


@dataclass(frozen=True)
class MemoryEstimate:
    """What one GPU has to hold while it trains, in bytes, by the arithmetic of the papers. An estimate: the allocator's fragments, buffers
    of communication and CUDA's own (about 1 GiB) are not in it.
    """

    parameters: int
    weights_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    activations_bytes: Maybe[int]
    host_bytes: int = 0
    """What offloading puts into the memory of the machine, for all its processes."""
    least_states_bytes: int | None = None
    """`states_bytes` if the model is loaded in 16 bits, where the configuration leaves that open."""
    assumptions: Sequence[str] = ()

    @property
    def states_bytes(self) -> int:
        """Weights, gradients and optimizer states: what does not depend on the batch."""
        return self.weights_bytes + self.gradients_bytes + self.optimizer_bytes


@dataclass(frozen=True)
class ConfigPreflight(Result):
    """A configuration, read and judged before its run."""

    _rows = "verdict"
    plan: Plan
    memory: Maybe[MemoryEstimate] = _NOT_LOOKED_AT
    verdict: Sequence[Finding] = ()
    notes: Sequence[str] = ()
    taken_s: float = 0.0
    fits: Mapping[str, int] = field(default_factory=dict)
    """How many workers like the one that was tried the cluster holds, by what bounds them."""
    start_s: Maybe[float] = _NOT_LOOKED_AT
    """Seconds until all workers of the plan are up, at the least."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self.verdict)
