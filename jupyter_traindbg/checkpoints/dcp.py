"""Directories of torch.distributed.checkpoint: ``.metadata`` names every tensor and where its pieces lie, ``__R_N.distcp`` has them."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import BadCheckpoint
from ..language import text
from .contents import PROGRESS, STEPS, TOLD, Contents, Loaded, Section, dtype_of, keys_of, number, role_of
from .pickles import read_pickle
from .torchfile import read_zip
from .values import Opaque, TensorEntry, shown, word

__all__ = ["METADATA", "read_dcp"]

METADATA = ".metadata"
LARGEST_VALUE = 1024**2
MOST_VALUES = 5000
OF_AN_OPTIMIZER = ("state", "param_groups")
KEPT = ("step", "exp_avg", "exp_avg_sq", "momentum_buffer", "square_avg", "sum")

Paths = dict[Any, tuple[tuple[str, ...], tuple[str, ...]]]
"""By an entry's name: what is left of its path, and the path as it was."""


@dataclass(frozen=True)
class Piece:
    file: str
    offset: int
    length: int


def read_dcp(directory: Path, contents: Contents) -> None:
    """Add what is in a DCP directory to `contents`. Reads its metadata, and of the data only small values that are no tensors."""
    with (directory / METADATA).open("rb") as stream:
        metadata = read_pickle(stream, METADATA).value
    entries = metadata.attribute("state_dict_metadata") if isinstance(metadata, Opaque) else None
    if not isinstance(entries, dict):
        raise BadCheckpoint(
            text(
                "{metadata} of {directory} holds no metadata of torch.distributed.checkpoint",
                metadata=METADATA,
                directory=shown(directory),
            )
        )
    pieces = _pieces(metadata.attribute("storage_data"))
    contents.problems += _piece_problems(directory, pieces)
    paths = _paths(entries, metadata.attribute("planner_data"))
    tensors = {name: tensor for name, entry in entries.items() if (tensor := _tensor(entry)) is not None}
    for part in _parts({name: (path, path) for name, path in paths.items()}, contents.besides):
        held = [(path, tensors[name]) for name, path in part.paths.items() if name in tensors]
        where = f"{METADATA}: {part.where}" if part.where else METADATA
        if held or part.role != "model":
            contents.sections.append(Section(part.role, where, keys_of(held), contents.besides.get(part.where, "")))
    _small_values(directory, contents, entries, paths, pieces)


def _tensor(entry: Any) -> TensorEntry | None:
    """A tensor's whole shape and dtype; None where the entry is no tensor."""
    if not isinstance(entry, Opaque) or not entry.of.name.endswith("TensorStorageMetadata"):
        return None
    size, properties = entry.attribute("size"), entry.attribute("properties")
    state = properties.state if isinstance(properties, Opaque) else None
    dtype = state[0] if isinstance(state, tuple) and state else state.get("dtype") if isinstance(state, dict) else None
    good = isinstance(size, tuple) and all(type(n) is int and n >= 0 for n in size)
    if not good:
        raise BadCheckpoint(text("{metadata} is damaged: a tensor without a size", metadata=METADATA))
    return TensorEntry(size, dtype_of(dtype))


def _paths(entries: dict[Any, Any], planner: Any) -> dict[Any, tuple[str, ...]]:
    """Each entry's path in the nested state dict, from the planner where it noted it.

    One that was saved flat has names with dots in them, which are paths where they speak of an optimizer: else they are a model's own.
    """
    known = {n: tuple(map(word, p)) for n, p in (planner if isinstance(planner, dict) else {}).items() if _is_path(p)}
    if any("." in path[0] and role_of(path[0].split(".")[0]) == "optimizer" for path in known.values()):
        known = {name: (*path[0].split("."), *path[1:]) for name, path in known.items()}
    return {name: known[name] if name in known else tuple(word(name).split(".")) for name in entries}


def _is_path(noted: Any) -> bool:
    return isinstance(noted, (tuple, list)) and len(noted) > 0


@dataclass(frozen=True)
class Part:
    """The entries of one part; `paths`: by entry's name what is left of its path below `where`."""

    role: str
    where: str
    paths: dict[Any, tuple[str, ...]]


def _parts(left: Paths, besides: Mapping[str, str], above: str = "") -> Iterator[Part]:
    """Sort entries, given with what is left of their paths and with that as it was, into the parts of a checkpoint.

    The names of the parts come first, or one level below ("app.model", "app.optim"). Where no name says so, an optimizer is
    told by its shape, and what is left is the model's.
    """
    below = _tops(left)
    named = _by_parts(below) or any(top in besides for top in below)
    optimizer = {} if named else {top: below[top] for top in OF_AN_OPTIMIZER if top in below}
    if "state" in optimizer and _is_state(optimizer["state"]):
        yield Part("optimizer", above, {name: path for many in optimizer.values() for name, (path, _) in many.items()})
        below = {top: many for top, many in below.items() if top not in optimizer}
    wrappers = [] if named or above else [top for top, many in below.items() if _by_parts(_tops(many))]
    rest: Paths = {}
    for top, many in below.items():
        where = f"{above}.{top}" if above else top
        role = "other" if top in besides else role_of(top) if named else None
        if role is not None:
            yield Part(role, where, {name: path or (top,) for name, (path, _) in many.items()})
        elif top in wrappers:
            yield from _parts(many, besides, where)
        elif not named:
            rest.update({name: left for name, left in many.items() if left[0] or not wrappers})
    if rest:
        yield Part(
            "model",
            above,
            {name: whole[1:] if above and len(whole) > 1 else whole for name, (_, whole) in rest.items()},
        )


def _by_parts(below: Mapping[str, Paths]) -> bool:
    """Whether the first part of the names says model, optimizer, ...; in a bare state dict of a model it does not."""
    roles = {role_of(top) for top in below}
    if not roles:
        return False
    nested = all(path for top, many in below.items() if role_of(top) == "model" for path, _ in many.values())
    return "optimizer" in roles or (None not in roles and nested) or (roles - {None, "model"} != set() and nested)


def _tops(left: Paths) -> dict[str, Paths]:
    """The entries by the first part of what is left of their paths, and what then is left; without those that end there."""
    found: dict[str, Paths] = {}
    for name, (path, whole) in left.items():
        if path:
            found.setdefault(path[0], {})[name] = (path[1:], whole)
    return found


def _is_state(left: Paths) -> bool:
    """True for what optimizers keep of parameters: ``NAME.exp_avg``, ``NAME.step`` and the like."""
    return (
        bool(left)
        and all(len(path) > 1 for path, _ in left.values())
        and any(path[-1] in KEPT for path, _ in left.values())
    )


def _pieces(storage: Any) -> dict[str, list[Piece]]:
    found: dict[str, list[Piece]] = {}
    for index, info in storage.items() if isinstance(storage, dict) else ():
        if not isinstance(index, Opaque) or not isinstance(info, Opaque):
            continue
        name, file = index.attribute("fqn"), info.attribute("relative_path")
        offset, length = info.attribute("offset"), info.attribute("length")
        if isinstance(name, str) and isinstance(file, str) and type(offset) is int and type(length) is int:
            found.setdefault(name, []).append(Piece(file, offset, length))
    return found


def _piece_problems(directory: Path, pieces: dict[str, list[Piece]]) -> list[str]:
    """Files that are not there, too short, or named so that they lie elsewhere."""
    needed: dict[str, int] = {}
    for many in pieces.values():
        for piece in many:
            needed[piece.file] = max(needed.get(piece.file, 0), piece.offset + piece.length)
    problems = []
    for file, size in sorted(needed.items()):
        if not _safe(directory, file):
            problems.append(
                text("{name} names a file outside of the directory: {file!r}", name=METADATA, file=file[:100])
            )
        elif not (directory / file).is_file():
            problems.append(text("{name} is missing", name=file))
        elif (directory / file).stat().st_size < size:
            there = (directory / file).stat().st_size
            problems.append(
                text(
                    "{name} is cut off: {size:,} bytes are needed, {there:,} are there",
                    name=file,
                    size=size,
                    there=there,
                )
            )
    return problems


def _safe(directory: Path, file: str) -> bool:
    return "\0" not in file and file not in ("", ".", "..") and "/" not in file


def _small_values(
    directory: Path,
    contents: Contents,
    entries: dict[Any, Any],
    paths: dict[Any, tuple[str, ...]],
    pieces: dict[str, list[Piece]],
) -> None:
    """Step, epoch and the like, wherever they lie."""
    steps: list[float] = []
    wanted = [n for n in entries if isinstance(n, str) and paths[n][-1] in TOLD and pieces.get(n)]
    for name in wanted[:MOST_VALUES]:
        path = paths[name]
        value = _value(directory, name, pieces[name][0])
        if value is None:
            continue
        if path[-1] == "step" and "state" in path[:-1]:
            steps.append(value)
        elif len(path) == 1 or path[-2] in PROGRESS:
            contents.values.setdefault(path[-1], f"{value:g}")
            if path[-1] in STEPS:
                contents.tell_step(value, f"{name} in {METADATA}")
    if steps:
        contents.tell_step(max(steps), "the optimizer's own count")


def _value(directory: Path, name: str, piece: Piece) -> float | None:
    if not _safe(directory, piece.file) or not 0 < piece.length <= LARGEST_VALUE or piece.offset < 0:
        return None
    if not (directory / piece.file).is_file():
        return None
    with (directory / piece.file).open("rb") as stream:
        stream.seek(piece.offset)
        data = stream.read(piece.length)
    if not data.startswith(b"PK"):
        return None
    loaded: Loaded = read_zip(io.BytesIO(data), f"{shown(name, 100)} in {shown(piece.file, 100)}")
    return number(loaded.value, loaded)
