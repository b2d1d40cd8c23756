"""What is wrong with a Ray job: a look at the cluster in, findings out, root cause first. Pure functions: no I/O, no clock.

The state API says who exists and what was asked of them; stacks and /proc say whether they move (`case`). Every rule, one file each, is
``rule(case) -> list[Hit]``; then the root cause comes first, with its symptoms as its evidence (`order`). Adding a rule is one new file
here that has a ``rule``, and its code's place in `order.ROOT_FIRST`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from ...model import Diagnosis, Finding
from ..at_source import at_source
from . import order
from .case import Hit, RayCase
from .states import rank_states, state
from .stuck_in_init import settles_in_s
from .waits import asking
from .wanted import methods, wanted

__all__ = ["Hit", "RayCase", "asking", "diagnose", "findings", "methods", "rules", "settles_in_s", "wanted"]

Rule = Callable[[RayCase], list[Hit]]


def findings(case: RayCase) -> list[Finding]:
    """What is wrong, root cause first; nothing where nothing is. 0.1 s for 1,000 workers."""
    found = order.findings([hit for rule in rules() for hit in rule(case)])
    looks = [*case.closer.values(), *([] if case.led is None else [case.led])]
    return at_source(found, {place: line for one in looks for place, line in one.sources.items()})


def diagnose(case: RayCase) -> Diagnosis:
    """The findings, with a word on the whole and a line on every worker."""
    found = findings(case)
    called, why = state(case, found)
    return Diagnosis(
        target=case.workers.target,
        state=called,
        why=tuple(why),
        ranks=rank_states(case),
        verdict=tuple(found),
        silent=case.workers.silent,
        taken_s=case.workers.taken_s,
    )


def rules() -> list[Rule]:
    """The ``rule`` of every module here that has one, by name."""
    modules = (importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__))
    return [module.rule for module in modules if hasattr(module, "rule")]
