"""What the pickle machine builds: plain Python data, and these inert stand-ins for everything else."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "DTYPES",
    "DType",
    "Global",
    "Opaque",
    "StorageRef",
    "TensorEntry",
    "hashable",
    "shown",
    "tensors_in",
    "word",
]

DTYPES: dict[str, int] = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "complex128": 16, "complex64": 8, "complex32": 4, "int64": 8, "int32": 4,
    "int16": 2, "int8": 1, "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1, "float4_e2m1fn_x2": 1, "quint8": 1, "qint8": 1, "qint32": 4,
    "quint4x2": 1, "quint2x4": 1, "bits8": 1, "bits16": 2, "bits1x8": 1, "bits2x4": 1, "bits4x2": 1,
}  # fmt: skip
"""Bytes of one element of each of torch's dtypes."""

DEEPEST = 64
MOST_VALUES = 5_000_000


@dataclass(frozen=True)
class Global:
    """A name that a pickle refers to; never looked up."""

    module: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}" if self.module else self.name


@dataclass(frozen=True)
class DType:
    """A torch dtype by its name: ``"bfloat16"``."""

    name: str


@dataclass(eq=False)
class Opaque:
    """An object that would be made by calling `of` with `args`, were it loaded. Equal only to itself; never printed whole."""

    of: Global
    args: tuple[Any, ...] = ()
    keywords: dict[Any, Any] = field(default_factory=dict, repr=False)
    state: Any = field(default=None, repr=False)
    items: list[Any] = field(default_factory=list, repr=False)

    def __repr__(self) -> str:
        return f"<{self.of.path}>"

    def attribute(self, name: str) -> Any:
        """One of its attributes as it would be after loading; None where it has none of that name."""
        state = self.state
        if isinstance(state, tuple) and len(state) == 2 and isinstance(state[0], dict):
            state = {**state[0], **(state[1] if isinstance(state[1], dict) else {})}
        return state.get(name) if isinstance(state, dict) else None


@dataclass(frozen=True)
class StorageRef:
    """Where the elements of tensors lie: `key` names it within the file; `numel` elements of `dtype`."""

    key: str
    dtype: str
    numel: int
    location: str = "cpu"

    @property
    def bytes(self) -> int:
        return self.numel * DTYPES[self.dtype]


@dataclass(eq=False)
class TensorEntry:
    """One tensor: its whole shape, its dtype, the bytes of its elements, and where they lie (None: not in this file, or not known)."""

    shape: tuple[int, ...]
    dtype: str
    storage: StorageRef | None = None
    offset: int = 0
    stride: tuple[int, ...] | None = None

    @property
    def numel(self) -> int:
        n = 1
        for size in self.shape:
            n *= size
        return n

    @property
    def bytes(self) -> int:
        return self.numel * DTYPES.get(self.dtype, 1)

    @property
    def reach_bytes(self) -> int:
        """Bytes from the beginning of the storage to the end of the tensor's last element."""
        if self.numel == 0:
            return 0
        stride = self.stride if self.stride is not None else ()
        last = sum((size - 1) * step for size, step in zip(self.shape, stride, strict=False))
        return (self.offset + last + 1) * DTYPES.get(self.dtype, 1)


def hashable(key: Any) -> Hashable:
    """`key`, if it may be the key of a dict or a member of a set here; ValueError where it may not.

    Tuples only a few levels deep: hashing recurses in C, and a pickle can nest a million of them.
    """
    if not _plain_key(key, 4):
        raise ValueError(f"a {type(key).__name__} is no key of a dict")
    return key  # type: ignore[no-any-return]


def _plain_key(key: Any, depth: int) -> bool:
    if isinstance(key, (tuple, frozenset)):
        return depth > 0 and len(key) <= 64 and all(_plain_key(part, depth - 1) for part in key)
    return key is None or isinstance(
        key, (str, bytes, int, float, complex, Global, DType, Opaque, StorageRef, TensorEntry)
    )


def tensors_in(root: Any) -> Iterator[tuple[tuple[str, ...], TensorEntry]]:
    """``(path, tensor)`` of all tensors in nested dicts, lists and tuples, in order; what is shared is entered once, cycles end.

    Attributes of opaque objects are looked at too. At most `DEEPEST` levels and `MOST_VALUES` values.
    """
    seen: set[int] = set()
    stack: list[tuple[tuple[str, ...], Any]] = [((), root)]
    count = 0
    while stack and count < MOST_VALUES:
        path, value = stack.pop()
        count += 1
        if isinstance(value, TensorEntry):
            yield path, value
            continue
        below: list[tuple[tuple[str, ...], Any]]
        if isinstance(value, Opaque):
            below = [(path, value.state), (path, value.items)]
        elif isinstance(value, dict):
            below = [((*path, word(key)), part) for key, part in value.items()]
        elif isinstance(value, (list, tuple)):
            below = [((*path, str(i)), part) for i, part in enumerate(value)]
        else:
            continue
        if id(value) in seen or len(path) >= DEEPEST:
            continue
        seen.add(id(value))
        stack.extend(reversed(below))


def word(key: Any) -> str:
    """A dict's key as a part of a name; objects by their class only."""
    return (
        key if isinstance(key, str) else str(key) if isinstance(key, (int, float, bool)) else f"<{type(key).__name__}>"
    )


def shown(text: object, longest: int = 300) -> str:
    """A name from a file (or of one) for an error message: one line, nothing in it that steers a terminal."""
    words = str(text)
    words = words if len(words) <= longest else f"{words[: longest - 1]}…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in words)
