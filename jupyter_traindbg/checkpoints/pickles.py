"""Pickles, read and not obeyed: a machine that builds what a pickle describes and has no way to run anything.

Python's own unpickler looks names up and calls what it finds; restricting its lookups is a list of holes to be closed. This one never
looks a name up. What a pickle calls becomes an inert `Opaque`; the few calls that checkpoints are made of (tensors, storages, dtypes,
ordered dicts: `known`) become plain data. Names that have no place in a checkpoint (`suspicion`) end the reading with `UnsafeCheckpoint`.

Bounded, since the bytes may be hostile: opcodes, bytes, seconds, and no recursion anywhere, so that depth costs nothing.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from ..errors import BadCheckpoint, UnsafeCheckpoint
from ..language import text
from . import known
from .literals import decimal, floating, int_or_bool, quoted, signed, utf8
from .suspicion import modern_name, suspicion
from .values import Global, Opaque, StorageRef, TensorEntry, hashable

__all__ = ["Limits", "Read", "read_pickle"]


@dataclass(frozen=True)
class Limits:
    """What one pickle may cost. A state dict of 10,000 tensors has 300,000 opcodes; a loader's permutation has one an index."""

    opcodes: int = 50_000_000
    bytes: int = 512 * 1024**2
    seconds: float = 60.0
    line_bytes: int = 1024**2
    nested: int = 4
    """Levels of torch.storage._load_from_bytes: a plain pickle of a tensor has a whole file of torch.save in it."""


@dataclass
class Read:
    """What a pickle holds, the full names of everything that it would have loaded, and the storages that its tensors lie in."""

    value: Any
    names: set[str] = field(default_factory=set)
    storages: dict[str, StorageRef] = field(default_factory=dict)

    @property
    def foreign(self) -> list[str]:
        """Names that ``torch.load(weights_only=True)`` does not know."""
        return sorted(name for name in self.names if not known.weights_only(name))


NESTED = "torch.storage._load_from_bytes"
GETATTR = Global("builtins", "getattr")
"""Python 3.11.0 to 3.11.3 write the member of an enumeration as ``getattr(class, name)``. Nothing else may be done with it."""
Nested = Callable[[bytes], Any]


def read_pickle(stream: BinaryIO, name: str, limits: Limits | None = None, nested: Nested | None = None) -> Read:
    """One pickle from where `stream` stands, leaving it right behind. `name` is the file's, for the errors.

    `nested` reads a file of torch.save that lies in it as bytes. Costs about 0.5 us an opcode. Raises `BadCheckpoint` where it is no
    pickle, is cut off or too large, `UnsafeCheckpoint` where it names something that could run code.
    """
    machine = _Machine(stream, name, limits or Limits(), nested)
    return Read(machine.run(), machine.names, machine.storages)


class _Stop(Exception):
    """The pickle is complete."""


class _Machine:
    """The stack machine of pickle protocols 0 to 5."""

    def __init__(self, stream: BinaryIO, name: str, limits: Limits, nested: Nested | None) -> None:
        self.stream, self.name, self.limits, self.nested = stream, name, limits, nested
        self.left = limits.bytes
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.names: set[str] = set()
        self.storages: dict[str, StorageRef] = {}

    def run(self) -> Any:
        read, count, limits = self.stream.read, 0, self.limits
        ends = time.monotonic() + limits.seconds
        try:
            while True:
                code = read(1)
                if not code:
                    raise self.bad(text("it ends in the middle"))
                act = _ACTS.get(code[0])
                if act is None:
                    raise self.bad(text("0x{code:02x} is no pickle opcode", code=code[0]))
                act(self)
                count += 1
                if count & 0xFFF == 0:
                    self._check(count, ends)
        except _Stop:
            return self.pop()
        except (ValueError, TypeError, IndexError, KeyError, struct.error, OverflowError) as e:
            raise self.bad(text("{kind}: {why}", kind=type(e).__name__, why=str(e)[:200])) from e

    def _check(self, count: int, ends: float) -> None:
        if count > self.limits.opcodes:
            raise self.bad(
                text("it has more than {opcodes:,} opcodes: refused as a pickle bomb", opcodes=self.limits.opcodes)
            )
        if time.monotonic() > ends:
            raise self.bad(
                text("reading it takes more than {seconds:g} s: refused as a pickle bomb", seconds=self.limits.seconds)
            )

    def bad(self, why: str) -> BadCheckpoint:
        return BadCheckpoint(
            text("the pickle in {name} cannot be read: {why}", name=self.name, why=why),
            text("it is no checkpoint, or was not written to its end: use another one"),
        )

    # --- bytes -----------------------------------------------------------------------------------------------------

    def take(self, n: int) -> bytes:
        self.left -= n
        if n < 0 or self.left < 0:  # before it is read: a length of an exabyte would be reserved at once
            raise self.bad(
                text(
                    "it wants {n:,} bytes, more than {bytes:,} in all: refused as a pickle bomb",
                    n=n,
                    bytes=self.limits.bytes,
                )
            )
        data = b"".join(self._pieces(n)) if n > _PIECE else self.stream.read(n)
        if len(data) < n:
            raise self.bad(text("it is cut off"))
        return data

    def _pieces(self, n: int) -> list[bytes]:
        pieces = []
        while n > 0:
            piece = self.stream.read(min(n, _PIECE))
            if not piece:
                break
            pieces.append(piece)
            n -= len(piece)
        return pieces

    def byte(self) -> int:
        data = self.stream.read(1)
        if not data:
            raise self.bad(text("it is cut off"))
        return data[0]

    def number(self, layout: struct.Struct) -> Any:
        return layout.unpack(self.take(layout.size))[0]

    def line(self) -> bytes:
        data = self.stream.readline(self.limits.line_bytes)
        self.left -= len(data)
        if not data.endswith(b"\n") or self.left < 0:
            raise self.bad(text("a line of it is cut off or too long"))
        return data[:-1]

    # --- the stack -------------------------------------------------------------------------------------------------

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        value = self.pop_function()
        if value is GETATTR:
            raise self.unsafe("builtins.getattr")
        return value

    def pop_function(self) -> Any:
        """Like `pop`, of what is about to be called."""
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise self.bad(text("its stack is empty"))
        return self.stack.pop()

    def top(self) -> Any:
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise self.bad(text("its stack is empty"))
        return self.stack[-1]

    def to_mark(self) -> list[Any]:
        if not self.marks:
            raise self.bad(text("a mark is missing"))
        at = self.marks.pop()
        values = self.stack[at:]
        del self.stack[at:]
        if GETATTR.path in self.names and any(value is GETATTR for value in values):
            raise self.unsafe("builtins.getattr")
        return values

    # --- objects ---------------------------------------------------------------------------------------------------

    def named(self, module: Any, name: Any) -> Global:
        if type(module) is not str or type(name) is not str:
            raise self.bad(text("a name in it is no text"))
        module, name = modern_name(module, name)
        path = f"{module}.{name}"
        why = suspicion(module, name) if path != GETATTR.path else ""
        if why:
            raise self.unsafe(why)
        self.names.add(path)
        return Global(module, name) if path != GETATTR.path else GETATTR

    def unsafe(self, why: str) -> UnsafeCheckpoint:
        return UnsafeCheckpoint(
            text("{name} was refused: its pickle calls {why}; nothing was executed", name=self.name, why=why)
        )

    def call(self, function: Any, args: Any, keywords: Any = None) -> Any:
        if type(args) is not tuple:
            raise self.bad(text("the arguments of a call are no tuple"))
        if not isinstance(function, (Global, Opaque)):
            raise self.bad(text("it calls what cannot be called"))
        if isinstance(function, Opaque):
            raise self.unsafe(text("what another call returned"))
        if function is GETATTR:
            if keywords or not known.enum_member(args):
                raise self.unsafe(GETATTR.path)
            return Opaque(args[0], args[1:])
        build = known.BUILDERS.get(function.path)
        if build is not None and not keywords:
            return build(args)
        if function.path == NESTED and self.nested is not None and len(args) == 1 and isinstance(args[0], bytes):
            return self.nested(args[0])
        return Opaque(function, args, keywords or {})

    def extend(self, target: Any, values: list[Any]) -> None:
        if isinstance(target, list):
            target.extend(values)
        elif isinstance(target, Opaque):
            target.items.extend(values)
        else:
            raise self.bad(text("it appends to what is no list"))

    def set_items(self, target: Any, flat: list[Any]) -> None:
        if len(flat) % 2:
            raise self.bad(text("a key without a value"))
        pairs = list(zip(flat[::2], flat[1::2], strict=True))
        if isinstance(target, dict):
            for key, value in pairs:
                target[hashable(key)] = value
        elif isinstance(target, Opaque):
            target.items.extend(pairs)
        elif not isinstance(target, TensorEntry):
            raise self.bad(text("it sets items of what is no dict"))

    def build(self, target: Any, state: Any) -> None:
        if isinstance(target, Opaque):
            target.state = state
        elif isinstance(target, Global):
            raise self.bad(text("it changes what it names"))
        # the state of a dict, a tensor or a storage (an OrderedDict's _metadata, a parameter's attributes) tells us nothing

    def add(self, target: Any, values: list[Any]) -> None:
        if isinstance(target, set):
            target.update(map(hashable, values))
        elif isinstance(target, Opaque):
            target.items.extend(values)
        else:
            raise self.bad(text("it adds to what is no set"))


# --- opcodes -------------------------------------------------------------------------------------------------------

_PIECE = 16 * 1024**2
_U2, _U4, _U8 = (struct.Struct(f"<{c}") for c in "HIQ")
_I4, _F8 = struct.Struct("<i"), struct.Struct(">d")
Act = Callable[[_Machine], None]
_ACTS: dict[int, Act] = {}


def _op(code: bytes) -> Callable[[Act], Act]:
    def remember(act: Act) -> Act:
        _ACTS[code[0]] = act
        return act

    return remember


def _constant(code: bytes, make: Callable[[], Any]) -> None:
    _ACTS[code[0]] = lambda m: m.push(make())


def _literal(code: bytes, read: Callable[[_Machine], Any]) -> None:
    _ACTS[code[0]] = lambda m: m.push(read(m))


for _code, _make in (
    (b"N", lambda: None), (b"\x88", lambda: True), (b"\x89", lambda: False),
    (b")", tuple), (b"]", list), (b"}", dict), (b"\x8f", set),
):  # fmt: skip
    _constant(_code, _make)

for _code, _read in (
    (b"I", lambda m: int_or_bool(m.line())), (b"L", lambda m: decimal(m.line())), (b"F", lambda m: floating(m.line())),
    (b"S", lambda m: quoted(m.line())), (b"V", lambda m: m.line().decode("raw-unicode-escape")),
    (b"J", lambda m: m.number(_I4)), (b"K", lambda m: m.byte()), (b"M", lambda m: m.number(_U2)), (b"G", lambda m: m.number(_F8)),
    (b"\x8a", lambda m: signed(m.take(m.byte()))), (b"\x8b", lambda m: signed(m.take(m.number(_I4)))),
    (b"X", lambda m: utf8(m.take(m.number(_U4)))), (b"\x8c", lambda m: utf8(m.take(m.byte()))),
    (b"\x8d", lambda m: utf8(m.take(m.number(_U8)))),
    (b"T", lambda m: m.take(m.number(_I4)).decode("latin-1")), (b"U", lambda m: m.take(m.byte()).decode("latin-1")),
    (b"B", lambda m: m.take(m.number(_U4))), (b"C", lambda m: m.take(m.byte())), (b"\x8e", lambda m: m.take(m.number(_U8))),
    (b"\x96", lambda m: m.take(m.number(_U8))),
    (b"c", lambda m: m.named(utf8(m.line()), utf8(m.line()))),
    (b"P", lambda m: Opaque(Global("", "persistent id"), (m.line(),))),
    (b"l", lambda m: m.to_mark()), (b"t", lambda m: tuple(m.to_mark())),
):  # fmt: skip
    _literal(_code, _read)


@_op(b".")
def _stop(m: _Machine) -> None:
    raise _Stop


@_op(b"\x80")
def _proto(m: _Machine) -> None:
    version = m.byte()
    if version > 5:
        raise m.bad(text("it has protocol {version}, which does not exist", version=version))


@_op(b"\x95")
def _frame(m: _Machine) -> None:
    if m.number(_U8) > m.limits.bytes:
        raise m.bad(text("a frame is larger than any pickle we read"))


@_op(b"(")
def _mark(m: _Machine) -> None:
    m.marks.append(len(m.stack))


@_op(b"0")
def _pop(m: _Machine) -> None:
    if m.marks and m.marks[-1] == len(m.stack):
        m.marks.pop()
    else:
        m.pop()


@_op(b"1")
def _pop_mark(m: _Machine) -> None:
    m.to_mark()


@_op(b"2")
def _dup(m: _Machine) -> None:
    m.push(m.top())


for _n, _code in ((1, b"\x85"), (2, b"\x86"), (3, b"\x87")):

    def _tuple(m: _Machine, n: int = _n) -> None:
        m.push(tuple([m.pop() for _ in range(n)][::-1]))

    _ACTS[_code[0]] = _tuple


@_op(b"d")
def _dict(m: _Machine) -> None:
    made: dict[Any, Any] = {}
    m.set_items(made, m.to_mark())
    m.push(made)


@_op(b"\x91")
def _frozenset(m: _Machine) -> None:
    m.push(frozenset(map(hashable, m.to_mark())))


@_op(b"a")
def _append(m: _Machine) -> None:
    value = m.pop()
    m.extend(m.top(), [value])


@_op(b"e")
def _appends(m: _Machine) -> None:
    values = m.to_mark()
    m.extend(m.top(), values)


@_op(b"s")
def _set_item(m: _Machine) -> None:
    value, key = m.pop(), m.pop()
    m.set_items(m.top(), [key, value])


@_op(b"u")
def _set_items(m: _Machine) -> None:
    flat = m.to_mark()
    m.set_items(m.top(), flat)


@_op(b"\x90")
def _add_items(m: _Machine) -> None:
    values = m.to_mark()
    m.add(m.top(), values)


def _put(m: _Machine, index: int) -> None:
    m.memo[index] = m.top()


def _get(m: _Machine, index: int) -> None:
    if index not in m.memo:
        raise m.bad(text("it refers to what it has not made"))
    m.push(m.memo[index])


_ACTS[ord("p")] = lambda m: _put(m, int(m.line(), 10))
_ACTS[ord("q")] = lambda m: _put(m, m.byte())
_ACTS[ord("r")] = lambda m: _put(m, m.number(_U4))
_ACTS[0x94] = lambda m: _put(m, len(m.memo))
_ACTS[ord("g")] = lambda m: _get(m, int(m.line(), 10))
_ACTS[ord("h")] = lambda m: _get(m, m.byte())
_ACTS[ord("j")] = lambda m: _get(m, m.number(_U4))


@_op(b"\x93")
def _stack_global(m: _Machine) -> None:
    name, module = m.pop(), m.pop()
    m.push(m.named(module, name))


@_op(b"R")
def _reduce(m: _Machine) -> None:
    args, function = m.pop(), m.pop_function()
    m.push(m.call(function, args))


_ACTS[0x81] = _reduce  # NEWOBJ: the same stack, and nothing is made either way


@_op(b"\x92")
def _newobj_ex(m: _Machine) -> None:
    keywords, args, cls = m.pop(), m.pop(), m.pop()
    if not isinstance(keywords, dict):
        raise m.bad(text("keywords that are no dict"))
    m.push(m.call(cls, args, keywords))


@_op(b"i")
def _inst(m: _Machine) -> None:
    cls = m.named(utf8(m.line()), utf8(m.line()))
    m.push(m.call(cls, tuple(m.to_mark())))


@_op(b"o")
def _obj(m: _Machine) -> None:
    values = m.to_mark()
    if not values:
        raise m.bad(text("an object without a class"))
    m.push(m.call(values[0], tuple(values[1:])))


@_op(b"b")
def _build(m: _Machine) -> None:
    state = m.pop()
    m.build(m.top(), state)


@_op(b"Q")
def _persistent(m: _Machine) -> None:
    made = known.persistent(m.pop())
    if isinstance(made, StorageRef):
        m.storages[made.key] = made
    m.push(made)


@_op(b"\x98")
def _readonly(m: _Machine) -> None:
    m.top()


for _code in (b"\x97", b"\x82", b"\x83", b"\x84"):

    def _elsewhere(m: _Machine) -> None:
        raise m.bad(text("it refers to data outside of the file"))

    _ACTS[_code[0]] = _elsewhere
