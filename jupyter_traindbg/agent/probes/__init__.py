"""One file per measurement. A probe is a module with ``run(agent, **params)`` returning JSON-ready data, and ``COST``, its price in words.

Adding one is adding its file: `names` lists what is there, in a folder or in a zip.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any, Callable, List


def names() -> List[str]:
    """The names of all probes."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__))


def load(name: str) -> Callable[..., Any]:
    """The ``run`` of probe `name`; LookupError where there is no such probe."""
    if name not in names():
        raise LookupError(f"no probe {name!r}; there are {', '.join(names())}")
    run: Callable[..., Any] = importlib.import_module(f"{__name__}.{name}").run
    return run
