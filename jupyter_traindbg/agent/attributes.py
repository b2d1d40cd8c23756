"""What an object holds, read past its class: no property, ``__getattr__`` or ``__eq__`` of the user's runs."""

from __future__ import annotations

import re
import sys
import types
from typing import Any, Dict, Optional, Tuple

from .notebook import cells

_mro: Any = type.__dict__["__mro__"].__get__
_namespace: Any = type.__dict__["__dict__"].__get__
"""As `inspect.getattr_static` does it: a metaclass may have put its own in the way of ``cls.__mro__``."""

MISSING = object()
OUR_THREADS = ("traindbg-agent", "traindbg-client")
LIBRARIES = ("/site-packages/", "/dist-packages/")
_COMPILED = re.compile(r"/([a-z2-7]{2})/c\1[a-z2-7]{49}\.py$")
"""What TorchInductor writes into its cache: 51 letters of a SHA-256 in base 32, in a folder by the first two."""
_STANDARD = types.__file__.rpartition("types.py")[0]


def attributes(value: Any) -> Dict[str, Any]:
    """The ``__dict__`` of an instance; empty where it has none, or where its class makes one up."""
    for cls in _mro(type(value)):
        found = _namespace(cls).get("__dict__")
        if found is not None:
            if type(found) not in (types.GetSetDescriptorType, types.MemberDescriptorType):
                return {}
            own = found.__get__(value)
            return own if isinstance(own, dict) else {}
    return {}


def attribute(value: Any, name: str) -> Any:
    """What ``value.name`` stands for as a plain attribute, or one of ``__slots__``, or of a module; `MISSING` where it is anything else."""
    if type(value) is types.ModuleType:
        return dict.get(value.__dict__, name, MISSING)
    own = dict.get(attributes(value), name, MISSING)
    if own is not MISSING:
        return own
    for cls in _mro(value if isinstance(value, type) else type(value)):
        found = _namespace(cls).get(name, MISSING)
        if type(found) is types.MemberDescriptorType and not isinstance(value, type):
            try:
                return found.__get__(value)
            except AttributeError:
                return MISSING  # a slot that nothing has been put into
        if found is not MISSING:
            is_code = hasattr(type(found), "__get__")
            return MISSING if is_code else found
    return MISSING


def defined(cls: type, name: str, after: Optional[type] = None) -> Tuple[Any, type]:
    """What `cls` has under `name`, as it was written, and the class where that is; `MISSING` and object where it has nothing.

    With `after` what comes behind that class in the order of resolution, as ``super()`` looks it up.
    """
    order = _mro(cls)
    for home in order[order.index(after) + 1 :] if after is not None else order:
        found = _namespace(home).get(name, MISSING)
        if found is not MISSING:
            return found, home
    return MISSING, object


def classes(value: Any) -> Tuple[type, ...]:
    """Its class and the bases of that, without the metaclass having a say."""
    found: Tuple[type, ...] = _mro(type(value))
    return found


def class_name(value: Any) -> str:
    """The name of its class, without the metaclass having a say."""
    name: str = type.__dict__["__qualname__"].__get__(type(value))
    return name


def full_name(cls: type) -> str:
    """``"module.Class"``, of what is built in without a module; its metaclass has no say."""
    home, name = (type.__dict__[what].__get__(cls) for what in ("__module__", "__qualname__"))
    return f"{home}.{name}" if isinstance(home, str) and home != "builtins" else str(name)


def is_library(file: str) -> bool:
    """True for code that came with Python or was installed, or that torch.compile has written."""
    known = file.startswith((_STANDARD, "<frozen ")) or any(part in file for part in LIBRARIES)
    return known or _COMPILED.search(file) is not None


def place(frame: types.FrameType) -> str:
    """``"file:line function"``, ``"In [4], line 11 function"``."""
    code = frame.f_code
    name = getattr(code, "co_qualname", None) or code.co_name
    line, cell = frame.f_lineno or code.co_firstlineno, cells().get(code.co_filename)
    return f"{code.co_filename}:{line} {name}" if cell is None else f"In [{cell}], line {line} {name}"


def users_place(frame: Optional[types.FrameType]) -> Optional[str]:
    """The place of the innermost frame that is the user's own; None where all are a library's."""
    while frame is not None:
        if not is_library(frame.f_code.co_filename):
            return place(frame)
        frame = frame.f_back
    return None


def threads() -> Dict[int, Tuple[str, Optional[int]]]:
    """``ident -> (name, tid)`` of the threads that threading knows, without taking its lock: somebody may hang with it held."""
    known = dict(getattr(sys.modules["threading"], "_active", {}))
    return {ident: (str(t._name), getattr(t, "_native_id", None)) for ident, t in known.items()}


__all__ = [
    "MISSING",
    "OUR_THREADS",
    "attribute",
    "attributes",
    "class_name",
    "classes",
    "defined",
    "is_library",
    "place",
    "threads",
    "users_place",
]
