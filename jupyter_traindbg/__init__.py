"""jupyter_traindbg: attach from a notebook to a training job that is already running.

The public names are below; they are imported on first use, and importing this package imports neither torch nor ray.
"""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .attach.discover import targets
    from .job import Job, attach
    from .plotting import plot
    from .prepared import serve
    from .questions.jobless.log import diagnose_log
    from .questions.jobless.sent import diagnose_dumps
    from .ray.hook import ray_worker_hook
    from .resume import Resumed, resume

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

_HOMES = {
    "Job": "job",
    "Resumed": "resume",
    "attach": "job",
    "diagnose_dumps": "questions.jobless.sent",
    "diagnose_log": "questions.jobless.log",
    "plot": "plotting",
    "ray_worker_hook": "ray.hook",
    "resume": "resume",
    "serve": "prepared",
    "targets": "attach.discover",
}
_SESSION = "_traindbg_session"


class _Package(types.ModuleType):
    """The public functions `attach` and `resume` have the names of folders; the import system must not overwrite them."""

    @property
    def attach(self) -> Any:
        return _public("attach")

    @attach.setter
    def attach(self, module: Any) -> None:
        """Called by the import system for the folder, which stays reachable by ``from jupyter_traindbg.attach import ...``."""

    @property
    def resume(self) -> Any:
        return _public("resume")

    @resume.setter
    def resume(self, module: Any) -> None:
        """As for `attach`."""


sys.modules[__name__].__class__ = _Package


def _public(name: str) -> Any:
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _public(name)


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext traindbg``. Loading it twice, or under both import names, is loading it once."""
    from .magics import ipython

    if getattr(shell, _SESSION, None) is None:
        setattr(shell, _SESSION, ipython.load(shell))


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext traindbg``: leaves the job and removes the magics."""
    from .magics import ipython

    session = getattr(shell, _SESSION, None)
    if session is not None:
        setattr(shell, _SESSION, None)
        ipython.unload(shell, session)


def _render(result: Any) -> dict[str, Any]:
    from .render import mimebundle

    return mimebundle(result)


def _plot(result: Any) -> Any:
    from .pictures import of_result

    return of_result(result)


def _to_arrow(result: Any) -> Any:
    from .tables.arrow_and_pandas import arrow

    return arrow(result)


def _to_frame(result: Any) -> Any:
    from .tables.arrow_and_pandas import frame

    return frame(result)


def _install() -> None:
    """Teach results how they look; what that takes is imported when one is looked at."""
    from .model import set_plotter, set_renderer, set_tables

    set_renderer(_render)
    set_plotter(_plot)
    set_tables(_to_arrow, _to_frame)


_install()
