"""Our own checkpoints: a directory whose ``manifest.json``, written last, lists every file with its size and SHA-256, and seals itself.

While it is being written the directory is called ``.NAME.partial-IDENT``; under its own name it is complete. The manifest:

    {"format": "traindbg-checkpoint", "version": 1, "kind": "replicated" | "sharded", "created_s": 1.7e9 (Unix time), "world_size": 2,
     "ranks": [0, 1], "step": 12 | null (the optimizer's own count), "steps": {"0": 12, "1": 12}, "mixed": false,
     "since_attach": {"0": 4, "1": 4} (steps that each rank's agent had seen),
     "taken": "loop boundary" | "hung" | ..., "exact": true, "notes": [], "said": [] (the notes, `agent.saying.packed`),
     "not_finite": [],
     "versions": {}, "command": [], "cwd": "", "counters": {},
     "models": [{"class", "file", "parameters"}], "optimizers": [], "schedulers": [], "others": [], "actions": [],
     "files": {NAME: {"bytes": 10, "sha256": HEX, "rank": 0 | null}}, "self_sha256": HEX}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..agent.checkpoint.seal import SEAL, file_bytes, seal
from ..agent.saying import unpacked
from ..errors import BadCheckpoint, UsageError
from ..language import text
from ..model import StepNumber
from ..spoken import spoken
from ..step_numbers import step_words
from .values import shown

__all__ = ["FORMAT", "NAME", "VERSION", "Manifest", "Written", "is_ours", "no_step", "parse", "read"]

NAME = "manifest.json"
FORMAT = "traindbg-checkpoint"
VERSION = 1
LARGEST = 256 * 1024**2
"""Bytes of a manifest: 64 of them are a million files."""


@dataclass(frozen=True)
class Written:
    """One file as it was written; `rank` wrote it where it belongs to one rank."""

    bytes: int
    sha256: str
    rank: int | None = None


@dataclass(frozen=True)
class Manifest:
    """What the manifest says. `steps` are the ranks' own; `mixed`: they differ; `exact`: a resume continues bit-identically.

    `sealed`: the file is, byte for byte, what was written.
    """

    path: Path
    kind: str
    created_s: float
    world_size: int
    ranks: Sequence[int]
    step: int | None
    steps: Mapping[int, int | None]
    mixed: bool
    taken: str
    exact: bool
    sealed: bool
    ident: str = ""
    """Of the attempt that wrote it."""
    since_attach: Mapping[int, int] = field(default_factory=dict)
    """By rank, how many steps its agent had seen."""
    notes: Sequence[str] = ()
    not_finite: Sequence[str] = ()
    """The parts with a NaN or an infinity in them, in words."""
    versions: Mapping[str, Any] = field(default_factory=dict)
    command: Sequence[str] = ()
    cwd: str = ""
    counters: Mapping[str, Any] = field(default_factory=dict)
    models: Sequence[Mapping[str, Any]] = ()
    optimizers: Sequence[Any] = ()
    schedulers: Sequence[Any] = ()
    others: Sequence[Mapping[str, Any]] = ()
    """What was saved besides: ``name`` (of the variable), ``class``, ``file``, ``module``."""
    actions: Sequence[Any] = ()
    files: Mapping[str, Written] = field(default_factory=dict)


def no_step(about: Manifest) -> str:
    """Why a checkpoint of ours has no step, and what is known in place of it."""
    why = text("its optimizers keep no count of their steps")
    seen = [StepNumber(step, None) for step in about.since_attach.values()]
    return text("{why}; it was taken after {step}", why=why, step=step_words(*seen)) if seen else why


def is_ours(directory: Path) -> bool:
    """True where `directory` has a manifest that looks like ours, damaged or not."""
    try:
        with (directory / NAME).open("rb") as stream:
            return FORMAT.encode() in stream.read(LARGEST)
    except OSError:
        return False


def read(directory: str | Path) -> Manifest:
    """The manifest of one of our checkpoints.

    Raises `UsageError` where there is no such directory, it is not one of ours, or it was never finished; `BadCheckpoint` where the
    manifest is damaged so much that it cannot be read. One that is readable and was changed has ``sealed`` False.
    """
    path = Path(directory)
    return parse(path, _raw(path))


def parse(path: Path, raw: bytes) -> Manifest:
    """The manifest of the checkpoint at `path`, which may be another host's, from the bytes of its file. Raises what `read` raises."""
    content = _content(path, raw)
    if content.get("format") != FORMAT:
        raise _not_ours(path)
    version = content.get("version")
    if version != VERSION:
        raise BadCheckpoint(
            text(
                "{path} is a checkpoint of version {version}, and this traindbg reads version {ours}",
                path=shown(path),
                version=str(version)[:20],
                ours=VERSION,
            ),
            text("update jupyter-traindbg, or verify it with the version that wrote it"),
        )
    try:
        return _manifest(path, content, raw)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as e:
        raise BadCheckpoint(
            text("{path} is damaged: {kind}: {why}", path=shown(path / NAME), kind=type(e).__name__, why=str(e)[:200])
        ) from e


def _raw(path: Path) -> bytes:
    _check_directory(path)
    try:
        with (path / NAME).open("rb") as stream:
            raw = stream.read(LARGEST + 1)
    except OSError as e:
        raise BadCheckpoint(text("{path} cannot be read: {why}", path=shown(path / NAME), why=e.strerror or e)) from e
    return raw


def _content(path: Path, raw: bytes) -> dict[str, Any]:
    if len(raw) > LARGEST:
        raise BadCheckpoint(
            text(
                "{path} has more than {largest:,} bytes: no manifest of ours", path=shown(path / NAME), largest=LARGEST
            )
        )
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as e:
        raise BadCheckpoint(
            text("{path} is damaged: it is no JSON ({why})", path=shown(path / NAME), why=str(e)[:100])
        ) from e
    if not isinstance(content, dict):
        raise _not_ours(path)
    return content


def _check_directory(path: Path) -> None:
    try:
        if not path.exists():
            unfinished = sorted(path.parent.glob(f".{_literally(path.name)}.partial-*")) if path.parent.is_dir() else []
            if unfinished:
                raise UsageError(
                    text(
                        "{path} was never finished: only {name} is there",
                        path=shown(path),
                        name=shown(unfinished[0].name),
                    ),
                    text("it is no checkpoint; take another one, and remove the unfinished directory"),
                )
            raise UsageError(text("nothing is at {path}", path=shown(path)), text("check the path of the checkpoint"))
        if not path.is_dir():
            raise UsageError(
                text("{path} is no directory", path=shown(path)),
                text("our checkpoints are directories; `--inspect` reads other files"),
            )
    except (OSError, ValueError) as e:
        raise UsageError(
            text("{path} cannot be looked at: {why}", path=shown(path), why=e),
            text("name the directory of a checkpoint"),
        ) from e
    if path.name.startswith(".") and ".partial-" in path.name:
        raise UsageError(
            text("{path} was never finished: it has its temporary name", path=shown(path)),
            text("it is no checkpoint; take another one"),
        )
    if not (path / NAME).is_file():
        raise _not_ours(path)


def _literally(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def _not_ours(path: Path) -> UsageError:
    return UsageError(
        text("{path} is not a checkpoint of traindbg's: it has no {name} of ours", path=shown(path), name=NAME),
        text("only those carry checksums; `%checkpoint --inspect PATH` reads others"),
    )


def _manifest(path: Path, content: dict[str, Any], raw: bytes) -> Manifest:
    files = {str(name): _written(entry) for name, entry in content["files"].items()}
    sealed = seal(content)[SEAL] == content.get(SEAL) and file_bytes(content) == raw
    return Manifest(
        path=path,
        kind=str(content["kind"]),
        created_s=float(content["created_s"]),
        world_size=int(content["world_size"]),
        ranks=tuple(int(r) for r in content["ranks"]),
        step=_optional(content["step"]),
        steps={int(rank): _optional(step) for rank, step in content["steps"].items()},
        mixed=bool(content["mixed"]),
        taken=str(content["taken"]),
        exact=bool(content["exact"]),
        sealed=sealed,
        ident=str(content.get("ident", "")),
        since_attach={int(rank): int(step) for rank, step in content.get("since_attach", {}).items()},
        notes=_notes(content),
        not_finite=tuple(str(part) for part in content.get("not_finite", ())),
        versions=dict(content.get("versions", {})),
        command=tuple(str(word) for word in content.get("command", ())),
        cwd=str(content.get("cwd", "")),
        counters=dict(content.get("counters", {})),
        models=tuple(dict(m) for m in content.get("models", ())),
        optimizers=tuple(content.get("optimizers", ())),
        schedulers=tuple(content.get("schedulers", ())),
        others=tuple(dict(other) for other in content.get("others", ())),
        actions=tuple(content.get("actions", ())),
        files=files,
    )


def _notes(content: Mapping[str, Any]) -> tuple[str, ...]:
    """In the reader's language, where the file tells them apart from what is in them."""
    notes = [str(note) for note in content.get("notes", ())]
    told = [unpacked(parts) for parts in content.get("said", ())]
    return tuple(map(spoken, told)) if [str(one) for one in told] == notes else tuple(notes)


def _written(entry: Any) -> Written:
    return Written(int(entry["bytes"]), str(entry["sha256"]), _optional(entry.get("rank")))


def _optional(value: Any) -> int | None:
    return None if value is None else int(value)
