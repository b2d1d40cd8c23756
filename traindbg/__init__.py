"""``%load_ext traindbg`` and ``import traindbg``: the public names of jupyter_traindbg, the same objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jupyter_traindbg
from jupyter_traindbg import __version__, load_ipython_extension, unload_ipython_extension

if TYPE_CHECKING:
    from jupyter_traindbg import (
        Job,
        Resumed,
        attach,
        diagnose_dumps,
        diagnose_log,
        plot,
        ray_worker_hook,
        resume,
        serve,
        targets,
    )

__all__ = [
    "Job",
    "Resumed",
    "__version__",
    "attach",
    "diagnose_dumps",
    "diagnose_log",
    "load_ipython_extension",
    "plot",
    "ray_worker_hook",
    "resume",
    "serve",
    "targets",
    "unload_ipython_extension",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(jupyter_traindbg, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
