"""The helper: an actor on a node of the cluster, in which functions of this package run. Standard library and ray only.

Its class travels by value into a Ray worker that knows nothing of this package; the package's source comes after it, as an archive.
"""

from __future__ import annotations

import fcntl
import importlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from typing import Any

__all__ = ["TraindbgHelper"]

PREFIX, LOCK = "traindbg-helper-", "lock"
SWEEP = 'exec 3<&0; (read -r _ <&3; rm -rf -- "$1") &'
"""A shell that holds the other end of a pipe of ours: when we are gone, in whatever way, our directory goes. It is nobody's child, since
Ray ends the children of a worker with it."""


SHELL_S = 10.0


class TraindbgHelper:
    """Lives as long as the broker that made it, takes no CPU of the cluster's, and leaves nothing on the node."""

    def __init__(self, package: str, archive: bytes) -> None:
        self._package, self._ready, self._error = package, threading.Event(), ""
        try:
            self._place = _private_directory(_session_directory())
            self._lock = _locked(os.path.join(self._place, LOCK))
            self._sweeper = subprocess.Popen(
                ["/bin/sh", "-c", SWEEP, "sh", self._place],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
            self._sweeper.wait(SHELL_S)
            with zipfile.ZipFile(io.BytesIO(archive)) as z:
                z.extractall(self._place)
            _forget(package)
            sys.path.insert(0, self._place)
            importlib.invalidate_caches()
        except Exception as e:  # noqa: BLE001 - an actor that raises here says so in a traceback of Ray's; this way it is one line
            self._error = f"{type(e).__name__}: {e}"

    def about(self) -> dict[str, Any]:
        """What the one who made us has to know: what we lack, and where we are."""
        tools = os.path.dirname(sys.executable)
        return {
            "error": self._error,
            "pid": os.getpid(),
            "machine": os.uname().machine,
            "py_spy": bool(shutil.which("py-spy") or shutil.which("py-spy", path=tools)),
        }

    def take(self, name: str, content: bytes) -> None:
        """Keep a program, and find it on PATH from now on."""
        folder = os.path.join(self._place, "bin")
        os.makedirs(folder, 0o700, exist_ok=True)
        path = os.path.join(folder, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700), "wb") as f:
            f.write(content)
        os.environ["PATH"] = os.pathsep.join([folder, os.environ.get("PATH", os.defpath)])

    def run(self, request: bytes) -> bytes:
        """Run ``(function, args, kwargs)``, pickled; ``(good, value or error)``, pickled."""
        relay = importlib.import_module(f"{self._package}.attach.ray.wire")
        answer: bytes = relay.serve(request)
        return answer

    def close(self) -> None:
        shutil.rmtree(self._place, ignore_errors=True)


def _session_directory() -> str:
    """The temporary directory of the Ray session on this node: what lies there goes with it at the latest."""
    import ray

    node = ray._private.worker._global_node
    return str(node.get_session_dir_path()) if node is not None else tempfile.gettempdir()


def _private_directory(base: str) -> str:
    """A directory of our own below `base`, without those of helpers that have died."""
    for entry in os.scandir(base):
        if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False):
            _remove_if_left(entry.path)
    return tempfile.mkdtemp(prefix=PREFIX, dir=base)


def _remove_if_left(place: str) -> None:
    try:
        if os.stat(place, follow_symlinks=False).st_uid == os.getuid():
            os.close(_locked(os.path.join(place, LOCK), create=False))
            shutil.rmtree(place, ignore_errors=True)
    except OSError:
        pass  # its helper lives, or has just removed it


def _locked(path: str, *, create: bool = True) -> int:
    """A descriptor of the file, locked; the lock goes with its process. Raises OSError where somebody has it."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0), 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd


def _forget(package: str) -> None:
    """A version of the package that was imported before us, as by a hook of the cluster's, must not mix with ours."""
    for name in [n for n in sys.modules if n == package or n.startswith(package + ".")]:
        del sys.modules[name]
