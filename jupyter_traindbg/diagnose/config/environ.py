"""The environment that the run would get: this shell's, and what the script sets, by `diagnose.environment`.

Of the variables that the script sets itself, those that do nothing are told as well: somebody wrote them down for a reason.
"""

from __future__ import annotations

import dataclasses

from ...model import Finding, Plan
from .. import environment

__all__ = ["rule"]


def rule(plan: Plan) -> list[Finding]:
    own = {name: given.value for name, given in plan.environ.items()}
    whole = {**plan.machine.environ, **own}
    if not whole:
        return []
    backend = plan.backend.value if plan.backend is not None else "nccl" if plan.machine.gpus else None
    interfaces = plan.machine.interfaces or None
    judged = environment.of_process(whole, backend=backend, versions=plan.machine.versions, interfaces=interfaces)
    found = []
    for one in judged:
        set_here = [plan.environ[name] for name in sorted(plan.environ.keys() & one.names)]
        if one.finding.severity != "info" or set_here:
            where = next((given.where for given in set_here if given.line is not None), None)
            found.append(dataclasses.replace(one.finding, where=where))
    return found
