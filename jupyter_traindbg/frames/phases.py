"""Which part of a training a stack passes through: compiling, evaluating, in its backward pass. Told by what the functions on it do, not by
the package that they belong to: a compiled model that merely runs has frames of the compiler, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..language import later, text
from ..model import Frame, WaitKind
from .whose import bare, own_frames, short_path

__all__ = [
    "BACKWARD",
    "BUILDING_EXTENSION",
    "COMPILING",
    "EXPORTING",
    "JOINING_RAY",
    "Phase",
    "caller",
    "in_backward",
    "passes_through",
    "phase_of",
    "phases_of",
    "telling",
]


@dataclass(frozen=True, eq=False)
class Phase:
    """``english`` follows "it is". ``usual``: a part of every training, which the other ranks of a healthy job may be waiting for.

    ``tells``: the frame by which it is known is worth showing; a model's call or an optimizer's step need no proof. ``waits``: the kinds of
    wait that say the same.
    """

    english: str
    usual: bool = True
    tells: bool = True
    waits: tuple[WaitKind, ...] = ()

    @property
    def words(self) -> str:
        return text(self.english)


JOINING_RAY = Phase(later("starting Ray, or joining its cluster"), usual=False)
COMPILING = Phase(later("compiling"))
EXPORTING = Phase(later("exporting a model"), usual=False)
BUILDING_EXTENSION = Phase(later("building a C++ extension"), usual=False)
_SAVING = Phase(later("saving a checkpoint"))
_LOADING = Phase(later("loading a checkpoint"))
_LOADING_MODEL = Phase(later("loading its model"))
_DOWNLOADING = Phase(later("downloading files"), usual=False)
_INITIALISING = Phase(later("building its model"), tells=False)
_SCORING = Phase(later("computing rewards"))
_GENERATING = Phase(later("generating"))
_EVALUATING = Phase(later("evaluating"))
_PREPARING = Phase(later("preparing its dataset"), usual=False)
BACKWARD = Phase(later("in its backward pass"), tells=False, waits=("backward",))
_FORWARD = Phase(later("in a forward pass"), tells=False)
_CLIPPING = Phase(later("clipping its gradients"), tells=False)
_OPTIMIZING = Phase(later("in its optimizer step"), tells=False)
_STARTING_WORKERS = Phase(later("starting its DataLoader workers"), usual=False, tells=False)
_READING = Phase(later("reading its data"), usual=False, tells=False, waits=("loader", "loader_end"))
_TRAINING = Phase(later("in its training step"))
_TOKENISING = Phase(later("tokenising"), usual=False, tells=False)
_LOGGING = Phase(later("logging its metrics"), usual=False)
_IMPORTING = Phase(later("importing modules"), tells=False)
_SAVING_BY_NAME = Phase(later("saving a checkpoint"), tells=False)
_LOADING_BY_NAME = Phase(later("loading a checkpoint"), tells=False)
"""By the name of the user's function alone: ``checkpoint_forward`` may be in a forward pass as well."""

_HAVE_PARTS = (_EVALUATING, _GENERATING, _SCORING, _TRAINING)
_PARTS = (_FORWARD, _READING, _TOKENISING)

_RUNS = r"(?!(?:run|__call__|call|forward|backward|_run_from_cache|_load_triton_kernel_from_source)$)"
"""What compiled code passes through each time that it runs; all else in those files compiles."""
_TRAINER = r"transformers/trainer(?:_seq2seq)?\.py"
_LIGHTNING = r"(?:lightning/pytorch|pytorch_lightning)/"
_SAVES, _LOADS = r"_?save", r"_?load"

# Of a stack that passes through several, the first here is what it is in. Each: file (from its package on) and bare function, as regular
# expressions that match from the beginning.
_RULES: Sequence[tuple[Phase, str, str]] = (
    (JOINING_RAY, r"ray/_private/worker\.py", "init$"),
    (EXPORTING, r"torch/export/(__init__|_trace|exported_program)\.py", r"_?(draft_|strict_|non_strict_)?export|run_decomp"),
    (EXPORTING, r"torch/onnx/", r"_?export"),
    (EXPORTING, r"torch/_inductor/__init__\.py", r"aoti?_compile"),
    (COMPILING, r"torch/_dynamo/convert_frame\.py", "_compile$"),
    (COMPILING, r"torch/_dynamo/(symbolic_convert|output_graph)\.py", ""),
    (COMPILING, r"torch/_dynamo/compiled_autograd\.py", r"(?!runtime_wrapper$|_?enable|_?disable|reset$)"),
    (COMPILING, r"torch/fx/(experimental/proxy_tensor|_symbolic_trace)\.py", r"make_fx|dispatch_trace|_?trace|_trace_inner"),
    (COMPILING, r"torch/_inductor/(compile_fx|codecache|async_compile|graph|scheduler)\.py", _RUNS),
    (COMPILING, r"torch/_functorch/_aot_autograd/(graph_c\w+|jit_compile_\w+|dispatch_and_compile_graph)\.py", ""),
    (COMPILING, r"torch/_functorch/_aot_autograd/runtime_wrappers\.py", "get_or_compile"),
    (COMPILING, r"torch/_functorch/aot_autograd\.py", r"_?aot_|create_aot"),
    (COMPILING, r"torch/_inductor/runtime/triton_heuristics\.py", r"autotune|_?benchmark|bench|_?precompile|_make_launchers"),
    (COMPILING, r"triton/compiler/", r"compile|make_|parse|ast_to_ttir|_init_handles"),
    (COMPILING, r"triton/runtime/(autotuner|jit)\.py", r"_?bench|check_disk_cache|_?do_compile|compile|warmup"),
    (COMPILING, r"torch/jit/(_script|_trace|_recursive|frontend)\.py", r"_?(script|trace)|create_script|get_jit"),
    (BUILDING_EXTENSION, r"torch/utils/cpp_extension\.py", r"_jit_compile|_write_ninja|_run_ninja"),
    (_SAVING, r"torch/(serialization|distributed/checkpoint/.*)\.py", _SAVES + r"|async_save|_?write|get_\w*state_dict"),
    (_SAVING, r"safetensors/|.*\bcheckpointing\.py|.*modeling_utils\.py|.*pipeline_utils\.py|peft/", _SAVES),
    (_SAVING, _TRAINER, _SAVES),
    (_SAVING, _LIGHTNING, r"_?save_\w*checkpoint|_save_(top|last|none|topk|monitor)|dump_checkpoint"),
    (_SAVING, r"lightning/fabric/plugins/io/", _SAVES),
    (_SAVING, r"accelerate/accelerator\.py", r"save_"),
    (_SAVING, r"deepspeed/", r"_?save_\w*checkpoint|_?save_model"),
    (_SAVING, r".*", r"save_pretrained$|save_checkpoint$"),
    (_LOADING_MODEL, r"transformers/(modeling_utils|core_model_loading)\.py|diffusers/.*_utils\.py|peft/|vllm/", _LOADS),
    (_LOADING_MODEL, r".*", r"from_pretrained$"),
    (_LOADING, r"torch/(serialization|distributed/checkpoint/.*)\.py", _LOADS + r"|_legacy_load|read|set_\w*state_dict"),
    (_LOADING, r"safetensors/|.*\bcheckpointing\.py", _LOADS),
    (_LOADING, _TRAINER, _LOADS),
    (_LOADING, _LIGHTNING, r"_?(load|restore)_\w*checkpoint|_?restore"),
    (_LOADING, r"accelerate/accelerator\.py", r"load_"),
    (_LOADING, r".*", r"load_checkpoint$"),
    (_DOWNLOADING, r"huggingface_hub/(file_download|_snapshot_download)\.py", r"http_get|xet_get|_?download|_inner_hf_hub|snapshot_"),
    (_DOWNLOADING, r"torch/hub\.py|torchvision/datasets/utils\.py", r"download_|extract_|load_state_dict_from_url"),
    (_DOWNLOADING, r"datasets/download/", r"_?download|extract"),
    (_INITIALISING, r"torch/nn/init\.py", ""),
    (_INITIALISING, r"transformers/modeling_utils\.py", r"_?init(ialize)?_|_?initialize"),
    (_SCORING, r"trl/|verl/", r"_calculate_rewards|_compute_rewards|compute_reward"),
    (_GENERATING, r"transformers/generation/|vllm/(entrypoints|v1/engine)/|sglang/", r"generate|chat|step|_sample|_beam_search"),
    (_GENERATING, r"trl/|verl/", r"_?generate(_|$)"),
    (_EVALUATING, _TRAINER, r"evaluate|predict|evaluation_loop|prediction_loop|prediction_step"),
    (_EVALUATING, _LIGHTNING + r"loops/(evaluation|prediction)_loop\.py", ""),
    (_EVALUATING, r"megatron/|deepspeed/", r"evaluate|eval_batch"),
    (_PREPARING, r"datasets/(arrow_dataset|dataset_dict)\.py", r"_?map|filter|shuffle|sort|flatten_|from_|_?save_to_disk|train_test_"),
    (_PREPARING, r"datasets/(builder|load|fingerprint|packaged_modules/.*)\.py", ""),
    (_PREPARING, r"torchvision/datasets/", r"__init__|make_dataset|find_classes|_check_integrity|_parse"),
    (BACKWARD, r"torch/autograd/graph\.py", "_engine_run_backward"),
    (BACKWARD, r"torch/(_tensor|autograd/__init__)\.py", "backward"),
    (_FORWARD, r"torch/nn/modules/module\.py", r"_call_impl|_wrapped_call_impl|_slow_forward"),
    (_CLIPPING, r"torch/nn/utils/clip_grad\.py", ""),
    (_TRAINING, _TRAINER + r"|" + _LIGHTNING + r"strategies/.*|megatron/training/training\.py", r"training_step|train_step"),
    (_OPTIMIZING, r"torch/optim/(?!lr_scheduler|swa_utils)|bitsandbytes/optim/|deepspeed/runtime/", r"step$|_take_model_step"),
    (_STARTING_WORKERS, r"torch/utils/data/dataloader\.py", r"_get_iterator"),
    (_READING, r"torch/utils/data/dataloader\.py", r"__next__|_next_data|_?try_get_data|_get_data"),
    (_READING, r"torch/utils/data/_utils/(fetch|collate|pin_memory)\.py", ""),
    (_READING, r"datasets/(arrow_dataset|iterable_dataset)\.py", r"__getitem|_getitem|__iter__|_iter"),
    (_READING, r"torchvision/datasets/", r"__getitem"),
    (_TOKENISING, r"tokenizers/|transformers/tokenization_|sentencepiece/|tiktoken/", ""),
    (_LOGGING, r"wandb/|mlflow/|comet_ml/|swanlab/|torch/utils/tensorboard/|tensorboardX?/", ""),
)  # fmt: skip
_BY_USERS: Sequence[tuple[Phase, str]] = (
    (_EVALUATING, r"\b(eval|evals|evaluat\w*|validat\w*)\b|\bpredict(ions?)?( (step|epoch|loop|set|dataset))?$"),
    (_GENERATING, r"\bgenerat(e|es|ed|ing|ions?)\b"),
    (_LOADING_BY_NAME, r"\b(load|restore|resume)\w*\b.*\b(checkpoint|ckpt|state|weights)"),
    (_SAVING_BY_NAME, r"\b(save|saves|saving|checkpoint|ckpt)\b"),
)
"""What people call their own functions, in words."""
_MAIN = re.compile(r"\b(train\w*|fit|main|run)\b")
"""``train_and_evaluate`` is on the stack all the time."""
_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_IMPORTS = re.compile(r"^(_find_and_load|_load_unlocked|exec_module|import_module)")

_ORDER: Sequence[Phase] = [
    *dict.fromkeys(phase for phase, _, _ in _RULES),
    _IMPORTING,
    _SAVING_BY_NAME,
    _LOADING_BY_NAME,
]


def phase_of(frames: Sequence[Frame]) -> Phase | None:
    """What a thread with this stack is in; None where it passes through nothing that is known. 1 us a frame."""
    return next(iter(phases_of(frames)), None)


def phases_of(frames: Sequence[Frame]) -> list[Phase]:
    """The same, and within an evaluation or a generation the part of it: ``evaluating``, ``reading its data``."""
    found = {phase for _, phase in _seen(frames)}
    ordered = [phase for phase in _ORDER if phase in found]
    parts = [phase for phase in ordered if phase in _PARTS] if ordered[:1] and ordered[0] in _HAVE_PARTS else []
    return ordered[:1] + parts[:1]


def in_backward(frames: Sequence[Frame]) -> bool:
    """Whether a thread with this stack is in a backward pass, and in nothing rarer."""
    return BACKWARD in phases_of(frames)


def passes_through(frames: Sequence[Frame], phase: Phase) -> bool:
    """Whether any frame of a thread means that, whatever it is in within."""
    return any(seen is phase for _, seen in _seen(frames))


def caller(frames: Sequence[Frame], phase: Phase) -> Frame | None:
    """The user's frame that has called what is in `phase`, and not one that this calls in turn; None where there is none."""
    own = list(own_frames(frames))
    inside = next((i for i in reversed(range(len(own))) if own[i].library and _of_library(own[i]) is phase), len(own))
    return next((frame for frame in own[inside + 1 :] if not frame.library), None)


def telling(frames: Sequence[Frame]) -> list[Frame]:
    """The library's frames that tell a phase, the outermost of each, innermost first: ``Trainer.evaluate``, ``_save_checkpoint``."""
    outermost = {phase: frame for frame, phase in _seen(frames) if frame.library and phase.tells}
    shown = {id(frame) for frame in outermost.values()}
    return [frame for frame in own_frames(frames) if id(frame) in shown]


def _seen(frames: Sequence[Frame]) -> Iterator[tuple[Frame, Phase]]:
    """Each frame that means a phase, innermost first."""
    importing = True
    for frame in own_frames(frames):
        if not frame.library:
            importing = importing and frame.function == "<module>"
            phase = _by_users(bare(frame.function))
        else:
            phase = _of_library(frame)
            if importing and frame.file.startswith("<frozen importlib") and _IMPORTS.match(bare(frame.function)):
                phase = _IMPORTING
        if phase is not None:
            yield frame, phase


def _of_library(frame: Frame) -> Phase | None:
    return _by_library(short_path(frame), bare(frame.function))


@lru_cache(maxsize=4096)
def _by_library(file: str, function: str) -> Phase | None:
    if function == "<module>":
        return None  # it is being imported
    for phase, files, functions in _RULES:
        if re.match(files, file) and re.match(functions, function):
            return phase
    return None


@lru_cache(maxsize=1024)
def _by_users(function: str) -> Phase | None:
    words = " ".join(_WORD.findall(function)).lower()
    if _MAIN.search(words):
        return None
    return next((phase for phase, name in _BY_USERS if re.search(name, words)), None)
