"""Why a job hangs: one file per family of hangs, each ``rule(case) -> list[Hit]``. Pure functions: no I/O, no clock.

Adding a rule is one new file here that has a ``rule``, and its code's place in `order.ROOT_FIRST`. Where other codes
are merely symptoms of its own, the file says so in ``EXPLAINS``: code -> symptoms.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from .case import Case, Hit

__all__ = ["Case", "Hit", "rules"]

Rule = Callable[[Case], list[Hit]]


def rules() -> list[Rule]:
    """The ``rule`` of every module here that has one, by name."""
    modules = (importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__))
    return [module.rule for module in modules if hasattr(module, "rule")]
