"""Entries in the words of frameworks -> a `Plan` in ours."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...language import text
from ...model import Given, Machine, ModelShape, Plan
from ...outside import procfs
from . import shape
from .dialects import Dialect, spoken
from .entries import Entry, printable
from .sources import Sources

__all__ = ["plan_of"]

SAYS_NOTHING = ("", "auto", "gpu", "none", "null", "default", "inf", "???")
GROUPS = ("model_", "training_", "optimization_", "distributed_", "data_", "checkpoint_")
"""Prefixes of option names that some projects build from the groups of their configuration: ``--model-hidden-size``."""
CREDENTIALS = re.compile(r"(://)[^/@\s]{1,400}@")
"""Of ``https://user:password@host``."""
YES = ("true", "yes", "on", "1", "cpu", "nvme", "full", "unsloth")
NO = ("false", "no", "off", "0", "none", "selective")


def plan_of(sources: Sources, machine: Machine, *, parameters: int | None = None, model: str | None = None) -> Plan:
    """The `Plan` of all that was read. `parameters` and `model` (a config.json, or a directory with one) are the person's own words.

    What a key says that is of no use is put into ``sources.notes``; unknown keys are passed over.
    """
    dialects = spoken({entry.path for entry in sources.entries}, sources.programs)
    values: dict[str, Given[Any]] = {}
    shaped: dict[str, Given[Any]] = {}
    mentioned: set[str] = set()
    for entry in sources.entries:
        field = _field(entry, dialects)
        if field is not None:
            of_model = field.startswith("model.")
            mentioned.add(field)
            kinds = _kinds(ModelShape if of_model else Plan)
            given = _converted(entry, kinds[field.removeprefix("model.")], sources.notes)
            target = shaped if of_model else values
            if given is not None:
                target[field.removeprefix("model.")] = given
            elif entry.value is None or entry.value == "":
                target.pop(field.removeprefix("model."), None)  # null takes back what was said before
    for dialect in dialects:
        for field, value in dialect.defaults.items():
            if field not in mentioned:  # a value that only a shell could tell is not the default either
                values.setdefault(field, Given(value, field, f"{dialect.name}'s default"))
    _split_tokens(values)
    _find_disk(sources.entries, dialects, values)
    path = model or (values["model_path"].value if "model_path" in values else None)
    names = tuple(dict.fromkeys(d.name for d in dialects if d.marks))
    said: dict[str, Any] = dict(values)
    return Plan(
        machine=machine,
        dialects=names,
        files=tuple(sources.files),
        model=shape.shape_of(shaped, sources, path, parameters, named=model is not None, convert=_converted),
        environ=_environ(sources.environ),
        **said,
    )


def _field(entry: Entry, dialects: Sequence[Dialect]) -> str | None:
    for dialect in dialects:
        if entry.path in dialect.keys:
            return dialect.keys[entry.path]
    if any(dialect.complete for dialect in dialects):
        return None
    parts = entry.path.split(".")
    words = [
        ".".join(parts[i:]) for i in range(len(parts))
    ]  # the longest says most: selfplay.num_workers is no DataLoader's
    words += [entry.last.removeprefix(g) for g in GROUPS if entry.last.startswith(g)]
    return next((d.keys[word] for word in words for d in dialects if d.anywhere and word in d.keys), None)


def _split_tokens(values: dict[str, Given[Any]]) -> None:
    """FSDP's one string of words, ``full_shard auto_wrap offload``, is about offloading as well."""
    sharding = values.get("sharding")
    if sharding is not None and "offload" in sharding.value.lower().split():
        values["offload_parameters"] = dataclasses.replace(sharding, value=True)
        values["offload_optimizer"] = dataclasses.replace(sharding, value=True)


def _find_disk(entries: Sequence[Entry], dialects: Sequence[Dialect], values: dict[str, Given[Any]]) -> None:
    """``offload_optimizer.device: nvme`` says where to as well."""
    for entry in entries:
        if entry.value == "nvme" and (_field(entry, dialects) or "").startswith("offload_"):
            values["offload_to_disk"] = Given(True, entry.key, entry.file, entry.line)


def _environ(found: Mapping[str, Entry]) -> dict[str, Given[str]]:
    """The variables that have to do with training, where their values are known. Others, and most secrets, are left where they are."""
    return {
        name: Given("(hidden)" if procfs.SECRET.search(name) else str(entry.value), name, entry.file, entry.line)
        for name, entry in found.items()
        if procfs.TRAINING_ENV.fullmatch(name) and "$" not in str(entry.value) and "`" not in str(entry.value)
    }


# --- values ------------------------------------------------------------------------------------------------------------


def _kinds(of: type) -> dict[str, str]:
    """``"int"`` for a field that is a ``Given[int] | None``."""
    return {f.name: str(f.type).removeprefix("Given[").partition("]")[0] for f in dataclasses.fields(of)}


def _converted(entry: Entry, kind: str, notes: list[str]) -> Given[Any] | None:
    """`entry` as a value of this kind; None where it says nothing: ``auto``, null, an unresolved ``$VARIABLE``."""
    value = entry.value
    if isinstance(value, str) and (value.strip().lower() in SAYS_NOTHING or "$" in value):
        return None
    if value is None or (isinstance(value, (list, tuple)) and not value):
        return None
    made = CONVERT[kind](value)
    if made is None:
        words = printable(str(value))[:40]
        notes.append(
            text(
                "{printable}: '{words}' is no {WORDS}; passed over",
                printable=printable(entry.key),
                words=words,
                WORDS=WORDS[kind],
            )
        )
        return None
    return Given(made, printable(entry.key), printable(entry.file), entry.line)


def _int(value: Any) -> int | None:
    if isinstance(value, str):
        value = value.rpartition(":")[2].replace(",", "").replace("_", "")  # torchrun's MIN:MAX
    number = _float(value)
    return int(number) if number is not None and number.is_integer() else None


def _float(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and abs(number) < 1e18 else None


def _bool(value: Any) -> bool | None:
    word = str(value).strip().lower()
    return True if word in YES else False if word in NO else None


def _str(value: Any) -> str | None:
    if isinstance(value, (list, tuple)):
        value = " ".join(map(str, value[:20]))
    return CREDENTIALS.sub(r"\1(hidden)@", printable(str(value))[:4096])


CONVERT: dict[str, Callable[[Any], Any]] = {"int": _int, "float": _float, "bool": _bool, "str": _str}
WORDS = {"int": "whole number", "float": "number", "bool": "switch", "str": "text"}
