"""What will go wrong in a run, judged from its `Plan` before it is started: pure arithmetic, nothing is read or measured here.

One file per check, each with ``rule(plan) -> list[Finding]``; adding a check is one new file here. What several need is in `reading` (the
plan's derived figures, how a finding is written) and `estimate` (memory). A rule that lacks a figure is silent: nothing is assumed that
the configuration, the machine or the framework's source does not say.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable

from ...model import Finding, Plan
from .estimate import estimate
from .ray_demand import demands

__all__ = ["Rule", "asks_ray", "estimate", "findings", "rules"]

Rule = Callable[[Plan], list[Finding]]
SEVERITIES = ("critical", "warning", "info")


def findings(plan: Plan) -> list[Finding]:
    """Everything that speaks against starting it so, the worst first. Costs about a millisecond."""
    found = [finding for rule in rules() for finding in rule(plan)]
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))


def asks_ray(plan: Plan) -> bool:
    """Whether it is known what the run asks Ray for."""
    return bool(demands(plan))


@functools.cache
def rules() -> tuple[Rule, ...]:
    """The ``rule`` of every module here that has one, by name."""
    modules = (importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__))
    return tuple(module.rule for module in modules if hasattr(module, "rule"))
