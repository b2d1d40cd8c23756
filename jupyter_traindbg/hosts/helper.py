"""The helper: a process on another host in which functions of this package run. Standard library only.

It travels ahead of the package, into a Python that knows nothing of it: its class by value into a Ray worker, or this file as text through
a pipe (`main`). The package's source comes after it, as an archive.
"""

from __future__ import annotations

import fcntl
import importlib
import io
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import zipfile
import zlib
from typing import Any

__all__ = ["IDLE_S", "LENGTH", "READY", "Helper", "main", "receive"]

PREFIX, LOCK = "traindbg-helper-", "lock"
SWEEP = 'exec 3<&0; (read -r _ <&3; rm -rf -- "$1") &'
"""A shell that holds the other end of a pipe of ours: when we are gone, in whatever way, our directory goes. It is nobody's child, since
Ray ends the children of a worker with it."""
SHELL_S = 10.0
LENGTH = struct.Struct("<Q")
"""What stands before each piece that goes through a pipe: how many bytes it has."""
READY = b"\0traindbg helper\0"
"""What comes first through the pipe: before it, a shell's start-up files may have printed whatever they like."""
IDLE_S = 300.0
"""A helper that has heard nothing for so long is on its own: a host that is cut off does not close its end."""


class Helper:
    """This host's part: the package's source in a private directory below `base`, which goes when this process does, in whatever way."""

    def __init__(self, package: str, archive: bytes, base: str) -> None:
        self._package, self._ready, self._error = package, threading.Event(), ""
        try:
            self._place = _private_directory(base)
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
        except Exception as e:  # noqa: BLE001 - who made us asks for it, and says it in one line
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
        relay = importlib.import_module(f"{self._package}.hosts.wire")
        answer: bytes = relay.serve(request)
        return answer

    def close(self) -> None:
        """Take the directory away now."""
        shutil.rmtree(self._place, ignore_errors=True)


def main(package: str) -> None:
    """Serve through the standard pipes of a process that was started on this host, until the other end hangs up.

    What comes: the archive; a py-spy program, packed, where `about` had said that there is none, else nothing; then requests. What goes:
    `READY`, `Helper.about`, answers.
    """
    requests, answers = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # whatever prints must not come between
    one = Helper(package, receive(requests), tempfile.gettempdir())
    try:
        about = one.about()
        if about["error"]:
            sys.exit(f"the package could not be unpacked: {about['error']}")
        wire = importlib.import_module(f"{package}.hosts.wire")
        os.write(answers, READY)
        wire.send(answers, wire.dumps(about))
        tool = receive(requests)
        if tool:
            one.take("py-spy", zlib.decompress(tool))
        wire.serve_all(requests, answers, IDLE_S)
    except EOFError:
        pass  # they have hung up
    finally:
        one.close()
    sys.stderr.flush()
    os._exit(0)  # what is still under way is nobody's any more


def receive(fd: int) -> bytes:
    """The next piece. Raises EOFError where the other side is gone."""
    (length,) = LENGTH.unpack(_exactly(fd, LENGTH.size))
    return _exactly(fd, length)


def _exactly(fd: int, length: int) -> bytes:
    pieces = []
    while length:
        piece = os.read(fd, min(length, 1 << 20))
        if not piece:
            raise EOFError
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


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
