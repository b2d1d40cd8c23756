"""What can be done with Python's own containers without running code of what is in them (``__eq__``, ``__hash__``, ``__repr__``).

Each function does what the language does, or raises `Unreadable`.
"""

from __future__ import annotations

import collections
import copy
from typing import Any, Dict, List, Sequence, Tuple

from ..saying import Text, said

PLAIN = (int, float, bool, str, bytes, type(None))
DICTS = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter)
LISTS = (list, tuple, set, frozenset, collections.deque)
VIEWS: Tuple[type, ...] = (type({}.items()), type({}.keys()), type({}.values()), enumerate, zip, range)
VIEWS += tuple(type(getattr(collections.OrderedDict(), name)()) for name in ("items", "keys", "values"))
READS: Dict[type, Tuple[str, ...]] = {
    **dict.fromkeys(DICTS, ("items", "keys", "values", "get", "copy")),
    list: ("copy",),
    str: ("startswith", "endswith"),
}
WRITES: Dict[type, Tuple[str, ...]] = {
    dict: ("update", "pop", "setdefault"),
    collections.OrderedDict: ("update", "pop"),
    list: ("append", "extend"),
}
COPIES = (copy.copy, copy.deepcopy)
SCALARS = (int, float, bool, str)
MAPPINGS = (dict, collections.OrderedDict)
SEQUENCES = (list, tuple, enumerate, zip, range)


class Unreadable(Exception):
    """``why`` says what is in the way."""

    def __init__(self, why: Text) -> None:
        super().__init__(str(why))
        self.why = why


def known(value: Any) -> bool:
    """True for a function, type or module whose meaning is known here."""
    meant = (*COPIES, *SCALARS, *MAPPINGS, *SEQUENCES, set, len, copy, collections)
    return type(value) in PLAIN or any(value is one for one in meant)


def of(value: Any, kinds: Sequence[type]) -> Any:
    """`value`, which is of exactly one of `kinds`."""
    if type(value) not in kinds:
        raise Unreadable(said("it looks into a {kind}", kind=type(value).__name__))
    return value


def key(value: Any) -> Any:
    """`value`, whose hash and comparison are Python's own."""
    if type(value) is tuple:
        return tuple(key(part) for part in value)
    if type(value) not in PLAIN:
        raise Unreadable(said("a {kind} is a key", kind=type(value).__name__))
    return value


def item(container: Any, at: Any) -> Any:
    """``container[at]``, which must be there: some dicts make what is not."""
    of(container, (*DICTS, list, tuple, str))
    if type(container) in DICTS and key(at) not in container:
        raise Unreadable(said("it has no {key}", key=repr(at)))
    return container[key(at)]


def items(value: Any) -> List[Any]:
    """What a loop over `value` gives."""
    return list(of(value, (*DICTS, *LISTS, *VIEWS)))


def truth(value: Any) -> bool:
    return bool(of(value, (*PLAIN, *DICTS, *LISTS)))


def contains(container: Any, value: Any) -> bool:
    if type(container) is str:
        return of(value, (str,)) in container
    return key(value) in [key(one) for one in items(container)]


def called(owner: Any, name: str, given: List[Any], *, ours: bool) -> Any:
    """``owner.name(*given)``; a method that changes `owner` only where it is `ours`."""
    kind = type(owner)
    if name not in READS.get(kind, ()) and not (ours and name in WRITES.get(kind, ())):
        raise Unreadable(said("{name}() of a {kind} is not understood", name=name, kind=kind.__name__))
    if name in ("get", "pop", "setdefault"):
        given = [key(given[0]), *given[1:]]
    elif name == "update":
        given = [mapping(one) for one in given]
    elif name == "extend":
        given = [items(one) for one in given]
    return getattr(owner, name)(*given)


def mapping(value: Any) -> Dict[Any, Any]:
    """A dict of a dict, or of pairs."""
    pairs = list(value.items()) if type(value) in DICTS else [of(pair, (tuple, list)) for pair in items(value)]
    return {key(name): part for name, part in pairs}


def converted(function: Any, given: List[Any], named: Dict[Any, Any]) -> Any:
    """``function(*given, **named)``, for those that are `known`."""
    if any(function is one for one in COPIES):
        return given[0]
    if any(function is one for one in MAPPINGS):
        return function(*[mapping(one) for one in given], **named)
    if function is set:
        return {key(one) for value in given for one in items(value)}
    kinds: Sequence[type] = PLAIN if any(function is one for one in SCALARS) else (*PLAIN, *DICTS, *LISTS, *VIEWS)
    if not (function is len or any(function is one for one in (*SCALARS, *SEQUENCES))):
        raise Unreadable(said("{name} is not understood", name=f"{getattr(function, '__name__', function)}()"))
    return function(*[of(value, kinds) for value in given], **{name: of(value, kinds) for name, value in named.items()})


__all__ = [
    "DICTS",
    "LISTS",
    "PLAIN",
    "Unreadable",
    "called",
    "contains",
    "converted",
    "item",
    "items",
    "key",
    "known",
    "mapping",
    "of",
    "truth",
]
