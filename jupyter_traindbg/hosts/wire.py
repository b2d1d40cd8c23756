"""What travels between this process, brokers and helpers: pickles behind their length, read with little trust."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import logging
import math
import os
import pickle
import select
import threading
import time
from typing import Any

from ..errors import ProbeFailed, TraindbgError
from ..language import language, speaking, text
from ..model import Phrase
from ..verbose import telling
from .helper import LENGTH, receive

__all__ = ["answered", "dumps", "function", "loads", "receive", "request", "send", "serve", "serve_all"]

log = logging.getLogger(__name__)

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


def request(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """To run the function ``"module:function"`` there, in our language; what it does on its way is told here, where somebody listens."""
    return dumps((name, args, kwargs, log.isEnabledFor(logging.DEBUG), language()))


def serve(asked: bytes) -> bytes:
    """Run a request: ``(True, value, told)`` or ``(False, error, told)``, the error always a `TraindbgError`."""
    name, spoken = "the request", "en"
    told: list[str] = []
    try:
        name, args, kwargs, verbose, spoken = loads(asked)
        with speaking(spoken), telling(told.append) if verbose else contextlib.nullcontext():
            value = function(name)(*args, **kwargs)
        return dumps((True, value, told))
    except TraindbgError as e:
        return dumps((False, e, told))
    except BaseException as e:  # noqa: BLE001
        with speaking(spoken):
            error = ProbeFailed(text("{name} failed: {kind}: {why}", name=name, kind=type(e).__name__, why=e))
        return dumps((False, error, told))


def serve_all(requests: int, answers: int, idle_s: float | None = None) -> None:
    """Run what comes through one pipe, each request on a thread of its own, and answer by its number through the other.

    Returns when the other side has hung up, or has said nothing for `idle_s` seconds; an empty piece is a word, too.
    """
    one_at_a_time = threading.Lock()

    def run(number: int, asked: bytes) -> None:
        answer = dumps((number, serve(asked)))
        with one_at_a_time, contextlib.suppress(OSError):  # they have hung up
            send(answers, answer)

    try:
        while said_within(requests, idle_s):
            piece = receive(requests)
            if piece:
                threading.Thread(target=run, args=loads(piece), daemon=True).start()
    except EOFError:
        return


def said_within(fd: int, idle_s: float | None) -> bool:
    """Whether anything is to be read from `fd`, be it its end; waits for that, at most `idle_s`."""
    room = select.poll()
    room.register(fd, select.POLLIN)
    return bool(room.poll(None if idle_s is None else int(1000 * idle_s)))


def answered(reply: bytes, by: str) -> Any:
    """The value that `serve` came to. Raises its error, and `ProbeFailed` for a reply that cannot be read."""
    try:
        good, value, told = loads(reply)
    except Exception as e:
        raise ProbeFailed(
            text("the answer of {by} could not be read: {kind}: {why}", by=by, kind=type(e).__name__, why=e)
        ) from e
    for line in told:
        log.debug("%s: %s", by, line)
    if good:
        return value
    raise value


def send(fd: int, data: bytes, ends: float = math.inf) -> None:
    """Write all of it to a pipe. Raises OSError where the other side is gone, `TimeoutError` where it has not taken it by `ends`."""
    rest = memoryview(LENGTH.pack(len(data)) + data)
    room = select.poll()  # no select: a notebook may have more than 1024 files open
    room.register(fd, select.POLLOUT)
    while rest:
        left_ms = None if ends == math.inf else max(0, int(1000 * (ends - time.monotonic())))
        if not room.poll(left_ms):
            raise TimeoutError(f"{len(rest)} bytes were not taken in time")
        rest = rest[os.write(fd, rest[: select.PIPE_BUF]) :]  # for so many a pipe that is ready has room
