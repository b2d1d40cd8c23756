"""Whether a training that runs is sound: one file a topic, each with a ``rule(case)``, which blames, and ``words(case)``, which tells what
it saw where nothing is to be blamed, or why it could not look.

A topic also says which ``VERB`` shows more of it, which ``CODES`` its findings have, and in ``EXPLAINS`` which codes are merely symptoms of
one of them. Pure functions, as those of `diagnose.hang`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import ModuleType

from ...language import text
from ...model import Check, Finding, NotAvailable
from ...words.ranks import ranks_words
from ..hang.case import Case, Hit
from . import memory, pairing
from .seen import seen

__all__ = ["CODES", "NO_HANG", "SLOWS", "UNSOUND", "blamed", "checks", "rules", "settles_in_s", "topics"]

ORDER = ("loss", "gradients", "learning_rate", "scaler", "pairing", "memory", "data", "waiting", "collections")
SLOWS = frozenset({"data_wait", "host_wait", "full_collections"})
"""Findings that say why a training is slow."""
UNSOUND = frozenset(
    {"lr_implausible", "nonfinite_activation", "nonfinite_loss", "nonfinite_gradient", "loss_diverging", "lr_differs", "lr_zero",
     "scaler_skips", "zero_gradients"}
)  # fmt: skip
"""Findings that say that what a training makes is worth nothing, however well it gets on."""
NO_HANG = SLOWS | UNSOUND | memory.CODES
"""None of these says why a job stands still."""
CODES = NO_HANG | pairing.CODES


def topics() -> list[ModuleType]:
    """The modules here that have a ``rule``, in the order in which they are told."""
    found = [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]
    return sorted((m for m in found if hasattr(m, "rule")), key=lambda m: ORDER.index(m.__name__.rsplit(".", 1)[-1]))


def rules() -> list[Callable[[Case], list[Hit]]]:
    """The ``rule`` of every topic."""
    return [topic.rule for topic in topics()]


def checks(case: Case, findings: Sequence[Finding]) -> list[Check]:
    """What was looked at, topic by topic, and in which of them `findings` were made; empty for a job of which no rank runs and no step is
    known.
    """
    if not any(v.doings or v.pace for v in case.views) and not seen(case):
        return []
    codes = {f.code for f in findings}
    return [_check(topic, case, codes) for topic in topics()]


def settles_in_s(case: Case) -> float | None:
    """After how many seconds a second look would settle what this one leaves open; None where it leaves nothing open."""
    return memory.settles_in_s(case)


def _check(topic: ModuleType, case: Case, codes: set[str]) -> Check:
    name, verb = text(topic.TOPIC), topic.VERB
    if codes & topic.CODES:
        return blamed(Check(name, "trouble", "", verb))
    said = topic.words(case)
    if isinstance(said, NotAvailable):
        return Check(name, "not known", said.reason, verb)
    return Check(name, "fine", said + _but(case), verb)


def blamed(check: Check) -> Check:
    """The same topic, where a finding tells more."""
    return replace(check, state="trouble", words=text("see above"))


def _but(case: Case) -> str:
    """Of which living ranks nothing is known."""
    unknown = [v.rank for v in case.views if v.doings and isinstance(v.evidence.soundness, NotAvailable)]
    if not unknown:
        return ""
    return text("; not known of {unknown}", unknown=ranks_words(unknown))
