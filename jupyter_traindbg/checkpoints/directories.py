"""Checkpoints that are directories: Hugging Face's, accelerate's, DeepSpeed's, Megatron's, torch.distributed.checkpoint's and our own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ..errors import BadCheckpoint, UsageError
from ..language import text
from . import manifest
from .contents import Contents, Section
from .dcp import METADATA, read_dcp
from .reading import SUFFIXES, read_into
from .values import shown

__all__ = ["read_directory"]

ALIKE = 8
"""So many files that differ in a number only (one a rank) are read."""
PER_RANK = re.compile(r"^(rank|rng_state|random_states|dl_state_dict)[-_]?\d|_optim_states\.pt$")
NOT_RESUMED = ("training_args.bin",)
"""Pickled settings that no resume needs."""
LARGEST_JSON = 64 * 1024**2
MOST_FILES = 100_000


def read_directory(directory: Path) -> Contents:
    """What is in a directory that is one checkpoint."""
    if directory.name.startswith(".") and ".partial-" in directory.name:
        manifest.read(directory)  # says that it was never finished
    files = sorted(p for p in directory.rglob("*") if p.is_file())[:MOST_FILES]
    names = [p.relative_to(directory).as_posix() for p in files]
    contents = Contents(str(directory), "", sum(p.stat().st_size for p in files), names)
    if manifest.is_ours(directory):
        _ours(directory, contents)
    else:
        contents.format = _format(names)
    _indexed_and_plain(directory, contents)
    folders = [directory, *sorted(p for p in directory.iterdir() if p.is_dir())]
    for folder in folders:
        if (folder / METADATA).is_file():
            _dcp(folder, contents)
    _trainer_state(directory, contents)
    if not contents.sections and not contents.problems:
        raise _nothing(directory, contents)
    return contents


MARKS: tuple[tuple[str, str], ...] = (
    (r"trainer_state\.json", "Hugging Face Trainer"),
    (r"zero_to_fp32\.py|.*_(model|optim)_states\.pt", "DeepSpeed"),
    (r"latest_checkpointed_iteration\.txt|.*model_optim_rng\.pt", "Megatron"),
    (r"\.metadata", "torch.distributed.checkpoint"),
    (r"random_states_\d+\.pkl", "accelerate"),
    (r"config\.json|.*\.index\.json", "Hugging Face model"),
    (r"adapter_config\.json", "PEFT adapter"),
)
"""A file that gives each format away, the more telling ones first."""


def _format(names: list[str]) -> str:
    return next(
        (what for mark, what in MARKS if any(re.fullmatch(mark, name) for name in names)),
        "directory of checkpoint files",
    )


# --- the files of a directory ------------------------------------------------------------------------------------------


def _indexed_and_plain(directory: Path, contents: Contents) -> None:
    indexed: set[str] = set()
    for index in sorted(directory.glob("*.index.json")):
        indexed |= _index(directory, index, contents)
    alike: dict[str, int] = {}
    left_out: dict[str, int] = {}
    for file in _candidates(directory):
        if file.name in indexed or file.name in NOT_RESUMED:
            continue
        pattern = re.sub(r"\d+", "N", file.name)
        alike[pattern] = alike.get(pattern, 0) + 1
        if PER_RANK.search(file.name) and alike[pattern] > ALIKE:
            left_out[pattern] = left_out.get(pattern, 0) + 1
            continue
        _one_file(file, contents)
    contents.notes += [text("{n} more files like {pattern} were not read", n=n, pattern=p) for p, n in left_out.items()]


def _candidates(directory: Path) -> list[Path]:
    """The files that may hold tensors; of DeepSpeed and Megatron also those one level down, where the directory says which."""
    found = [p for p in sorted(directory.iterdir()) if p.is_file() and p.name.endswith(SUFFIXES)]
    latest = directory / "latest"
    if latest.is_file() and latest.stat().st_size < 256:
        folder = directory / latest.read_text("utf-8", "replace").strip()
        if folder.parent == directory and folder.is_dir():
            found += [p for p in sorted(folder.iterdir()) if p.is_file() and p.name.endswith(SUFFIXES)]
    return found


def _one_file(file: Path, contents: Contents) -> None:
    """A file that cannot be read does not hide the others; one that is dangerous ends it all."""
    try:
        read_into(contents, file)
    except BadCheckpoint as e:
        contents.problems.append(e.cause)
    except OSError as e:
        contents.problems.append(text("{path} cannot be read: {why}", path=file.name, why=e.strerror or e))


def _dcp(folder: Path, contents: Contents) -> None:
    try:
        read_dcp(folder, contents)
    except BadCheckpoint as e:
        contents.problems.append(e.cause)


def _index(directory: Path, index: Path, contents: Contents) -> set[str]:
    """A model in several files, with an index of which tensor is in which; the names of these files."""
    weight_map = _json(index, contents).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(v, str) for v in weight_map.values()):
        contents.problems.append(text("{name} is damaged: it has no weight_map", name=index.name))
        return set()
    shards = sorted(set(weight_map.values()))
    model = Section("model", f"{index.name} ({len(shards)} files)")
    for shard in shards:
        if "/" in shard or shard in ("", ".", "..") or "\0" in shard:
            contents.problems.append(
                text("{name} names a file outside of the directory: {file!r}", name=index.name, file=shard[:100])
            )
            continue
        if not (directory / shard).is_file():
            contents.problems.append(text("{file} is missing, and {name} names it", file=shard, name=index.name))
            continue
        part = Contents("", "", 0, [])
        _one_file(directory / shard, part)
        contents.problems += part.problems
        contents.refused += part.refused
        contents.classes = (
            sorted({*contents.classes, *part.classes}) if contents.classes and part.classes else part.classes
        )
        held = part.keys()
        model.tensors += held
        wanted = {name for name, where in weight_map.items() if where == shard}
        absent = wanted - {t.name for t in held}
        if absent and not part.problems:
            contents.problems.append(
                text(
                    "{file} lacks {count} tensors that {name} says are in it: {first}",
                    file=shard,
                    count=len(absent),
                    name=index.name,
                    first=min(absent)[:100],
                )
            )
    contents.sections.append(model)
    return set(shards)


def _json(file: Path, contents: Contents) -> dict[str, Any]:
    try:
        if file.stat().st_size > LARGEST_JSON:
            raise ValueError(text("it is too large"))
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as e:
        contents.problems.append(text("{name} is damaged: {why}", name=file.name, why=str(e)[:100]))
        return {}
    return content if isinstance(content, dict) else {}


def _trainer_state(directory: Path, contents: Contents) -> None:
    file = directory / "trainer_state.json"
    if file.is_file():
        state = _json(file, contents)
        contents.step = None  # the Trainer's own count is the one it resumes from
        contents.tell_step(state.get("global_step"), text("global_step in trainer_state.json"))
        if contents.step is not None:
            contents.sections.append(
                Section("loader", file.name, note=text("the Trainer skips the batches that it has counted"))
            )
        for name in ("epoch", "max_steps", "best_metric"):
            if isinstance(state.get(name), (int, float)):
                contents.values[name] = str(state[name])
    megatron = directory / "latest_checkpointed_iteration.txt"
    if megatron.is_file() and megatron.stat().st_size < 64:
        words = megatron.read_text("utf-8", "replace").strip()
        if words.isascii() and words.isdigit():
            contents.tell_step(int(words), megatron.name)


def _nothing(directory: Path, contents: Contents) -> UsageError:
    inner = sorted(p.name for p in directory.iterdir() if p.is_dir() and re.search(r"\d$", p.name))
    if inner:
        newest = text(", ").join(inner[-5:])
        return UsageError(
            text(
                "{directory} holds {count} checkpoints and is none itself", directory=shown(directory), count=len(inner)
            ),
            text("name one of them: {newest}", newest=shown(newest)),
        )
    return UsageError(
        text("{path} holds no checkpoint that can be read", path=shown(directory))
        if contents.format == "directory of checkpoint files"
        else text(
            "{path} ({format}) holds no checkpoint that can be read", path=shown(directory), format=contents.format
        ),
        text("name a checkpoint file or directory"),
    )


# --- our own -------------------------------------------------------------------------------------------------------------


def _ours(directory: Path, contents: Contents) -> None:
    contents.format = "traindbg checkpoint"
    try:
        about = manifest.read(directory)
    except BadCheckpoint as e:
        contents.problems.append(e.cause)
        return
    contents.format = f"traindbg checkpoint, {about.kind}"
    if not about.sealed:
        contents.problems.append(text("{name} is not what was written: its seal is broken", name=manifest.NAME))
    absent = [name for name in about.files if not (directory / name).is_file()]
    contents.problems += [text("{name} is missing", name=name) for name in absent]
    contents.tell_step(about.step, manifest.NAME)
    contents.no_step = manifest.no_step(about)
    contents.exact = about.exact
    contents.not_finite = [shown(part, 200) for part in about.not_finite]
    for other in about.others:
        words = f"{other['name']} ({str(other['class']).rpartition('.')[2]})"
        contents.besides[str(other["file"]).removesuffix(".pt")] = shown(words, 100)
    contents.values |= {"taken": about.taken, "ranks": str(len(about.ranks)), "world size": str(about.world_size)}
    contents.notes += about.notes
    if about.mixed:
        contents.notes.append(text("its ranks were at different optimizer steps"))
    if not about.schedulers:
        contents.without.append("scheduler")
