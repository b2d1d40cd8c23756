"""`Inspected`: which parts of a training it holds and lacks, and its keys with the layers that repeat in one row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...language import counted, later, later_counted, pgettext, text
from ...model import CheckpointPart, Inspected, NotAvailable, TensorKey
from ...words.ranks import rank_list
from ..blocks import PLACE, Answer, Block, Column, Fold, Inline, Items, Line, Span, Table, Tone, within
from ..common import DASH, measured
from ..grouping import group_by
from ..notations import sizes
from ..units import count, size

SHOWN = 12
MODULES = 40
NAMED = 30
NEEDED = {
    "model": later("model"),
    "optimizer": later("optimizer"),
    "rng": later("random generators"),
    "loader": later("loader positions"),
}
"""What every exact resume needs; a schedule and a scaler not every job has."""


def view(result: Inspected) -> Iterator[Block]:
    words, tone = _answer(result.parts)
    step = within(text("step {step}", step=PLACE), measured(result.step, "{:,}".format))
    if not isinstance(result.step, NotAvailable) and result.step_from:
        step.append(f" ({result.step_from})")
    files = len(result.files)
    sizes = counted("{size} in {n:,} file", "{size} in {n:,} files", files, size=size(result.bytes))
    yield Answer(words, [Span(result.path, "code"), result.format, step, sizes], tone)
    loads = measured(result.weights_only, lambda good: text("loads") if good else text("refused"))
    yield Line(["torch.load(weights_only=True): ", loads])
    if result.values:
        yield Line(" · ".join(f"{name} {told}" for name, told in list(result.values.items())[:NAMED]))
    if result.parts:
        yield _parts(result.parts)
    yield from _keys(result.keys)
    if result.classes:
        listed: list[Inline] = [Span(name, "code") for name in result.classes[:MODULES]]
        if len(result.classes) > MODULES:
            listed.append(counted("... and {n} more", "... and {n} more", len(result.classes) - MODULES))
        refused = later_counted("{n:,} class that weights_only refuses", "{n:,} classes that weights_only refuses")
        yield Fold(counted(*refused, len(result.classes)), [Items(listed)])
    if result.notes:
        yield Items(list(result.notes[:NAMED]))
    if files > 1:
        yield Fold(counted("{n:,} file", "{n:,} files", files), [Items(list(result.files[:NAMED]))])


def _answer(parts: Sequence[CheckpointPart]) -> tuple[str, Tone]:
    there = {part.role for part in parts if part.present}
    held, lacked = [role for role in NEEDED if role in there], [role for role in NEEDED if role not in there]
    if not held:
        return text("no part of a training was recognised in it"), "warn"
    if held == ["model"]:
        return text("weights alone: the model, and nothing else to resume from"), "info"
    if lacked:
        words = later_counted(
            "{held} is in it; an exact resume also needs {lacked}",
            "{held} are in it; an exact resume also needs {lacked}",
        )
        return counted(*words, len(held), held=_listed(held), lacked=_listed(lacked)), "warn"
    return text("{held} are in it: what an exact resume needs", held=_listed(held)), "good"


def _listed(roles: Sequence[str]) -> str:
    *first, last = (text(NEEDED[role]) for role in roles)
    return text("{first} and {last}", first=pgettext("list", ", ").join(first), last=last) if first else last


def _parts(parts: Sequence[CheckpointPart]) -> Table:
    def row(part: CheckpointPart) -> list[Inline]:
        there = Span(text("yes"), "good") if part.present else Span(text("no"), "muted")
        tensors = f"{part.tensors:,}" if part.tensors else DASH
        return [
            Span(part.role, "strong"),
            there,
            tensors,
            measured(part.bytes if part.tensors else None, size),
            part.where or DASH,
            part.note or DASH,
        ]

    columns = [Column(text("part")), Column(text("there")), Column(text("tensors"), right=True)]
    columns += [Column(text("size"), right=True, notation=sizes)]
    columns += [Column(text("where"), wrap=True, spare=True), Column(text("note"), wrap=True, spare=True)]
    caption = text("What an exact resume needs, and what else is there")
    return Table(caption, columns, [row(p) for p in parts], 20, pgettext("more", "parts"))


# --- keys --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Repeated:
    """Keys that differ only in a number: ``layers.{0-31}.mlp.weight``, all of one shape and dtype."""

    name: str
    keys: tuple[TensorKey, ...]


def _keys(keys: Sequence[TensorKey]) -> Iterator[Block]:
    if not keys:
        yield Line(text("no tensors of a model"))
        return
    dtypes = ", ".join(
        f"{same[0].dtype} ({len(same)})"
        for same in sorted(group_by(keys, lambda k: k.dtype), key=len, reverse=True)[:6]
    )
    elements = sum(_numel(k) for k in keys if k.tied_to is None)
    words = later_counted(
        "model: {n:,} tensor, {elements} elements · {dtypes}", "model: {n:,} tensors, {elements} elements · {dtypes}"
    )
    yield Line(counted(*words, len(keys), elements=count(elements), dtypes=dtypes))
    modules = group_by(keys, lambda k: _top(k.name))
    if len(modules) == 1:
        yield _table(repeated(keys), text("Keys"), SHOWN)
        return
    for same in modules[:MODULES]:
        folded = repeated(same)
        total = sum(k.bytes for k in same if k.tied_to is None)
        if len(folded) == 1:
            yield _one(folded[0])
        else:
            told = counted(": {n:,} tensor, {size}", ": {n:,} tensors, {size}", len(same), size=size(total))
            yield Fold([Span(_top(same[0].name), "code"), told], [_table(folded, "", SHOWN)])
    if len(modules) > MODULES:
        yield Line(text("... and {n} more modules: see the result's to_dict()", n=len(modules) - MODULES))


def _top(name: str) -> str:
    """The module that a key belongs to: its first name, and the second where the first holds nearly all."""
    parts = name.split(".")
    return ".".join(parts[:2]) if len(parts) > 3 and not parts[1].isdigit() else parts[0]


def _one(same: Repeated) -> Line:
    key = same.keys[0]
    tied = text(" (shares memory with {name})", name=key.tied_to) if key.tied_to else ""
    return Line(["  ", Span(same.name, "code"), text(": "), f"{shape_of(key)} {key.dtype}, {size(key.bytes)}{tied}"])


def _table(folded: Sequence[Repeated], caption: str, shown: int) -> Table:
    tied = any(s.keys[0].tied_to for s in folded)
    columns = [
        Column(text("key"), wrap=True),
        Column(text("times"), right=True),
        Column(text("shape")),
        Column("dtype"),
        Column(text("size"), right=True, notation=sizes),
    ]
    columns += [Column(text("shares memory with"), wrap=True, spare=True)] if tied else []

    def row(s: Repeated) -> list[Inline]:
        key = s.keys[0]
        cells: list[Inline] = [
            Span(s.name, "strong"),
            str(len(s.keys)),
            shape_of(key),
            key.dtype,
            measured(sum(k.bytes for k in s.keys), size),
        ]
        return [*cells, key.tied_to or DASH] if tied else cells

    return Table(caption, columns, [row(s) for s in folded], shown, pgettext("more", "keys"))


def repeated(keys: Sequence[TensorKey]) -> list[Repeated]:
    """Keys of one shape, dtype and name but for one number, in one."""
    groups = group_by(keys, lambda k: (re.sub(r"\d+", "#", k.name), tuple(k.shape), k.dtype, bool(k.tied_to)))
    return [Repeated(folded_name([k.name for k in same]), tuple(same)) for same in groups]


def folded_name(names: Sequence[str]) -> str:
    """``h.{0-11}.mlp.{0, 2}.weight``: each number that varies as a list."""
    split = [re.split(r"(\d+)", name) for name in names]
    parts = []
    for column in zip(*split, strict=True):
        values = set(column)
        if len(values) == 1:
            parts.append(column[0])
        elif all(len(v) < 10 for v in values):
            parts.append(f"{{{rank_list([int(v) for v in values])}}}")
        else:
            parts.append("{...}")
    return "".join(parts)


def shape_of(key: TensorKey) -> str:
    return "x".join(map(str, key.shape)) or text("scalar")


def _numel(key: TensorKey) -> int:
    n = 1
    for one in key.shape:
        n *= one
    return n
