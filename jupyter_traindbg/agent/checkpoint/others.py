"""What a training holds besides model, optimizer, schedule and data: averages of weights, target networks, objects with a ``state_dict()``.

All of it is a part of an exact resume. A module is saved as any other is. An object is saved where `stated.Reader` can tell what its
``state_dict()`` would return; where it cannot, that is said.
"""

from __future__ import annotations

import collections
import hashlib
import sys
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from .. import reachable
from ..attributes import attributes, class_name, is_library
from ..objects import Objects, is_scheduler
from ..saying import Said, Text, said
from . import named
from .plain import Note, plain
from .stated import Reader, Unreadable

SAVED_AS = "traindbg: saved as"
"""The key of what stands in a state for the state of something that the checkpoint has already."""
MOST_VALUES = 50_000
MOST_NAMED = 3
WITHIN, MOST_PARTS = 6, 2000
"""So far below an object its parts are looked for, and so many of them at most."""
CONSTANT = ("torch.nn.modules.loss",)
"""Modules whose tensors are weights that somebody has given to them."""
CONTAINERS = (dict, list, tuple, set, frozenset, collections.deque)
AS_THEY_ARE = (dict, collections.OrderedDict, list, tuple)
FSDP1_WORDS = said("FullyShardedDataParallel (FSDP1) keeps flat parameters, which only its own collectives tell apart")


class Other(NamedTuple):
    """One of them, by the name of the variable that holds it, or of its class."""

    name: str
    thing: Any
    is_module: bool


class Others:
    """All of them, held for as long as a checkpoint takes. Built on a thread that may wait: it reads sources.

    `covered` are what the checkpoint has anyway: ``(role, objects)`` in the order of its files.
    """

    def __init__(self, objects: Objects, covered: Sequence[Tuple[str, Sequence[Any]]]) -> None:
        self._covered = _by_id(covered)
        self._reader = Reader(self._known, _is_tensor)
        self.left_out: List[Said] = []
        """What is not saved, and why, one sentence each."""
        readable, unreadable = self._sorted(self._of_its_own(objects))
        modules = [m for m in objects.untrained() if id(m) not in self._reader.inside and _is_kept(m)]
        unreadable += [(m, FSDP1_WORDS) for m in modules if _has_flat_parameters(m)]
        things = [*(m for m in modules if not _has_flat_parameters(m)), *readable]
        calls = reachable.names({id(thing) for thing in (*things, *(one for one, _ in unreadable))})
        self.saved = [Other(name, thing, _is_module(thing)) for name, thing in _named(things, calls)]
        self._leave(unreadable, calls)

    def give_up(self, why: Text) -> bool:
        """Save none of them; True where there were any."""
        given_up, self.saved = self.saved, []
        self.left_out += [
            said("left out: {what}: {why}", what=_both(other.name, other.thing), why=why) for other in given_up
        ]
        return bool(given_up)

    def state(self, other: Other, note: Note) -> Any:
        """Its tensors and values, nothing copied; None, and a note, where it cannot be told any more. About 20 us a tensor."""
        if other.is_module:
            return named.state(other.thing, note)
        try:
            state = self._reader.state(other.thing)
        except Unreadable as e:
            note(said("left out: {what}: {why}", what=_both(other.name, other.thing), why=e.why))
            return None
        altered = sorted({type(value).__name__ for value in _values(state) if _is_altered(value)})
        if altered:
            what, kinds = _both(other.name, other.thing), ", ".join(altered)
            note(
                said(
                    "{what} holds containers of its own ({kinds}): kept as plain lists or dicts", what=what, kinds=kinds
                )
            )
        return plain(state, other.name, note)

    def digests(self) -> Dict[str, str]:
        """By name a hash of the plain values and the shapes of each object: what ranks must agree on where one of them writes for all."""
        return {other.name: _digest(self.state(other, _ignore)) for other in self.saved if not other.is_module}

    def scheduler_state(self, scheduler: Any) -> Optional[Any]:
        """The state of a scheduler that is not torch's; None where it cannot be told."""
        try:
            return self._reader.state(scheduler)
        except Unreadable:
            return None

    # -- what they are --

    def _known(self, thing: Any) -> Any:
        marked = self._covered.get(id(thing))
        if marked is not None:
            return marked
        if _is_module(thing):
            return named.state(thing, _ignore)
        if type(thing).__module__ == "torch.optim.lr_scheduler" and not hasattr(thing, "_schedulers"):
            return thing.state_dict()
        return Reader.NOT_KNOWN

    def _of_its_own(self, objects: Objects) -> List[Any]:
        """Objects that the checkpoint has in no other way; samplers and datasets are the loaders' affair, whose position it has."""
        loaders = objects.loaders()
        of_loaders = {id(part) for loader in loaders for part in _parts(loader, WITHIN)}
        around = {id(loader) for loader in loaders}
        return [
            one
            for one in objects.stateful()
            if not self._is_covered(one)
            and id(one) not in of_loaders
            and not any(id(part) in around for part in reachable.parts(one))
        ]

    def _is_covered(self, thing: Any) -> bool:
        return id(thing) in self._covered or (
            is_scheduler(thing) and id(attributes(thing).get("optimizer")) in self._covered
        )

    def _sorted(self, things: List[Any]) -> Tuple[List[Any], List[Tuple[Any, Text]]]:
        """Those that have a state of their own, and those whose state cannot be told, with the reason."""
        readable: List[Any] = []
        unreadable: List[Tuple[Any, Text]] = []
        for thing in things:
            try:
                state = self._reader.state(thing)
            except Unreadable as e:
                unreadable.append((thing, e.why))
                continue
            why = _not_saved(state)
            if why:
                unreadable.append((thing, why))
            elif len(state) and not _is_mark(state):
                readable.append(thing)
        return [one for one in readable if id(one) not in self._reader.inside], unreadable

    def _leave(self, unreadable: List[Tuple[Any, Text]], calls: Dict[int, str]) -> None:
        libraries: Dict[str, List[str]] = {}
        own = []
        for thing, why in unreadable:
            module = type(thing).__module__
            if is_library(str(getattr(sys.modules.get(module), "__file__", None) or "")):
                libraries.setdefault(module.partition(".")[0], []).append(class_name(thing))
            else:
                own.append((thing, why))
        for thing, why in _outermost(own):
            self.left_out.append(
                said(
                    "left out: the state of {what}: only its own state_dict() could tell it, which was not run ({why})",
                    what=_called(thing, calls),
                    why=why,
                )
            )
        for package, names in libraries.items():
            kinds = list(dict.fromkeys(names))
            named_ones = ", ".join(kinds[:MOST_NAMED] + ["..."] * (len(kinds) > MOST_NAMED))
            self.left_out.append(
                said(
                    "left out: what {package} keeps for itself ({kinds}), which only its own code could tell: its counts begin anew",
                    package=package,
                    kinds=named_ones,
                )
            )


def _named(things: List[Any], calls: Dict[int, str]) -> Iterator[Tuple[str, Any]]:
    """Each with a name that no other one has, in the order of the names."""
    taken: Dict[str, int] = {}
    for name, thing in sorted(((calls.get(id(t)) or class_name(t), t) for t in things), key=lambda pair: pair[0]):
        taken[name] = taken.get(name, 0) + 1
        yield (name if taken[name] == 1 else f"{name} {taken[name]}"), thing


def _both(name: str, thing: Any) -> str:
    return f"{name} ({class_name(thing)})"


def _called(thing: Any, calls: Dict[int, str]) -> Text:
    name = calls.get(id(thing))
    return _both(name, thing) if name else said("a {kind}", kind=class_name(thing))


def _by_id(covered: Sequence[Tuple[str, Sequence[Any]]]) -> Dict[int, Dict[str, Any]]:
    marks: Dict[int, Dict[str, Any]] = {}
    for role, things in covered:
        for i, thing in enumerate(things):
            mark = {SAVED_AS: role, "index": i}
            marks[id(thing)] = mark
            if _is_module(thing):
                marks[id(named.unwrapped(thing))] = mark
    return marks


def _is_kept(module: Any) -> bool:
    """True where it has tensors that a training may change."""
    return type(module).__module__ not in CONSTANT and bool(named.state(module, _ignore))


def _has_flat_parameters(module: Any) -> bool:
    return any(type(below).__name__ == named.FSDP1 for _, below in named.everything(module))


def _is_mark(state: Any) -> bool:
    return type(state) is dict and SAVED_AS in state


def _not_saved(state: Any) -> Text:
    """Why a state that is known is not saved; empty where it is."""
    if not isinstance(state, (dict, list, tuple)):
        return said("it returns a {kind}", kind=type(state).__name__)
    for i, leaf in enumerate(_leaves(state)):
        if i >= MOST_VALUES:
            return said("it holds more than {count} values", count=f"{MOST_VALUES:,}")
        if hasattr(leaf, "_local_tensor"):
            return said("its tensors are sharded")
    return ""


def _values(state: Any) -> Iterator[Any]:
    """Containers and what is in them, each container once."""
    stack, seen = [state], set()
    while stack:
        value = stack.pop()
        if issubclass(type(value), CONTAINERS):
            if id(value) in seen:
                continue
            seen.add(id(value))
            stack.extend(dict.values(value) if issubclass(type(value), dict) else value)
        yield value


def _leaves(state: Any) -> Iterator[Any]:
    return (value for value in _values(state) if not issubclass(type(value), CONTAINERS))


def _is_altered(value: Any) -> bool:
    """True for what `plain` makes something else of."""
    array = type(value).__module__ == "numpy" and getattr(value, "ndim", None)
    return bool(array) or (issubclass(type(value), CONTAINERS) and type(value) not in AS_THEY_ARE)


def _digest(state: Any) -> str:
    words = (repr(tuple(v.shape)) if _is_tensor(v) else repr(v) for v in _leaves(state))
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


def _outermost(found: List[Tuple[Any, Text]]) -> List[Tuple[Any, Text]]:
    """Without those that are a part of one before: their state is its affair."""
    inner: Set[int] = set()
    kept = []
    for thing, why in found:
        if id(thing) not in inner:
            kept.append((thing, why))
            inner |= {id(part) for part in _parts(thing, WITHIN)}
    return kept


def _parts(root: Any, depth: int) -> List[Any]:
    """`root` and what hangs on it, `depth` steps far, but for modules and tensors."""
    found, edge, seen = [root], [root], {id(root)}
    for _ in range(depth):
        below = []
        for thing in edge if len(found) < MOST_PARTS else ():
            for part in reachable.parts(thing):
                if id(part) not in seen and not issubclass(type(part), reachable.LEAVES) and not _is_module(part):
                    seen.add(id(part))
                    below.append(part)
        found, edge = [*found, *below], below
    return found


def _is_module(thing: Any) -> bool:
    return issubclass(type(thing), sys.modules["torch"].nn.Module)


def _is_tensor(thing: Any) -> bool:
    return issubclass(type(thing), sys.modules["torch"].Tensor)


def _ignore(text: Said) -> None:
    """For those who only look."""


__all__ = ["SAVED_AS", "Other", "Others"]
