"""Folders whose files are what the agent can be asked: `probes` read, `actions` change. A file has ``run(agent, **params)``."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import Any, Callable, List


def names(package: ModuleType) -> List[str]:
    """The names of all files of `package`, in a folder or in a zip."""
    return sorted(m.name for m in pkgutil.iter_modules(package.__path__))


def load(package: ModuleType, name: str) -> Callable[..., Any]:
    """The ``run`` of file `name` of `package`."""
    run: Callable[..., Any] = importlib.import_module(f"{package.__name__}.{name}").run
    return run
