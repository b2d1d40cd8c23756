"""Directories of torch.distributed.checkpoint: ``.metadata`` names every tensor and where its pieces lie, ``__R_N.distcp`` has them."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import BadCheckpoint
from .contents import PROGRESS, STEPS, TOLD, Contents, Loaded, Section, dtype_of, keys_of, number, role_of
from .pickles import read_pickle
from .torchfile import read_zip
from .values import Opaque, TensorEntry, shown, word

__all__ = ["METADATA", "read_dcp"]

METADATA = ".metadata"
LARGEST_VALUE = 1024**2
MOST_VALUES = 5000


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
        raise BadCheckpoint(f"{METADATA} of {shown(directory)} holds no metadata of torch.distributed.checkpoint")
    pieces = _pieces(metadata.attribute("storage_data"))
    contents.problems += _piece_problems(directory, pieces)
    paths = _paths(entries, metadata.attribute("planner_data"))
    split = _by_parts(paths)
    found: dict[str, list[tuple[tuple[str, ...], TensorEntry]]] = {}
    for name, entry in entries.items():
        path = paths[name]
        role = (role_of(path[0]) or "other") if split else "model"
        tensor = _tensor(entry)
        if tensor is not None:
            found.setdefault(f"{role}\0{path[0] if split else ''}", []).append(
                (path[1:] if split and len(path) > 1 else path, tensor)
            )
        elif split and role != "other":
            found.setdefault(f"{role}\0{path[0]}", [])
    for key, tensors in found.items():
        role, _, top = key.partition("\0")
        if role != "other":
            contents.sections.append(Section(role, f"{METADATA}: {top}" if top else METADATA, keys_of(tensors)))
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
        raise BadCheckpoint(f"{METADATA} is damaged: a tensor without a size")
    return TensorEntry(size, dtype_of(dtype))


def _paths(entries: dict[Any, Any], planner: Any) -> dict[Any, tuple[str, ...]]:
    """Each entry's path in the nested state dict, from the planner where it noted it."""
    known = planner if isinstance(planner, dict) else {}
    return {
        name: tuple(word(part) for part in known[name])
        if isinstance(known.get(name), (tuple, list)) and known[name]
        else tuple(word(name).split("."))
        for name in entries
    }


def _by_parts(paths: dict[Any, tuple[str, ...]]) -> bool:
    """Whether the first part of the names says model, optimizer, ...; in a bare state dict of a model it does not."""
    tops = {path[0] for path in paths.values() if path}
    roles = {role_of(top) for top in tops}
    nested = all(len(path) > 1 for path in paths.values() if role_of(path[0]) == "model")
    return "optimizer" in roles or (None not in roles and nested) or (roles - {None, "model"} != set() and nested)


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
            problems.append(f"{METADATA} names a file outside of the directory: {file[:100]!r}")
        elif not (directory / file).is_file():
            problems.append(f"{file} is missing")
        elif (directory / file).stat().st_size < size:
            problems.append(
                f"{file} is cut off: {size:,} bytes are needed, {(directory / file).stat().st_size:,} are there"
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
