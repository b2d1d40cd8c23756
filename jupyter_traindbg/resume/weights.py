"""Parameters, buffers and optimizer state: compared with what a checkpoint holds, then, all of it or nothing, loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from ..agent.checkpoint import named
from ..agent.objects import named_parameters
from ..agent.saying import Said
from ..errors import UsageError
from ..language import later, text
from . import sharded
from .saved import Checkpoint

SHOWN = 4
OF_A_PARAMETER = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer")
"""State that has its parameter's shape in every optimizer of torch that keeps it."""
WITH_ANOTHER_MODEL = later("build the model as the saved job did; `%checkpoint --compare PATH` shows every difference")

unwrapped = named.unwrapped


def inner(given: Any, attribute: str = "optimizer") -> Any:
    """The torch object inside accelerate's and Lightning's wrappers."""
    held = getattr(given, "__dict__", {}).get(attribute)
    has_both = attribute == "optimizer" and held is not None and not hasattr(held, "param_groups")
    foreign = not type(given).__module__.startswith("torch.")
    return (
        inner(held, attribute)
        if held is not None and not has_both and foreign and hasattr(held, "state_dict")
        else given
    )


class State:
    """What is to be loaded, all of it in hand and found to fit."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.copies: list[tuple[Any, Any]] = []
        """(live tensor, what it is to hold)."""
        self.packed: list[tuple[Any, dict[str, Any]]] = []
        """(optimizer, its state_dict)."""

    def note(self, why: Said) -> None:
        self.notes.append(str(why))

    def load(self) -> None:
        import torch

        with torch.no_grad():
            for live, value in self.copies:
                live.copy_(value)
        for optimizer, packed in self.packed:
            optimizer.load_state_dict(packed)


def read(checkpoint: Checkpoint, models: Sequence[Any], optimizers: Sequence[Any], *, strict: bool) -> State:
    """Read what `models` and `optimizers` need and compare it with them; nothing is changed. Raises UsageError where it does not fit."""
    state = State()
    described = checkpoint.training
    for what, given, there in (
        ("model", models, described["models"]),
        ("optimizer", optimizers, described["optimizers"]),
    ):
        if len(given) > len(there):
            raise UsageError(
                text(
                    "{given} {what}s were given and the checkpoint has {saved}",
                    given=len(given),
                    what=what,
                    saved=len(there),
                ),
                text("give no more {what}s than that", what=what),
            )
    source = _source(checkpoint)
    lives = [named.state(model, state.note) for model in models]
    for i, live in enumerate(lives):
        kind = type(models[i]).__name__
        which = text("model {number} ({kind})", number=i, kind=kind) if i else text("the model ({kind})", kind=kind)
        _check_keys(which, live, source.shapes("model", i), strict=strict)
    plans = [_Matched(i, o, described["optimizers"][i], models) for i, o in enumerate(optimizers)]
    for plan in plans:
        state.notes += plan.notes
    for i, live in enumerate(lives):
        _add(state, live, source, "model", i)
    for i, plan in enumerate(plans):
        state.packed.append((plan.optimizer, plan.packed(source.optimizer(i, plan.by_name()))))
    return state


def read_module(
    checkpoint: Checkpoint, module: Any, place: tuple[str, int, str], state: State, *, strict: bool
) -> None:
    """Add what `module`, which no optimizer trains, needs to `state`; `place`: role, number among those, name. Raises as `read` does."""
    role, index, name = place
    in_a_file = (checkpoint.path / numbered(role, index)).exists()
    source: Source = Replicated(checkpoint) if in_a_file else _source(checkpoint)
    live = named.state(module, state.note)
    _check_keys(f"{name} ({type(module).__name__})", live, source.shapes(role, index), strict=strict)
    _add(state, live, source, role, index)


def _source(checkpoint: Checkpoint) -> Source:
    return sharded.Sharded(checkpoint.path) if checkpoint.sharded else Replicated(checkpoint)


def _add(state: State, live: Mapping[str, Any], source: Source, role: str, index: int) -> None:
    values = source.tensors(role, index, {name: t for name, t in live.items() if name in source.shapes(role, index)})
    state.copies += [(live[name], like(live[name], value)) for name, value in values.items()]
    converted = [name for name, value in values.items() if value.dtype != live[name].dtype]
    if converted:
        state.notes.append(f"{_some(converted)}: saved with another dtype, converted to the model's")


class Source(Protocol):
    """Where tensors come from: `Replicated` files or a `sharded.Sharded` directory. A module's `role` is "model" or "other"."""

    def shapes(self, role: str, index: int) -> Mapping[str, tuple[int, ...]]:
        """The shape of each tensor of a module, by name."""

    def tensors(self, role: str, index: int, live: Mapping[str, Any]) -> Mapping[str, Any]:
        """The value of each tensor in `live`, by name."""

    def optimizer(self, index: int, parameters: Mapping[str, Any]) -> tuple[dict[Any, Any], list[dict[str, Any]]]:
        """``(state by the saved number or name of the parameter, param_groups)``."""


class Replicated:
    """``model.pt`` and ``optimizer.pt``."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._modules: dict[str, Mapping[str, Any]] = {}

    def _module(self, role: str, index: int) -> Mapping[str, Any]:
        file = numbered(role, index)
        if file not in self._modules:
            self._modules[file] = self._checkpoint.load(file)
        return self._modules[file]

    def shapes(self, role: str, index: int) -> Mapping[str, tuple[int, ...]]:
        return {name: tuple(t.shape) for name, t in self._module(role, index).items()}

    def tensors(self, role: str, index: int, live: Mapping[str, Any]) -> Mapping[str, Any]:
        return {name: self._module(role, index)[name] for name in live}

    def optimizer(self, index: int, parameters: Mapping[str, Any]) -> tuple[dict[Any, Any], list[dict[str, Any]]]:
        saved = self._checkpoint.load(numbered("optimizer", index))
        return saved["state"], saved["param_groups"]


def numbered(name: str, index: int) -> str:
    return f"{name}.pt" if index == 0 else f"{name}-{index}.pt"


def like(live: Any, value: Any) -> Any:
    """`value` as a DTensor where `live` is one, cut as that is; every rank has to do this at the same time."""
    if not hasattr(live, "device_mesh") or hasattr(value, "device_mesh"):
        return value
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(value.to(live.device_mesh.device_type), live.device_mesh, live.placements)


def _check_keys(which: str, live: Mapping[str, Any], saved: Mapping[str, tuple[int, ...]], *, strict: bool) -> None:
    """Raises UsageError where `which` is not what was saved."""
    missing, unexpected = [n for n in live if n not in saved], [n for n in saved if n not in live]
    reshaped = [
        text(
            "{name} is {here} here and {there} there", name=n, here=_shape(tuple(live[n].shape)), there=_shape(saved[n])
        )
        for n in live
        if n in saved and tuple(live[n].shape) != saved[n]
    ]
    wrong = []
    if strict and missing:
        wrong.append(text("the checkpoint lacks {names}", names=_some(missing)))
    if strict and unexpected:
        wrong.append(text("the model lacks {names}", names=_some(unexpected)))
    if reshaped:
        wrong.append(_some(reshaped))
    if not wrong and live and not set(live) & set(saved):
        wrong.append(text("no name is the same"))
    if wrong:
        raise UsageError(
            text(
                "the checkpoint is not of {which}: {wrong}; nothing was loaded",
                which=which,
                wrong=text("; ").join(wrong),
            ),
            text(WITH_ANOTHER_MODEL),
        )


def _some(names: Sequence[str]) -> str:
    shown, more = text(", ").join(names[:SHOWN]), len(names) - SHOWN
    return text("{names} and {more} more", names=shown, more=more) if more > 0 else shown


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or text("a scalar")


def _sizes(groups: Sequence[Sequence[Any]]) -> list[int]:
    return [len(g) for g in groups]


class _Matched:
    """A live optimizer beside a saved one: which saved parameter is which live one."""

    def __init__(self, index: int, optimizer: Any, described: Mapping[str, Any], models: Sequence[Any]) -> None:
        self.optimizer, self.index = optimizer, index
        self.saved: list[list[str]] = described["parameters"]
        self.notes: list[str] = []
        self._check_class(described["class"])
        self.live: list[list[Any]] = [list(g["params"]) for g in optimizer.param_groups]
        if _sizes(self.live) != _sizes(self.saved):
            raise UsageError(
                text(
                    "optimizer {index} has groups of {here} parameters, the checkpoint's of {saved}",
                    index=index,
                    here=_sizes(self.live),
                    saved=_sizes(self.saved),
                ),
                text("build the optimizer as the saved job did"),
            )
        self.order = list(self._order(models))

    def _check_class(self, saved: str) -> None:
        own = type(self.optimizer).__name__
        saved = saved.rpartition(".")[2]
        if saved != own:
            raise UsageError(
                text(
                    "the checkpoint's optimizer {index} is {saved}, not {own}", index=self.index, saved=saved, own=own
                ),
                text("build the optimizer as the saved job did"),
            )

    def _order(self, models: Sequence[Any]) -> Iterator[list[int]]:
        """For each group, the place among the saved parameters of each live one: by name where all are known, else the same place."""
        names: dict[int, str] = {}
        for model in reversed(models):
            names.update({id(p): name for name, p in reversed(list(named_parameters(model)))})
        for live, saved in zip(self.live, self.saved, strict=True):
            own = [names.get(id(p), "") for p in live]
            if len(set(saved)) == len(saved) and set(own) == set(saved):
                yield [saved.index(name) for name in own] if own != saved else list(range(len(own)))
            elif models and all(own) and len(set(own)) == len(own):
                differ = sorted(set(own) - set(saved))
                raise UsageError(
                    text(
                        "a group of optimizer {index} holds {names}, which the checkpoint's does not",
                        index=self.index,
                        names=_some(differ),
                    ),
                    text("build the optimizer as the saved job did"),
                )
            else:
                if models:
                    self.notes.append(
                        f"parameters of optimizer {self.index} were matched by their places, not by their names"
                    )
                yield list(range(len(live)))

    def by_name(self) -> dict[str, Any]:
        """The saved name of each live parameter."""
        return {
            saved[place]: parameter
            for live, saved, order in zip(self.live, self.saved, self.order, strict=True)
            for parameter, place in zip(live, order, strict=True)
        }

    def packed(self, source: tuple[dict[Any, Any], list[dict[str, Any]]]) -> dict[str, Any]:
        """A state_dict for the live optimizer, whose parameters are counted through all groups as torch does."""
        states, groups = source
        packed: dict[str, Any] = {"state": {}, "param_groups": []}
        at = 0
        for live, order, group in zip(self.live, self.order, groups, strict=True):
            keys = [group["params"][place] for place in order]
            for k, (parameter, key) in enumerate(zip(live, keys, strict=True)):
                if key in states:
                    packed["state"][at + k] = self._fitting(parameter, states[key])
            packed["param_groups"].append({**group, "params": list(range(at, at + len(live)))})
            at += len(live)
        return packed

    def _fitting(self, parameter: Any, state: Mapping[str, Any]) -> dict[str, Any]:
        fitted = {}
        for key, value in state.items():
            shape = tuple(getattr(value, "shape", ()))
            if key in OF_A_PARAMETER and value is not None and shape != tuple(parameter.shape):
                raise UsageError(
                    text(
                        "{key} of optimizer {index} is {saved} in the checkpoint, its parameter is {here} here; nothing "
                        "was loaded",
                        key=key,
                        index=self.index,
                        saved=_shape(shape),
                        here=_shape(tuple(parameter.shape)),
                    ),
                    text(WITH_ANOTHER_MODEL),
                )
            fitted[key] = like(parameter, value) if shape and shape == tuple(parameter.shape) else value
        return fitted


__all__ = ["Source", "State", "inner", "like", "numbered", "read", "read_module", "unwrapped"]
