"""What a checkpoint holds besides model, optimizer and schedule: matched with what the program has built, and loaded into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..agent.checkpoint import named
from ..agent.checkpoint.others import SAVED_AS
from ..agent.checkpoint.stated import Reader, Unreadable
from ..errors import UsageError
from ..language import text
from . import weights
from .saved import Checkpoint

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class Pair:
    """One object of the program's, and the place among the saved ones of what it gets."""

    given: Any
    index: int
    entry: Entry

    @property
    def name(self) -> str:
        return str(self.entry["name"])


def match(given: Any, entries: Sequence[Entry]) -> list[Pair]:
    """Which saved one each of `given` is: by its name in a mapping, else by its class. Raises UsageError where that is not one of them."""
    if isinstance(given, Mapping) and not hasattr(given, "load_state_dict"):
        return [Pair(one, *_named(str(name), one, entries)) for name, one in given.items()]
    several = list(given) if isinstance(given, (list, tuple)) else [] if given is None else [given]
    pairs = [Pair(one, *_of_class(one, entries)) for one in several]
    twice = [pair for i, pair in enumerate(pairs) if any(pair.index == other.index for other in pairs[:i])]
    if twice:
        raise UsageError(
            text(
                "several {kind} were given and the checkpoint has one: {name}",
                kind=_class_of(twice[0].entry),
                name=twice[0].name,
            ),
            text("give that one alone: `others={{{name!r}: ...}}`", name=twice[0].name),
        )
    return pairs


def not_given(pairs: Sequence[Pair], entries: Sequence[Entry]) -> Iterator[str]:
    """What is to be said of those that were saved and nothing was given for."""
    for i, entry in enumerate(entries):
        if not any(pair.index == i for pair in pairs):
            yield f"{_words(entry)} was saved and not given: it is as your script built it (`others={{{entry['name']!r}: ...}}`)"


def read(
    checkpoint: Checkpoint, pairs: Sequence[Pair], state: weights.State, *, strict: bool
) -> list[tuple[Pair, Any]]:
    """Add what the modules among `pairs` need to `state`, compared with them; the others, each with its state."""
    modules = [pair for pair in pairs if pair.entry["module"]]
    for pair in modules:
        weights.read_module(
            checkpoint, weights.unwrapped(pair.given), ("other", pair.index, pair.name), state, strict=strict
        )
    return [(pair, checkpoint.load(str(pair.entry["file"]))) for pair in pairs if not pair.entry["module"]]


def load(stated: Sequence[tuple[Pair, Any]], restored: Mapping[str, Sequence[Any]]) -> None:
    """Hand each its state. `restored`: by role what has been restored already, whose states some have in their own."""
    for pair, state in stated:
        whole = _put_in(state, partial(_state_of, restored, pair.name))
        try:
            pair.given.load_state_dict(_placed(whole, _present(pair.given)))
        except Exception as e:
            raise UsageError(
                text(
                    "load_state_dict() of {name} raised {kind}: {why}; everything before it was loaded",
                    name=_words(pair.entry),
                    kind=type(e).__name__,
                    why=e,
                ),
                text("build it as the saved job did"),
            ) from e


def check(stated: Sequence[tuple[Pair, Any]], restored: Mapping[str, Sequence[Any]]) -> None:
    """Raises UsageError where a state has that of something in it that is not given."""
    for pair, state in stated:
        _put_in(state, partial(_object_of, restored, pair.name))


# --- which is which ------------------------------------------------------------------------------------------------


def _named(name: str, given: Any, entries: Sequence[Entry]) -> tuple[int, Entry]:
    for i, entry in enumerate(entries):
        if entry["name"] == name:
            if _class_of(entry) != named.class_of(given).__name__:
                raise UsageError(
                    text(
                        "the checkpoint's {name} is a {saved}, not a {given}",
                        name=name,
                        saved=_class_of(entry),
                        given=type(given).__name__,
                    ),
                    text("build it as the saved job did"),
                )
            return i, entry
    raise UsageError(text("the checkpoint has no {name!r} besides its model and optimizer", name=name), _there(entries))


def _of_class(given: Any, entries: Sequence[Entry]) -> tuple[int, Entry]:
    cls = named.class_of(given).__name__
    fitting = [(i, entry) for i, entry in enumerate(entries) if _class_of(entry) == cls]
    if not fitting:
        raise UsageError(
            text("the checkpoint has no {kind} besides its model and optimizer", kind=cls), _there(entries)
        )
    if len(fitting) > 1:
        names = ", ".join(str(entry["name"]) for _, entry in fitting)
        raise UsageError(
            text("the checkpoint has {count} of class {kind}: {names}", count=len(fitting), kind=cls, names=names),
            text("give them by name: `{example}`", example="others={'NAME': ...}"),
        )
    return fitting[0]


def _there(entries: Sequence[Entry]) -> str:
    names = text(", ").join(map(_words, entries))
    return (
        text("these were saved: {names}", names=names) if names else text("nothing else was saved: leave `others` out")
    )


def _class_of(entry: Entry) -> str:
    return str(entry["class"]).rpartition(".")[2]


def _words(entry: Entry) -> str:
    return f"{entry['name']} ({_class_of(entry)})"


# --- states --------------------------------------------------------------------------------------------------------


def _put_in(state: Any, of_mark: Callable[[Mapping[str, Any]], Any]) -> Any:
    """`state` with something in the place of each mark."""
    if isinstance(state, dict):
        return of_mark(state) if SAVED_AS in state else {key: _put_in(value, of_mark) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(_put_in(value, of_mark) for value in state)
    return state


def _object_of(restored: Mapping[str, Sequence[Any]], name: str, mark: Mapping[str, Any]) -> Any:
    role, index = str(mark[SAVED_AS]), int(mark["index"])
    if index >= len(restored.get(role, ())):
        raise UsageError(
            text("the state of {name} has the {role}'s in it", name=name, role=role),
            text("give {role}=, too", role=role),
        )
    return restored[role][index]


def _state_of(restored: Mapping[str, Sequence[Any]], name: str, mark: Mapping[str, Any]) -> Any:
    return _object_of(restored, name, mark).state_dict()


def _present(given: Any) -> Any:
    """The state that `given` has now, as far as it can be read."""
    import torch

    try:
        return Reader(lambda thing: Reader.NOT_KNOWN, lambda value: isinstance(value, torch.Tensor)).state(given)
    except Unreadable:
        return None


def _placed(state: Any, present: Any) -> Any:
    """`state` with each tensor on the device where the one of the same place is now."""
    if isinstance(state, dict):
        now = present if isinstance(present, dict) else {}
        return {key: _placed(value, now.get(key)) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        parts = list(present) if isinstance(present, (list, tuple)) else []
        return type(state)(_placed(v, parts[i] if i < len(parts) else None) for i, v in enumerate(state))
    device = getattr(present, "device", None)
    return state.to(device) if device is not None and hasattr(state, "device") else state
