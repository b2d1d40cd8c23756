"""What a checkpoint holds, whatever its format: sections (model, optimizer, scheduler, ...), the step, and what would not load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..language import text
from ..model import TensorKey
from .values import Global, Opaque, TensorEntry, tensors_in, word

__all__ = ["Contents", "Loaded", "Section", "absorb", "keys_of", "role_of"]

ROLES: dict[str, tuple[str, ...]] = {
    "model": (
        "model", "state_dict", "model_state_dict", "model_state", "module", "net", "network", "weights", "params", "generator", "policy",
        "model_states", "pytorch_model", "adapter_model", "models",
    ),
    "ema": ("ema", "model_ema", "ema_state_dict", "ema_model", "state_dict_ema", "swa_model"),
    "optimizer": (
        "optimizer", "optimizer_state_dict", "optimizer_states", "optimizer_state", "optim", "opt", "optimizers", "optim_state_dict",
        "optim_states", "optimizer_dict", "last_optimizer_state",
    ),
    "scheduler": (
        "scheduler", "lr_scheduler", "lr_schedulers", "scheduler_state_dict", "lr_scheduler_state_dict", "schedulers", "sched",
        "lr_scheduler_state", "lr_sched",
    ),
    "scaler": ("scaler", "grad_scaler", "scaler_state_dict", "amp_scaler", "amp", "native_amp_scaling_state", "MixedPrecision", "scalers"),
    "rng": (
        "rng", "rng_state", "rng_states", "random_state", "random_states", "random_rng_state", "np_rng_state", "torch_rng_state",
        "cuda_rng_state", "random_rng", "rng_tracker_states", "cpu_rng_state", "torch_cuda_manual_seed",
    ),
    "loader": (
        "loader", "loaders", "dataloader", "dataloaders", "train_dataloader", "sampler", "data_loader", "train_loader", "dataset_state",
        "loader_state", "dl_random_generator",
    ),
}  # fmt: skip
"""The names that people and frameworks give to the parts of a checkpoint."""

HEAVY = ("model", "ema", "optimizer")
"""Parts that are made of tensors: a list of names under ``optimizers`` is none."""
STEPS = (
    "global_step",
    "global_steps",
    "step",
    "steps",
    "iteration",
    "iterations",
    "iter",
    "it",
    "num_updates",
    "iter_num",
    "current_step",
)
TOLD = (
    *STEPS,
    "epoch",
    "epochs",
    "loss",
    "best_loss",
    "best_metric",
    "best_val_loss",
    "pytorch-lightning_version",
    "version",
    "arch",
    "seed",
)
PROGRESS = ("trainer", "training", "train_state", "state", "progress")
"""What trainers call the figures that they go on from."""
MOST_OPTIMIZERS = 16
_OF_NAME = {name: role for role, names in ROLES.items() for name in names}
_PREFIXED = (
    "random_states_",
    "rng_state",
    "sampler",
    "dl_state_dict",
    "mp_rank_",
    "optimizer_",
    "scheduler_",
    "model-",
    "optimizer-",
    "rank-",
)


@dataclass
class Loaded:
    """One file, read: `value` in inert stand-ins; `number` reads a tensor of one element from the file, None where it cannot."""

    format: str
    value: Any
    names: set[str] = field(default_factory=set)
    foreign: list[str] = field(default_factory=list)
    number: Callable[[TensorEntry], float | None] = lambda entry: None
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class Section:
    """One part of a checkpoint: its role, the file and key where it was found, its tensors."""

    role: str
    where: str
    tensors: list[TensorKey] = field(default_factory=list)
    note: str = ""

    @property
    def bytes(self) -> int:
        """Bytes of the tensors, those that share memory once."""
        return sum(t.bytes for t in self.tensors if t.tied_to is None)


@dataclass
class Contents:
    """A checkpoint. `problems` are damages in words.

    `classes`: what ``weights_only`` refuses (None: it is not for torch.load), and `refused`: the files that have them. `exact`: it says
    itself whether a resume is exact (None: it says nothing); `without`: parts that the job did not have.
    """

    path: str
    format: str
    bytes: int
    files: list[str]
    sections: list[Section] = field(default_factory=list)
    step: int | None = None
    step_from: str = ""
    values: dict[str, str] = field(default_factory=dict)
    classes: list[str] | None = None
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    exact: bool | None = None
    without: list[str] = field(default_factory=list)
    not_finite: list[str] = field(default_factory=list)
    """What it says itself of parts with NaNs in them."""
    besides: dict[str, str] = field(default_factory=dict)
    """What each file of ours named so holds besides the usual parts, in words."""
    no_step: str = ""
    """Why nothing tells the step, where that is known better than from what is there."""

    def keys(self, role: str = "model") -> list[TensorKey]:
        """The tensors of all sections of `role`."""
        return [t for s in self.sections if s.role == role for t in s.tensors]

    def has(self, role: str) -> bool:
        return any(s.role == role for s in self.sections)

    def tell_step(self, step: Any, where: str) -> None:
        """Take `step` for the checkpoint's, unless a better source has told it already."""
        if self.step is None and isinstance(step, (int, float)) and not isinstance(step, bool) and 0 <= step < 2**53:
            self.step, self.step_from = int(step), where


# --- which part is it ----------------------------------------------------------------------------------------------


def role_of(name: str) -> str | None:
    """The part that goes by this name (of a key, or of a file without its ending); None where it says nothing."""
    known = _OF_NAME.get(name) or _OF_NAME.get(name.lower())
    if known:
        return known
    for prefix in _PREFIXED:
        if name.startswith(prefix):
            return _OF_NAME.get(prefix.rstrip("_-"), {"dl_state_dict": "loader"}.get(prefix))
    return None


def _role_by_shape(value: Any) -> str | None:
    """The part that looks like this, whatever its name."""
    if isinstance(value, list) and value:  # several optimizers; one level, since a hostile file may nest a million
        value = value[0]
    if not isinstance(value, dict):
        return None
    if "param_groups" in value and "state" in value:
        return "optimizer"
    if "last_epoch" in value and ("_step_count" in value or "base_lrs" in value):
        return "scheduler"
    if "growth_factor" in value and "backoff_factor" in value:
        return "scaler"
    return None


def _is_state_dict(value: Any) -> bool:
    """Names to tensors, or nearly so."""
    if not isinstance(value, dict) or not value:
        return False
    tensors = sum(isinstance(v, TensorEntry) for v in value.values())
    return tensors * 2 > len(value) and all(isinstance(k, str) for k in value)


# --- from what a file holds to sections ------------------------------------------------------------------------------


def absorb(contents: Contents, loaded: Loaded, file: str, stem: str) -> None:
    """Sort what `loaded` holds into `contents`. `stem` is the file's name without its ending, which may say what it is."""
    contents.problems += [text("{who}: {what}", who=file, what=problem) for problem in loaded.problems]
    contents.notes += [note for note in loaded.notes if note not in contents.notes]
    value = loaded.value
    if stem in contents.besides:
        contents.sections.append(Section("other", file, keys_of(tensors_in(value)), contents.besides[stem]))
        return
    whole = _role_by_shape(value) or ("model" if _is_state_dict(value) and role_of(stem) is None else role_of(stem))
    if isinstance(value, Opaque):
        _whole_model(contents, value, file)
    elif whole is not None and not _has_parts(value):
        _add(contents, loaded, whole, file, value)
    elif isinstance(value, dict):
        _tell_values(contents, loaded, value, file)  # first: the trainer's own count of steps before the optimizer's
        _tell_step_below(contents, loaded, value, file)
        for key, part in value.items():
            _part(contents, loaded, file, word(key), part)
    elif _has_tensors(value):
        _add(contents, loaded, "model", file, value)


def _has_parts(value: Any) -> bool:
    """A dict of several parts, although its file's name says that it is one of them."""
    if not isinstance(value, dict) or _role_by_shape(value) or _is_state_dict(value):
        return False
    roles = {_role_by_shape(v) or (role_of(word(k)) if isinstance(v, (dict, list)) else None) for k, v in value.items()}
    return len(roles - {None}) > 1 or bool(roles & {"model", "optimizer"})


def _part(contents: Contents, loaded: Loaded, file: str, key: str, part: Any) -> None:
    role = _role_by_shape(part) or role_of(key)
    if role is None and _is_state_dict(part):
        role = "model"
    if role is None and isinstance(part, dict) and any(role_of(word(k)) for k in part):
        # {"app": {"model": ..., "optim": ...}}, {"boundary": {"rng": ..., "loaders": ...}}
        for inner, below in part.items():
            wanted = role_of(word(inner)) if _role_by_shape(below) is None else _role_by_shape(below)
            if below and (wanted in ("rng", "loader") or (wanted and _has_tensors(below))):
                _add(contents, loaded, wanted, f"{file}: {key}.{word(inner)}", below)
        return
    if role is None or not _worth(part) or (role in HEAVY and not _role_by_shape(part) and not _has_tensors(part)):
        return
    if isinstance(part, Opaque):
        _whole_model(contents, part, f"{file}: {key}", role)
    else:
        _add(contents, loaded, role, f"{file}: {key}", part)


def _has_tensors(part: Any) -> bool:
    return next(iter(tensors_in(part)), None) is not None


def _worth(part: Any) -> bool:
    """Not an empty placeholder."""
    return isinstance(part, (TensorEntry, Opaque, int)) or (
        isinstance(part, (dict, list, tuple, bytes)) and len(part) > 0
    )


def _add(contents: Contents, loaded: Loaded, role: str, where: str, value: Any) -> None:
    section = Section(role, where, keys_of(tensors_in(value)))
    contents.sections.append(section)
    if role == "optimizer":
        contents.tell_step(_optimizer_step(value, loaded), text("the optimizer's own count ({where})", where=where))


def _whole_model(contents: Contents, value: Opaque, where: str, role: str = "model") -> None:
    """A pickled object. If it is a module, its tensors under the names that its state_dict() would have."""
    section = Section(role, where, keys_of(_module_tensors(value)), text("a pickled {what}", what=value.of.path))
    if section.tensors:
        contents.sections.append(section)
    else:
        contents.notes.append(text("{where} is a pickled {what}: not looked into", where=where, what=value.of.path))


def _module_tensors(module: Opaque) -> Iterator[tuple[tuple[str, ...], TensorEntry]]:
    stack: list[tuple[tuple[str, ...], Opaque]] = [((), module)]
    seen: set[int] = set()
    while stack:
        path, at = stack.pop()
        if id(at) in seen or len(path) > 64:
            continue
        seen.add(id(at))
        for held in [at.state] if _scripted(at) else [at.attribute("_parameters"), at.attribute("_buffers")]:
            for name, entry in held.items() if isinstance(held, dict) else ():
                if isinstance(entry, TensorEntry):
                    yield (*path, word(name)), entry
        stack.extend(((*path, word(name)), inner) for name, inner in reversed(_below(at)))


def _below(module: Opaque) -> list[tuple[Any, Opaque]]:
    """A module's children; TorchScript keeps them as plain attributes."""
    held = module.state if _scripted(module) else module.attribute("_modules")
    return [(name, part) for name, part in held.items() if isinstance(part, Opaque)] if isinstance(held, dict) else []


def _scripted(module: Opaque) -> bool:
    return module.of.module.startswith("__torch__")


def keys_of(named: Iterable[tuple[Sequence[str], TensorEntry]]) -> list[TensorKey]:
    """Tensors as keys, those with the same memory tied to the first of them."""
    first: dict[Any, str] = {}
    keys = []
    for path, entry in named:
        name = ".".join(path)
        tied = None
        if entry.storage is not None and entry.numel:
            memory = (entry.storage.key, entry.offset, entry.shape, entry.dtype)
            known = first.setdefault(memory, name)
            tied = known if known != name else None
        keys.append(TensorKey(name, entry.shape, entry.dtype, entry.bytes, tied))
    return keys


# --- small values ----------------------------------------------------------------------------------------------------


def _optimizer_step(value: Any, loaded: Loaded) -> float | None:
    """The greatest ``step`` that an optimizer (or the first of several that keeps one) keeps of its parameters."""
    if isinstance(value, list) or (isinstance(value, dict) and "state" not in value):
        below = list(value.values() if isinstance(value, dict) else value)[:MOST_OPTIMIZERS]
        steps = (_optimizer_step(one, loaded) for one in below if isinstance(one, dict) and "state" in one)
        return next((step for step in steps if step is not None), None)
    state = value.get("state") if isinstance(value, dict) else None
    if not isinstance(state, dict):
        return None
    counts = [number(s["step"], loaded) for s in list(state.values())[:1000] if isinstance(s, dict) and "step" in s]
    known = [s for s in counts if s is not None]
    return max(known) if known else None


def number(value: Any, loaded: Loaded) -> float | None:
    """A number, or the one element of a tensor."""
    if isinstance(value, TensorEntry):
        return loaded.number(value) if value.numel == 1 else None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _tell_step_below(contents: Contents, loaded: Loaded, value: dict[Any, Any], file: str) -> None:
    """The step that a trainer keeps together with its other figures: ``{"train_state": {"step": 7}}``."""
    for key in PROGRESS if contents.exact is None else ():
        below = value.get(key)
        if isinstance(below, dict):
            for name in STEPS:
                contents.tell_step(number(below.get(name), loaded), f"{key}.{name} in {file}")


def _tell_values(contents: Contents, loaded: Loaded, value: dict[Any, Any], file: str) -> None:
    for name in TOLD if contents.exact is None else ():  # our own say it in the manifest, and count in several ways
        if name not in value:
            continue
        told = value[name]
        known = told if isinstance(told, str) else number(told, loaded)
        if known is not None:
            contents.values.setdefault(name, str(known)[:200])
            if name in STEPS:
                contents.tell_step(known, f"{name} in {file}")


def dtype_of(value: Any) -> str:
    """A dtype as DCP's metadata has it; "?" where it is none that we know."""
    return value.name if isinstance(value, Global) and value.module == "torch" else "?"
