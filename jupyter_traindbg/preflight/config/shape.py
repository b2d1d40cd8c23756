"""The size of the model: from the configuration itself, from a config.json on this machine, or from its name. Nothing is downloaded."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...errors import BadConfig, UsageError
from ...language import text
from ...model import Given, ModelShape
from . import files
from .dialects import common
from .entries import Entry
from .sources import Sources

__all__ = ["parameters_in_words", "shape_of"]

Convert = Callable[[Entry, str, list[str]], Given[Any] | None]

PLAIN_MLP = {
    "bart", "bert", "bloom", "falcon", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj", "mpt", "opt", "phi", "roberta", "starcoder2",
    "t5", "vit", "whisper",
}  # fmt: skip
"""Families (`model_type`) whose MLP has two matrices; that of the others has three."""
SIZE_IN_NAME = re.compile(r"(?<![A-Za-z\d.])(\d+(?:\.\d+)?)([BbMm])(?![A-Za-z\d])")


def shape_of(
    said: Mapping[str, Given[Any]],
    sources: Sources,
    path: str | None,
    parameters: int | None,
    *,
    named: bool,
    convert: Convert,
) -> ModelShape:
    """What is known of the model; the configuration's own words come before the file's, the person's before all.

    `named`: the person named `path`; then `UsageError` is raised where nothing comes of it.
    """
    found: dict[str, Given[Any]] = {}
    if path is not None:
        found = _of_file(path, sources, convert) or _of_name(path)
    if named and not found and path is not None and _config_json(path, sources.folder) is None:
        raise UsageError(
            text("--model {path} is no directory with a config.json, and its name says no size", path=path),
            text("name the directory or the config.json, or say --parameters 7B"),
        )
    found = {**found, **said}
    if parameters is not None:
        found["parameters"] = Given(parameters, "--parameters", "command line")
    gated = _gated(sources, found)
    if gated is not None:
        found.setdefault("gated_mlp", gated)
    return ModelShape(**found)


def parameters_in_words(words: str) -> int:
    """``7B`` -> 7,000,000,000. Raises `ValueError`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *([KMBTkmbt]?)", words.strip())
    if match is None:
        raise ValueError(words)
    return int(float(match[1]) * {"": 1, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}[match[2].lower()])


def _of_file(path: str, sources: Sources, convert: Convert) -> dict[str, Given[Any]]:
    """A config.json by its own name, in a directory, or in the cache of downloaded models."""
    place = _config_json(path, sources.folder)
    if place is None:
        return {}
    try:
        entries = files.read(place)
    except BadConfig as e:
        sources.notes.append(e.cause)
        return {}
    found: dict[str, Given[Any]] = {}
    kinds = {f.name: str(f.type).removeprefix("Given[").partition("]")[0] for f in dataclasses.fields(ModelShape)}
    text_part = [e for e in entries if e.path.startswith(("text_config.", "llm_config."))]
    for entry in text_part or [e for e in entries if "." not in e.path]:  # of a model that sees, the part that reads
        field = common.DIALECT.keys.get(entry.last, "")
        if field.startswith("model."):
            given = convert(entry, kinds[field.removeprefix("model.")], sources.notes)
            if given is not None:
                found[field.removeprefix("model.")] = given
    kind = next((e for e in entries if e.path.endswith("model_type")), None)
    if kind is not None:
        found["gated_mlp"] = Given(str(kind.value).lower() not in PLAIN_MLP, kind.key, kind.file, kind.line)
        if "tied_embeddings" not in found:  # transformers' own default is True
            found["tied_embeddings"] = Given(kind.value in ("gpt2", "gemma", "gemma2", "gemma3"), kind.key, kind.file)
    return found


def _config_json(path: str, folder: Path) -> Path | None:
    for place in (os.path.expanduser(path), os.path.join(folder, path)):  # os.path: a name may be no path at all
        if place.endswith(".json") and os.path.isfile(place):
            return Path(place)
        if os.path.isfile(os.path.join(place, "config.json")):
            return Path(place, "config.json")
    if re.fullmatch(r"[\w.-]+/[\w.-]+", path):
        home = os.environ.get("HF_HOME") or os.path.expanduser("~/.cache/huggingface")
        cache = (
            Path(os.environ.get("HF_HUB_CACHE") or f"{home}/hub") / f"models--{path.replace('/', '--')}" / "snapshots"
        )
        return next(iter(sorted(cache.glob("*/config.json"))), None) if cache.is_dir() else None
    return None


def _of_name(path: str) -> dict[str, Given[Any]]:
    """``Qwen2.5-7B-Instruct`` has about 7 billion parameters, by its name."""
    sizes = list(SIZE_IN_NAME.finditer(Path(path).name))
    if not sizes:
        return {}
    match = sizes[-1]
    by_name = text("the name {name}", name=Path(path).name)
    return {"parameters": Given(parameters_in_words(match[1] + match[2]), "parameters", by_name)}


def _gated(sources: Sources, found: Mapping[str, Given[Any]]) -> Given[bool] | None:
    """By the family, if the configuration names it."""
    kind = sources.value("model_type") or sources.value("model.model_type")
    if not isinstance(kind, str) or "hidden_size" not in found:
        return None
    return Given(kind.lower() not in PLAIN_MLP, "model_type", found["hidden_size"].file)
