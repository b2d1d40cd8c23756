"""What to do about each kind of holder, and why it holds what it does."""

from __future__ import annotations

from collections.abc import Callable

from ...language import text
from ...model import Holder, HolderKind

__all__ = ["ADVICE"]


_Advice = tuple[str, list[str]]
"""The cause, and the next steps."""


def _of_graphs(holder: Holder) -> _Advice:
    cause = text(
        "A tensor that was computed keeps the whole graph that it was computed by, and what backward would need of it."
    )
    name = holder.name
    return cause, [
        text("Keep numbers: append loss.item() to `{name}`, or loss.detach() where a tensor is needed.", name=name),
        text("Where the model is only evaluated: with torch.no_grad()."),
    ]


def _of_graph(holder: Holder) -> _Advice:
    cause = text("It is computed from its own last value, so its graph has all the steps in it.")
    name = holder.name
    return cause, [
        text("Add numbers: `{name} += loss.item()`, or loss.detach() where a tensor is needed.", name=name),
        text("A state that is carried from step to step is cut off by `{name} = {name}.detach()`.", name=name),
    ]


def _of_container(holder: Holder) -> _Advice:
    cause = text("Something is added to this {type} at each step, and nothing is taken out.", type=holder.type)
    if holder.may_end:
        cause = text("Something is added to this {type} at each step.", type=holder.type)
    steps = [text("Bound it: collections.deque(maxlen=...), or clear it when it has been read.")]
    if holder.type in ("dict", "OrderedDict", "defaultdict"):
        steps = [
            text("Look at its keys: a number of a step in them makes each entry a new one. Bound it, or leave it out.")
        ]
    if holder.of in ("Tensor", "Parameter", "ndarray") and not holder.device.startswith("cpu"):
        steps.append(text("What is only kept to be looked at belongs on the host, as numbers."))
    if holder.scope == "class":
        steps.append(
            text(
                "It belongs to the class, not to its objects: make it in __init__ as self.{name}.",
                name=holder.name.rpartition(".")[2],
            )
        )
    if holder.scope == "function":
        steps.append(text("A default, or a variable that a function closes over, lives as long as the function does."))
    return cause, steps


def _of_cache(holder: Holder) -> _Advice:
    cause = text(
        "A cache without a bound keeps what it returned for each set of arguments, and of a method its object, too."
    )
    return cause, [
        text(
            "Give it a bound (functools.lru_cache(maxsize=...)), or take what changes at each step out of its arguments."
        ),
    ]


def _of_hooks(holder: Holder) -> _Advice:
    cause = text(
        "A hook is registered at each step and never removed: each is called at every step, too, which gets slower."
    )
    return cause, [
        text("Register it once, before the loop; or keep what registering returns, and call its remove()."),
    ]


def _of_tracebacks(holder: Holder) -> _Advice:
    cause = text(
        "An exception has its traceback, that has the frames, and these all their variables: tensors among them."
    )
    return cause, [text("Keep the text (repr(e), traceback.format_exc()), or drop the frames: e.with_traceback(None).")]


def _of_optimizers(holder: Holder) -> _Advice:
    cause = text("Each optimizer has a state as large as the parameters, or twice that.")
    return cause, [text("Make the optimizer once, or drop the last one before the next: its state goes with it.")]


def _of_chain(holder: Holder) -> _Advice:
    cause = text("Each object has the one before it, so that none is ever freed.")
    return cause, [
        text(
            "Keep of the last one what is needed, not the object: cut `{name}` when it has been used.", name=holder.name
        )
    ]


def _of_objects(holder: Holder) -> _Advice:
    cause = text("There are more of these at each step, and this is the way by which one of them is kept.")
    return cause, [text("Drop `{name}` when it has been used, or what it has.", name=holder.name)]


def _of_cycle(holder: Holder) -> _Advice:
    cause = text(
        "These objects refer to each other in a cycle, which only Python's garbage collector frees, and it is switched off."
    )
    return cause, [
        text("Switch it on again (gc.enable()), or call gc.collect() now and then, say at the end of an epoch."),
        text("Or make no cycles: a weakref.ref for the way back."),
    ]


ADVICE: dict[HolderKind, Callable[[Holder], _Advice]] = {
    "graphs": _of_graphs,
    "graph": _of_graph,
    "container": _of_container,
    "cache": _of_cache,
    "hooks": _of_hooks,
    "tracebacks": _of_tracebacks,
    "optimizers": _of_optimizers,
    "chain": _of_chain,
    "objects": _of_objects,
    "cycle": _of_cycle,
}
