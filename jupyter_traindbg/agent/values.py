"""What a variable has in it, in plain data that can be sent: small values whole, of anything else what it is. No code of the user's
runs, no tensor is read, and nothing is kept.

A value is None, a bool, an int, a float or a short text as itself; everything else is a dict with ``is`` (a ``ValueKind``, as the reading
side calls it), ``type`` (the name of its class) and what its kind has besides.
"""

from __future__ import annotations

import _thread
import argparse
import collections
import datetime
import enum
import io
import math
import pathlib
import sys
import types
from typing import Any, Dict, List, Optional, Tuple

from . import awaiting
from .attributes import MISSING, attribute, attributes, class_name, classes, defined, is_library
from .lock_kinds import kind

LONGEST = 120
MOST_ITEMS = 16
MOST_ATTRIBUTES = 48
MOST_VALUES = 400
DEPTH = 2
"""So many steps from a variable to the attributes that are told."""
SEQUENCES = (list, tuple, set, frozenset, collections.deque)
DICTS = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter)
SPACES = (argparse.Namespace, types.SimpleNamespace)
FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_BUFFERED = (io.BufferedReader, io.BufferedWriter, io.BufferedRandom)
PATHS = (pathlib.PosixPath, pathlib.PurePosixPath)
LARGEST_INT = 2**63
PLAIN = (int, float, bool, str, type(None))
_C10D = "torch._C._distributed_c10d"
_full_name: Any = type.__dict__["__module__"].__get__


class Teller:
    """Tells a bounded number of values: of what comes too late it says only that it is there."""

    def __init__(self, most: int = MOST_VALUES) -> None:
        self._left = most

    def told(self, value: Any, depth: int = DEPTH) -> Any:
        """`value` as plain data; see above. Some us, and as much again for each thing in it."""
        self._left -= 1
        cls = type(value)
        if value is None or cls is bool:
            return value
        if cls is int:
            return value if abs(value) < LARGEST_INT else _other(value, "a large number")
        if cls is float:
            return value if math.isfinite(value) else _other(value, float.__repr__(value))
        if cls is str:
            return value if len(value) <= LONGEST else {**_text(value, value), "size": len(value)}
        if cls in SEQUENCES or cls in DICTS:
            return self._collection(value, depth if self._left > 0 else 0)
        return _known(value) or self._object(value, depth if self._left > 0 else 0)

    def _collection(self, value: Any, depth: int) -> Dict[str, Any]:
        cls = type(value)
        about: Dict[str, Any] = {"type": cls.__name__, "size": cls.__len__(value)}
        if cls in DICTS:
            pairs = [pair for pair in _first(dict.items(value)) if _is_key(pair[0])] if depth > 0 else []
            return {"is": "pairs", **about, "of": [(key, self.told(held, depth - 1)) for key, held in pairs]}
        items = _first(cls.__iter__(value)) if depth > 0 else []
        return {"is": "items", **about, "of": [self.told(held, depth - 1) for held in items]}

    def _object(self, value: Any, depth: int) -> Dict[str, Any]:
        """With its attributes, where its class is the program's own, or is there to hold settings. ``file``: where that class is."""
        cls = type(value)
        file = _file_of(cls)
        settings = cls in SPACES or defined(cls, "__dataclass_fields__")[0] is not MISSING
        if depth <= 0 or not (settings or (file is not None and not is_library(file))):
            return _other(value, class_name(value))
        fields = [(name, self.told(held, depth - 1)) for name, held in _fields(value)]
        return {"is": "object", "type": class_name(value), "file": file, "of": fields}


def _first(values: Any) -> List[Any]:
    """The first few of what its thread may be changing."""
    found: List[Any] = []
    try:
        for held in values:
            found.append(held)
            if len(found) == MOST_ITEMS:
                break
    except RuntimeError:  # it has been changed meanwhile
        return found
    return found


def _is_key(value: Any) -> bool:
    """Whether it can be told as a key: a small value, or a few in a tuple."""
    if type(value) is tuple:
        return len(value) <= MOST_ITEMS and all(type(one) in (str, int, bool) for one in value)
    return type(value) in (str, int, bool)


def _known(value: Any) -> Optional[Dict[str, Any]]:
    """What a value is whose class says so; None of any other."""
    cls = type(value)
    about = {"type": class_name(value)}
    if cls in FUNCTIONS:
        inner = value.__func__ if cls is types.MethodType else value
        return {
            "is": "function",
            **about,
            "words": inner.__qualname__ if type(inner) in FUNCTIONS else class_name(inner),
        }
    if type in classes(value):
        return {"is": "function", **about, "words": type.__dict__["__qualname__"].__get__(value)}
    if cls is types.ModuleType:
        return {"is": "module", **about, "words": str(value.__dict__.get("__name__", ""))}
    if cls in PATHS:
        return _text(value, str(value))
    if cls in (datetime.timedelta, datetime.datetime, datetime.date, range):
        return _other(value, str(value))
    return _of_torch(value, about) or _to_wait_for(value, about) or _file(value, about) or _of_an_enum(value, about)


def _file(value: Any, about: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """An open file by its name. Only what Python itself has made is asked for what is below it."""
    if type(value) not in (io.TextIOWrapper, *_BUFFERED):
        return None
    raw = value.buffer if type(value) is io.TextIOWrapper else value
    raw = raw.raw if type(raw) in _BUFFERED else raw
    name = attributes(raw).get("name") if type(raw) is io.FileIO else None
    return _text(value, name) if type(name) is str else _other(value, about["type"])


def _of_an_enum(value: Any, about: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    if not any(cls is enum.Enum for cls in classes(value)):
        return None
    return _other(value, f"{about['type']}.{attributes(value).get('_name_', '?')}")


# --- torch ---------------------------------------------------------------------------------------------------------


def _of_torch(value: Any, about: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    bound = sys.modules.get(_C10D)
    if bound is None:
        return None
    bases = classes(value)
    work, store = (vars(bound).get(name) for name in ("Work", "Store"))
    if type(value) is work:
        return {"is": "work", **about, "id": id(value), "op": _operation(bound, value)}
    if any(cls is store for cls in bases):
        return {"is": "store", **about}
    if about["type"] == "P2POp" and _full_name(type(value)) == "torch.distributed.distributed_c10d":
        own = attributes(value)
        op, peer, tag = own.get("op"), own.get("peer"), own.get("tag")
        return {
            "is": "exchange",
            **about,
            "op": op.__name__ if type(op) is types.FunctionType else "",
            "peer": peer if type(peer) is int else None,
            "tag": tag if type(tag) is int else None,
        }
    tensor = vars(sys.modules["torch"]).get("Tensor") if "torch" in sys.modules else None
    if any(cls is tensor for cls in bases):
        return _other(value, about["type"])
    return None


def _operation(bound: Any, work: Any) -> str:
    """A field of it: ``SEND``. Empty where this torch does not tell, or has no name for it."""
    tell, names = getattr(type(work), "_get_op_type", None), getattr(bound, "OpType", None)
    if tell is None or names is None:
        return ""
    number = tell(work)
    return next((name for name, member in names.__members__.items() if int(member) == number), "")


# --- what can be waited for ----------------------------------------------------------------------------------------


def _to_wait_for(value: Any, about: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    what = kind(value)
    if what == "Queue":
        inner, most = attribute(value, "queue"), attribute(value, "maxsize")
        size = len(inner) if type(inner) is collections.deque else None
        return {"is": "queue", **about, "size": size, "most": most if type(most) is int and most > 0 else None}
    if what == "Event":
        is_set = attribute(value, "_flag")
        return {"is": "event", **about, "set": is_set if type(is_set) is bool else None}
    if what == "Future":
        state = attribute(value, "_state")
        return _other(value, f"{about['type']}, {state.lower()}" if type(state) is str else about["type"])
    if type(value) is _thread.LockType:
        return _other(value, "Lock, held" if _thread.LockType.locked(value) else "Lock, free")
    if "asyncio" in sys.modules and any(_full_name(cls) == "_asyncio" for cls in classes(value)):
        return _other(value, f"{about['type']}, {str(awaiting.field(value, '_state')).lower()}")
    return None


# --- anything else -------------------------------------------------------------------------------------------------


def _fields(value: Any) -> List[Tuple[str, Any]]:
    """The attributes; of a module of torch without what every module has."""
    torch_nn = sys.modules.get("torch.nn.modules.module")
    module: Any = getattr(torch_nn, "Module", None)
    is_module = module is not None and any(cls is module for cls in classes(value))
    fields = [
        (name, held)
        for name, held in list(attributes(value).items())
        if type(name) is str and not (is_module and name.startswith("_"))
    ]
    return fields[:MOST_ATTRIBUTES]


def _file_of(cls: type) -> Optional[str]:
    module = sys.modules.get(str(_full_name(cls)))
    file = getattr(module, "__dict__", {}).get("__file__")
    return file if type(file) is str else None


def _text(value: Any, words: str) -> Dict[str, Any]:
    return {"is": "text", "type": class_name(value), "words": words[:LONGEST]}


def _other(value: Any, words: str) -> Dict[str, Any]:
    return {"is": "other", "type": class_name(value), "words": words[:LONGEST]}


__all__ = ["PLAIN", "Teller"]
