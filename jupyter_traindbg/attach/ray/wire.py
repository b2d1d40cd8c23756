"""What travels between this process, the broker and the helpers: pickles behind their length, read with little trust."""

from __future__ import annotations

import dataclasses
import importlib
import io
import math
import os
import pickle
import select
import struct
import time
from typing import Any

from ...errors import ProbeFailed, TraindbgError
from ...model import Phrase

__all__ = ["dumps", "function", "loads", "receive", "send", "serve"]

_LENGTH = struct.Struct("<Q")
_PACKAGE = __name__.split(".", maxsplit=1)[0]
_PLAIN = {("builtins", name) for name in ("bytearray", "complex", "frozenset", "range", "set", "slice")} | {
    ("collections", "OrderedDict"),
    ("collections", "deque"),
}


def dumps(value: Any) -> bytes:
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)


def loads(data: bytes) -> Any:
    """The value, of plain types and of this package's own dataclasses, phrases and errors; nothing else is made.

    Raises `pickle.UnpicklingError`.
    """
    return _Careful(io.BytesIO(data)).load()


class _Careful(pickle.Unpickler):
    """What comes back from a cluster was made by processes that others may have got into: it can name data of ours, and no functions."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _PLAIN:
            return super().find_class(module, name)
        if module.split(".", maxsplit=1)[0] == _PACKAGE and "." not in name:
            found = super().find_class(module, name)
            if isinstance(found, type) and (
                dataclasses.is_dataclass(found) or issubclass(found, (Phrase, TraindbgError))
            ):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} has no place in an answer")


def function(name: str) -> Any:
    """The function of this package that ``"module:function"`` names. Raises ValueError for any other."""
    module, _, attribute = name.partition(":")
    if module.split(".")[0] != _PACKAGE or not attribute.isidentifier():
        raise ValueError(f"{name!r} names no function of {_PACKAGE}")
    return getattr(importlib.import_module(module), attribute)


def serve(request: bytes) -> bytes:
    """Run a request, ``(function, args, kwargs)``: ``(True, value)`` or ``(False, error)``, the error always a `TraindbgError`."""
    name = "the request"
    try:
        name, args, kwargs = loads(request)
        return dumps((True, function(name)(*args, **kwargs)))
    except TraindbgError as e:
        return dumps((False, e))
    except BaseException as e:  # noqa: BLE001
        return dumps((False, ProbeFailed(f"{name} failed: {type(e).__name__}: {e}")))


def send(fd: int, data: bytes, ends: float = math.inf) -> None:
    """Write all of it to a pipe. Raises OSError where the other side is gone, `TimeoutError` where it has not taken it by `ends`."""
    rest = memoryview(_LENGTH.pack(len(data)) + data)
    room = select.poll()  # no select: a notebook may have more than 1024 files open
    room.register(fd, select.POLLOUT)
    while rest:
        left_ms = None if ends == math.inf else max(0, int(1000 * (ends - time.monotonic())))
        if not room.poll(left_ms):
            raise TimeoutError(f"{len(rest)} bytes were not taken in time")
        rest = rest[os.write(fd, rest[: select.PIPE_BUF]) :]  # for so many a pipe that is ready has room


def receive(fd: int) -> bytes:
    """The next piece. Raises EOFError where the other side is gone."""
    (length,) = _LENGTH.unpack(_exactly(fd, _LENGTH.size))
    return _exactly(fd, length)


def _exactly(fd: int, length: int) -> bytes:
    pieces = []
    while length:
        piece = os.read(fd, min(length, 1 << 20))
        if not piece:
            raise EOFError
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)
