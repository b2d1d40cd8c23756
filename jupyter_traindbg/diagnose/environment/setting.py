"""The environment of all ranks side by side, and how a judgement on it is written down."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ...language import text
from ...model import Finding, rank_subjects
from ...words.ranks import ranks_words
from .. import knowledge
from ..knowledge import Variable

__all__ = ["Judged", "Rule", "Setting", "judge", "ranks_in_words", "shown"]

SECRET = re.compile(r"TOKEN$|KEY$|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
LOOPBACK = re.compile(r"localhost|localhost\..*|127\.\d+\.\d+\.\d+|::1|\[::1\]", re.IGNORECASE)
FEW = 8
"""So many values are told, with the ranks that have them."""


@dataclass(frozen=True)
class Judged:
    """A finding with the variables that it is about. ``differs``: it says that ranks disagree."""

    names: tuple[str, ...]
    finding: Finding
    differs: bool = False


@dataclass(frozen=True)
class Setting:
    """What all ranks have in their environment, and what else is known: see `environment.findings`."""

    environ: Mapping[int, Mapping[str, str]]
    backend: str | None
    versions: Mapping[str, str]
    interfaces: Mapping[int, Sequence[str]]
    of_ranks: bool = True
    """False for the environment of one process that is no rank: evidence then names none."""

    @cached_property
    def names(self) -> list[str]:
        """Of everything that is set somewhere."""
        return sorted({name for environ in self.environ.values() for name in environ})

    @cached_property
    def nccl(self) -> bool:
        """Whether NCCL is, or may be, in use."""
        return self.backend is None or "nccl" in self.backend.lower()

    def values(self, name: str) -> list[tuple[str | None, tuple[int, ...]]]:
        """The values of `name` with the ranks that have them, the commonest first; None for not set."""
        by_value: dict[str | None, list[int]] = {}
        for rank, environ in self.environ.items():
            by_value.setdefault(environ.get(name), []).append(rank)
        return [
            (value, tuple(ranks))
            for value, ranks in sorted(by_value.items(), key=lambda item: (-len(item[1]), item[1]))
        ]

    def where(self, name: str, holds: Callable[[str], bool]) -> tuple[int, ...]:
        """The ranks on which `name` is set, and to something for which `holds`."""
        return tuple(rank for rank, environ in self.environ.items() if name in environ and holds(environ[name]))

    def on(self, name: str) -> tuple[int, ...]:
        """The ranks on which the switch `name` is on."""
        return self.where(name, lambda value: value.strip().lower() in ("1", "true", "yes", "y", "t", "on"))

    def off(self, name: str) -> tuple[int, ...]:
        """The ranks on which it is set, and off."""
        return self.where(name, lambda value: value.strip().lower() in ("0", "false", "no", "n", "f", "off"))

    def newest(self, new: str, old: str, holds: Callable[[str], bool]) -> tuple[int, ...]:
        """Like `where`, for a variable with an older name, which counts where the new one is not set."""
        by_old = tuple(r for r in self.where(old, holds) if new not in self.environ[r])
        return tuple(sorted({*self.where(new, holds), *by_old}))

    def machine(self, rank: int) -> str | None:
        """Something that tells machines apart; None where nothing does."""
        environ = self.environ[rank]
        if environ.get("WORLD_SIZE") is not None and environ.get("WORLD_SIZE") == environ.get("LOCAL_WORLD_SIZE"):
            return "the only one"
        return next((environ[n] for n in ("GROUP_RANK", "NODE_RANK", "SLURM_NODEID") if n in environ), None)

    @cached_property
    def told(self) -> tuple[int, ...]:
        """The ranks whose environment a launcher made. A rank that starts the others itself (Lightning's first) sets its own variables
        later, where they cannot be seen, and gives them to the others: what it lacks is no disagreement.
        """
        named = tuple(rank for rank, environ in self.environ.items() if "RANK" in environ or "LOCAL_RANK" in environ)
        return named or tuple(self.environ)

    def spread(self, rank: int) -> bool:
        """Whether the job of `rank` is known to have ranks on other machines."""
        world, here = self.environ[rank].get("WORLD_SIZE", ""), self.environ[rank].get("LOCAL_WORLD_SIZE", "")
        return world.isdigit() and here.isdigit() and int(world) > int(here) > 0

    def gone(self, variable: Variable) -> bool:
        """Whether nobody reads a dead variable any more, in the version that is in use (the current one, where that is not known)."""
        package = {"PyTorch": "torch"}.get(variable.reader, variable.reader).lower()
        versions = {name.lower(): words for name, words in self.versions.items()}
        has, until = version(versions.get(package, "")), version(variable.until)
        return not has or has >= until

    def unused(self, name: str) -> bool:
        """Whether `name` speaks to NCCL in a job that has another backend. The flight recorder's old names serve all backends."""
        variable = knowledge.find(name)
        shared = ("TORCH_NCCL_TRACE_", "TORCH_NCCL_DEBUG_INFO_")
        speaks = name.startswith("TORCH_NCCL_") or (variable is not None and variable.reader == "NCCL")
        return not self.nccl and speaks and not name.startswith(shared)


Rule = Callable[[Setting], Iterable[Judged]]


def version(words: str) -> tuple[int, ...]:
    """``"2.13.0+cpu"`` -> ``(2, 13, 0)``; empty where there is none."""
    numbers = re.match(r"\D*(\d+(?:\D\d+)*)", words.partition("+")[0])
    return tuple(int(n) for n in re.findall(r"\d+", numbers[1])) if numbers else ()


def judge(
    setting: Setting,
    names: Sequence[str],
    ranks: Sequence[int],
    severity: Literal["critical", "warning", "info"],
    *,
    title: str,
    cause: str,
    steps: Sequence[str],
    differs: bool = False,
    confidence: Literal["high", "medium", "low"] = "high",
) -> Judged:
    """A finding about `names` on `ranks`. Its evidence is what is set there; its reference, the row of the first of them."""
    variable = knowledge.find(names[0])
    finding = Finding(
        code="environment",
        severity=severity,
        title=title,
        who=[] if len(ranks) == len(setting.environ) else list(rank_subjects(ranks)),
        evidence=[line for name in names for line in _evidence(setting, name)],
        cause=cause,
        next_steps=list(steps),
        reference=None if variable is None else variable.source,
        confidence=confidence,
    )
    return Judged(tuple(names), finding, differs)


def _evidence(setting: Setting, name: str) -> list[str]:
    lines = []
    for value, ranks in setting.values(name)[:FEW]:
        what = text("{name} is not set", name=name) if value is None else f"{name}={shown(name, value)}"
        who = ranks_in_words(ranks, len(setting.environ)) if setting.of_ranks else ""
        lines.append(text("{who}: {what}", who=who, what=what) if who else what)
    return lines


def ranks_in_words(ranks: Sequence[int], of: int) -> str:
    """``all ranks``, or which of them."""
    return text("all ranks") if len(ranks) == of and of > 1 else ranks_words(ranks)


def shown(name: str, value: str | None) -> str | None:
    """`value`, unless it is a secret; addresses are shown without user and password."""
    if value is None:
        return None
    return "(hidden)" if SECRET.search(name) else re.sub(r"//[^/@\s]*@", "//(hidden)@", value)
