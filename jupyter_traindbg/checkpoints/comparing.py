"""Why does this checkpoint not load into that model? Its keys against the model's (or another checkpoint's), and the likely reason."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..errors import BadCheckpoint, UsageError
from ..language import text
from ..model import Compared, KeyDifference, TensorKey
from .contents import Contents
from .reading import read
from .values import DTYPES, shown

__all__ = ["Difference", "Side", "compare", "keys_from"]

Side: TypeAlias = "str | os.PathLike[str] | Contents | Sequence[Any]"
"""A checkpoint's path, its contents, or keys: `TensorKey`s or ``[name, shape, dtype, tied_to]`` as the agent's probe gives them."""

WRAPPERS = (
    "_orig_mod",
    "_fsdp_wrapped_module",
    "_checkpoint_wrapped_module",
    "_forward_module",
    "base_layer",
    "module",
)
"""What torch.compile, FSDP, activation checkpointing, Fabric, PEFT and DDP put into names, anywhere in them (``module``: at the front)."""
ROUNDS = 4
MOST_PARTS = 12


@dataclass
class Difference:
    """Two sets of keys, the left side's renamed as far as prefixes explain it."""

    left: dict[str, TensorKey]
    right: dict[str, TensorKey]
    renamed: list[tuple[str, str]] = field(default_factory=list)
    original: dict[str, str] = field(default_factory=dict)
    """New name -> the left side's own."""

    @property
    def missing(self) -> list[TensorKey]:
        return [k for name, k in self.right.items() if name not in self.left]

    @property
    def unexpected(self) -> list[TensorKey]:
        return [k for name, k in self.left.items() if name not in self.right]

    @property
    def shapes(self) -> list[tuple[TensorKey, TensorKey]]:
        return [
            (k, self.right[n])
            for n, k in self.left.items()
            if n in self.right and tuple(k.shape) != tuple(self.right[n].shape)
        ]

    @property
    def dtypes(self) -> list[tuple[TensorKey, TensorKey]]:
        pairs = [(k, self.right[n]) for n, k in self.left.items() if n in self.right]
        return [(a, b) for a, b in pairs if tuple(a.shape) == tuple(b.shape) and a.dtype != b.dtype]


def compare(left: Side, right: Side, *, left_name: str = "", right_name: str = "") -> Compared:
    """A checkpoint's model keys (`left`) against a model's or another checkpoint's (`right`), with the likely reasons as findings.

    ``missing`` and ``unexpected`` are meant as in ``load_state_dict``: right's keys that left lacks, left's that right does not have.
    Prefixes that wrappers add are seen through, and told. Costs what `inspect` costs. Raises `UsageError` where a side has no model keys.
    """
    left_keys, name_of_left = _keys(left, left_name or "the checkpoint")
    right_keys, name_of_right = _keys(right, right_name or "the model")
    difference = aligned(left_keys, right_keys)
    from .reasons import explain

    verdict, reason_of = explain(difference, name_of_left, name_of_right)
    differences = _listed(difference, reason_of)
    same = (
        sum(1 for n, k in difference.left.items() if n in difference.right)
        - len(difference.shapes)
        - len(difference.dtypes)
    )
    return Compared(
        left=name_of_left,
        right=name_of_right,
        left_keys=len(left_keys),
        right_keys=len(right_keys),
        same=same,
        differences=tuple(differences),
        renamed=tuple(difference.renamed),
        verdict=tuple(verdict),
    )


def _listed(difference: Difference, reason_of: dict[tuple[str, str], str]) -> list[KeyDifference]:
    def one(kind: Any, left: TensorKey | None, right: TensorKey | None) -> KeyDifference:
        name = left.name if left is not None else right.name if right is not None else ""
        return KeyDifference(kind, name, left, right, reason_of.get((kind, name), ""))

    return [
        *(one("missing", None, k) for k in difference.missing),
        *(one("unexpected", k, None) for k in difference.unexpected),
        *(one("shape", a, b) for a, b in difference.shapes),
        *(one("dtype", a, b) for a, b in difference.dtypes),
    ]


# --- sides -----------------------------------------------------------------------------------------------------------


def _keys(side: Side, name: str) -> tuple[list[TensorKey], str]:
    if isinstance(side, (str, os.PathLike)):
        contents = read(side)
        name = contents.path
    elif isinstance(side, Contents):
        contents, name = side, side.path
    else:
        return keys_from(side), name
    keys = contents.keys() or contents.keys("ema")
    if not keys:
        held = text(", ").join(sorted({s.role for s in contents.sections})) or text("nothing")
        if contents.problems:
            raise BadCheckpoint(
                text(
                    "no model weights can be read from {path}: {problem}",
                    path=shown(contents.path),
                    problem=contents.problems[0],
                )
            )
        raise UsageError(
            text("{path} holds no model weights ({held})", path=shown(contents.path), held=held),
            text("name the checkpoint that has the model in it"),
        )
    return keys, name


def keys_from(answer: Iterable[Any]) -> list[TensorKey]:
    """Keys as the agent's ``keys`` probe gives them (``[name, shape, dtype, tied_to]``), as `TensorKey`s; those pass as they are."""
    return [k if isinstance(k, TensorKey) else _key(*k) for k in answer]


def _key(name: str, shape: Sequence[int], dtype: str, tied_to: str | None = None) -> TensorKey:
    elements = 1
    for size in shape:
        elements *= size
    return TensorKey(name, tuple(shape), dtype, elements * DTYPES.get(dtype, 1), tied_to)


# --- names that differ by what wraps the model -------------------------------------------------------------------------


def aligned(left: Sequence[TensorKey], right: Sequence[TensorKey]) -> Difference:
    """Both sides under names that fit together as well as wrappers and prefixes explain it."""
    difference = Difference({k.name: k for k in left}, {k.name: k for k in right}, [], {k.name: k.name for k in left})
    for _ in range(ROUNDS):
        for wrapper in WRAPPERS:
            _drop_wrapper(difference, wrapper)
        if not _shift_prefix(difference):
            break
    return difference


def _matches(left: Iterable[str], right: Iterable[str]) -> int:
    return len(set(left) & set(right))


def _rename(difference: Difference, names: dict[str, str], renamed: tuple[str, str]) -> bool:
    """Rename left's keys (old -> new) if more of them fit then, and no two fall together."""
    new = {old: names.get(old, old) for old in difference.left}
    if len(set(new.values())) < len(new) or _matches(new.values(), difference.right) <= _matches(new, difference.right):
        return False
    difference.original = {new[old]: own for old, own in difference.original.items()}
    difference.left = {new[old]: key for old, key in difference.left.items()}
    difference.renamed.append(renamed)
    return True


def _without(name: str, wrapper: str) -> str:
    parts = name.split(".")
    if wrapper == "module":
        return name.removeprefix("module.")
    return ".".join(p for p in parts if p != wrapper)


def _drop_wrapper(difference: Difference, wrapper: str) -> None:
    """A wrapper's part of the names, taken off the left's, or put into them as the right's have it."""
    _rename(difference, {old: _without(old, wrapper) for old in difference.left}, (f"{wrapper}.", ""))
    wrapped = {_without(name, wrapper): name for name in difference.right}
    _rename(difference, {old: wrapped.get(old, old) for old in difference.left}, ("", f"{wrapper}."))


def _shift_prefix(difference: Difference) -> bool:
    """The one prefix that, taken off the left's names or put before them, makes the most of them fit."""
    ours = [n for n in difference.left if n not in difference.right]
    theirs = [n for n in difference.right if n not in difference.left]
    off, on = _votes(ours, set(theirs)), _votes(theirs, set(ours))
    best = max(
        [
            *((count, prefix, True) for prefix, count in off.items()),
            *((count, prefix, False) for prefix, count in on.items()),
        ],
        default=None,
    )
    if best is None:
        return False
    count, prefix, taken_off = best
    if count * 2 < min(len(ours), len(theirs)):  # a chance resemblance explains nothing
        return False
    if taken_off:
        names = {old: old[len(prefix) :] for old in ours if old.startswith(prefix)}
    else:
        tops = {old.split(".")[0] for old in ours if prefix + old in difference.right}
        names = {
            old: prefix + old for old in ours if old.split(".")[0] in tops
        }  # a layer too many goes with its neighbours
    return _rename(difference, names, (prefix, "") if taken_off else ("", prefix))


def _votes(long: Sequence[str], short: set[str]) -> Counter[str]:
    """For each prefix: how many of the `long` names become one of the `short` ones without it."""
    votes: Counter[str] = Counter()
    for name in long:
        parts = name.split(".")
        for i in range(1, min(len(parts), MOST_PARTS)):
            if ".".join(parts[i:]) in short:
                votes[".".join(parts[:i]) + "."] += 1
    return votes
