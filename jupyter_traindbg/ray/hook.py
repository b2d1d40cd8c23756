"""The opt-in of a Ray job: an agent in every worker from its start on, so that nothing has to be injected (no ptrace)::

    ray.init(runtime_env={"worker_process_setup_hook": traindbg.ray_worker_hook})

That function carries the agent's source, so workers need nothing of ours installed. A worker starts 0.1 s later and has one thread more.
It can never break a worker, where Ray ends every worker whose hook raises: whatever goes wrong in it is swallowed on purpose, and told in
one line of the worker's log, which `reason` finds again; that worker is then one as any other, and can still be entered by ptrace.

Where only a text can be given (``ray job submit --runtime-env-json``), ``"jupyter_traindbg.ray.hook.start"`` does the same; but that
needs this package in the workers' environment: Ray itself ends a worker whose hook it cannot import.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import zlib
from collections.abc import Callable
from typing import Any

from .._version import __version__

ray_worker_hook: Callable[[], None]
"""`worker_hook`'s function, made when it is first asked for."""

__all__ = ["ray_worker_hook", "reason", "start", "worker_hook"]


SAYS = "traindbg: no agent in this worker: "


def __getattr__(name: str) -> Any:
    if name != "ray_worker_hook":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return worker_hook()


@functools.lru_cache(maxsize=1)
def worker_hook() -> Callable[[], None]:
    """The function to give to Ray. It is defined in here, with all that it needs, so that Ray sends it whole and not as a name."""
    from ..attach import payload

    packed, name, archive, version, says = (
        zlib.compress(payload.archive()),
        payload.NAME,
        payload.ARCHIVE,
        __version__,
        SAYS,
    )

    def traindbg_agent() -> None:
        import contextlib
        import os
        import sys
        import threading

        def run() -> None:
            try:
                import importlib
                import io
                import zipfile
                import zlib

                source = zlib.decompress(packed)
                with zipfile.ZipFile(io.BytesIO(source)) as z:
                    meeting = {"__name__": "traindbg_rendezvous"}
                    exec(compile(z.read(f"{name}/rendezvous.py"), "rendezvous.py", "exec"), meeting)
                directory = meeting["create"](os.getpid(), os.getuid())  # type: ignore[operator]
                path = os.path.join(directory, archive)
                with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as f:
                    f.write(source)
                sys.path.insert(0, path)
                try:
                    importlib.import_module(name).start(directory, keep=True, version=version)
                finally:
                    sys.path.remove(path)
            except BaseException as e:  # noqa: BLE001 - on purpose: a worker whose hook raises is ended by Ray
                with contextlib.suppress(BaseException):
                    os.write(2, f"{says}{type(e).__name__}: {e}\n".encode())

        with contextlib.suppress(BaseException):
            starting = threading.Thread(target=run, name="traindbg-start", daemon=True)
            starting.start()
            starting.join(5.0)  # whatever it may hang at, the worker does not

    return traindbg_agent


def start() -> None:
    """The same, as what ``"jupyter_traindbg.ray.hook.start"`` names. Raises nothing."""
    try:
        worker_hook()()
    except BaseException as e:  # noqa: BLE001 - on purpose, as above
        with contextlib.suppress(BaseException):
            os.write(2, f"{SAYS}{type(e).__name__}: {e}\n".encode())


def reason(session_dir: str, pid: int) -> str | None:
    """Why the hook brought no agent into worker `pid`, by the worker's log; None where it does not say."""
    for path in glob.glob(os.path.join(glob.escape(session_dir), "logs", f"worker-*-{pid}.err")):
        try:
            with open(path, errors="replace") as f:
                said = next((line for line in f if line.startswith(SAYS)), None)
        except OSError:
            continue
        if said is not None:
            return said.removeprefix(SAYS).strip()
    return None
