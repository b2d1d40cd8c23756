"""Pickles of plain data: numbers, texts, lists, tuples and dicts. The opcodes that look names up and call them do not exist here.

Python's own unpickler can be told to refuse every name, but not to bound its memory: eleven bytes make it reserve gigabytes for its memo.
What this one holds is proportional to the bytes that it read.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable
from typing import Any

from ...language import text

__all__ = ["loads"]

_U1, _U2, _U4, _I4, _U8, _F8 = (struct.Struct(form) for form in ("<B", "<H", "<I", "<i", "<Q", ">d"))
_NAMES = {op.code.encode("latin-1")[0]: op.name for op in pickletools.opcodes}
_GET1, _GET4, _PUT1, _PUT4 = 0x68, 0x6A, 0x71, 0x72
_INT1, _MARK, _STOP = 0x4B, 0x28, 0x2E
_CONSTANTS = {0x4E: None, 0x88: True, 0x89: False, 0x29: ()}
_CONTAINERS: dict[int, Callable[[], Any]] = {0x7D: dict, 0x5D: list}
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}
_NUMBERS = {0x4D: _U2, 0x4A: _I4, 0x47: _F8}
_LENGTHS = {0x8C: _U1, 0x58: _U4, 0x8D: _U8}
"""Texts, by the form of the length before them."""
_SKIPPED = {0x80: 1, 0x95: 8}
"""The protocol's number, and the length of a frame."""


def loads(data: bytes) -> Any:
    """What the pickle `data` describes. Raises ValueError where it is damaged, or anything but plain data. About 0.15 us a byte."""
    try:
        return _Machine(data).run()
    except (IndexError, KeyError, TypeError, struct.error) as e:
        raise ValueError(text("it is damaged ({kind})", kind=type(e).__name__)) from e


class _Machine:
    """The stack machine of pickle protocols 0 to 5, as far as plain data goes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        data, stack, memo, push = self.data, self.stack, self.memo, self.stack.append
        at = 0
        while True:
            code = data[at]
            at += 1
            # In the order of how often a dump has them: this loop is what reading costs.
            if code == _GET1:
                push(memo[data[at]])
                at += 1
            elif code == _INT1:
                push(data[at])
                at += 1
            elif code == _GET4:
                push(memo[_U4.unpack_from(data, at)[0]])
                at += 4
            elif code == _MARK:
                self.marks.append(len(stack))
            elif code == _PUT1:
                memo[data[at]] = stack[-1]
                at += 1
            elif code == _PUT4:
                memo[_U4.unpack_from(data, at)[0]] = stack[-1]
                at += 4
            elif code in _CONSTANTS:
                push(_CONSTANTS[code])
            elif code == _STOP:
                return stack.pop()
            else:
                self.at = at
                self.rare(code)
                at = self.at

    def rare(self, code: int) -> None:
        if code in _CONTAINERS:
            self.stack.append(_CONTAINERS[code]())
        elif code in _NUMBERS:
            self.stack.append(self.number(_NUMBERS[code]))
        elif code in _LENGTHS:
            self.stack.append(self.text(self.number(_LENGTHS[code])))
        elif code in _TUPLES:
            self.stack.append(tuple(self.last(_TUPLES[code])))
        elif code in _SKIPPED:
            self.take(_SKIPPED[code])
        elif code in _ACTS:
            _ACTS[code](self)
        else:
            name = _NAMES.get(code, hex(code))
            raise ValueError(text("it has the opcode {name}, which plain data does not need", name=name))

    def long(self) -> None:
        self.stack.append(int.from_bytes(self.take(self.take(1)[0]), "little", signed=True))

    def memoize(self) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def last(self, n: int) -> list[Any]:
        """The topmost `n`, taken off."""
        return [self.stack.pop() for _ in range(n)][::-1]

    def take(self, n: int) -> bytes:
        found = self.data[self.at : self.at + n]
        if len(found) < n:
            raise ValueError(text("it is cut off"))
        self.at += n
        return found

    def number(self, form: struct.Struct) -> Any:
        (found,) = form.unpack_from(self.data, self.at)
        self.at += form.size
        return found

    def text(self, n: int) -> str:
        return self.take(n).decode("utf-8", "replace")

    def to_mark(self) -> list[Any]:
        start = self.marks.pop()
        found = self.stack[start:]
        del self.stack[start:]
        return found

    def append(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise ValueError(text("it is damaged (it appends to what is no list)"))
        target.extend(items)

    def set_items(self, flat: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not dict or len(flat) % 2:
            raise ValueError(text("it is damaged (it sets items of what is no dict)"))
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            if type(key) not in (str, int):
                raise ValueError(text("a key in it is neither a text nor a number"))
            target[key] = value


_ACTS: dict[int, Callable[[_Machine], None]] = {
    0x75: lambda m: m.set_items(m.to_mark()),
    0x73: lambda m: m.set_items(m.last(2)),
    0x65: lambda m: m.append(m.to_mark()),
    0x61: lambda m: m.append(m.last(1)),
    0x74: lambda m: m.stack.append(tuple(m.to_mark())),
    0x8A: _Machine.long,
    0x94: _Machine.memoize,
}
