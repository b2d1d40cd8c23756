"""The agent's directory as its injector sees it: through /proc/PID/root, by descriptor, under a lock.

All files are reached relative to one open directory that belongs to the target's user, and none through a link: an injector that runs
as root can thus not be led to write anywhere else. Linux only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator

from ..agent import rendezvous
from ..errors import CannotAttach, DeadlineExceeded, TargetGone
from ..language import text
from .access import Identity

__all__ = ["Place", "claimed"]

_RETRY_S = 0.01
_PREPARE_S = 0.5
_READ_LIMIT = 65536


class Place:
    """An agent directory, locked. ``seen_inside`` is its path as the target sees it."""

    def __init__(self, fd: int, path: str, root: str, owner: Identity) -> None:
        self._fd, self._path, self._owner = fd, path, owner
        self.seen_inside = path.removeprefix(root)

    def write(self, name: str, content: bytes, mode: int = 0o600) -> None:
        """Put a new file there, owned by the target's user; what has that name already is replaced in one step."""
        if os.path.basename(name) != name or name in ("", ".", ".."):
            raise ValueError(f"{name!r} is not a plain file name")
        draft = f".{name}.draft"
        self.remove(draft)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(draft, flags, 0o600, dir_fd=self._fd), "wb") as f:
            f.write(content)
            if os.geteuid() != self._owner.uid:
                os.fchown(f.fileno(), self._owner.uid, self._owner.gid)
            os.fchmod(f.fileno(), mode)
        os.rename(draft, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def has(self, name: str) -> bool:
        try:
            os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def read_text(self, name: str) -> str:
        """The first 64 KiB of a file."""
        with open(
            os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._fd), "rb"
        ) as f:
            return f.read(_READ_LIMIT).decode("utf-8", "replace")

    def names(self) -> list[str]:
        return os.listdir(self._fd)

    def remove(self, *names: str) -> None:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._fd)

    def remove_if_empty(self) -> None:
        """Take the directory away, and the one above it, where nobody else has anything there."""
        if not self.is_current():  # /proc/PID/root went with its process: the same directory may be reached from here
            self._path = self.seen_inside
            if not self.is_current():
                return
        with contextlib.suppress(OSError):  # in use
            os.rmdir(self._path)
            os.rmdir(os.path.dirname(self._path))

    def is_current(self) -> bool:
        """Whether the path still leads to this directory: another injector, or a leaving agent, may have removed it."""
        try:
            there = os.stat(self._path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        here = os.fstat(self._fd)
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


@contextlib.contextmanager
def claimed(owner: Identity, ends: float) -> Iterator[tuple[Place, bool]]:
    """The agent directory of process ``owner.pid``, made where needed and locked against other injectors; and whether we had to wait.

    `ends` is on the monotonic clock. Raises `DeadlineExceeded`, `TargetGone`, `CannotAttach`. An injector that dies drops its lock.
    """
    waited = False
    while True:
        place, fd = _opened(owner)
        try:
            while not _locked(fd):
                waited = True
                if time.monotonic() > ends:
                    raise DeadlineExceeded(text("another attach to process {pid} is still under way", pid=owner.pid))
                time.sleep(_RETRY_S)
            if place.is_current():
                yield place, waited
                return
        finally:
            os.close(fd)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _opened(owner: Identity) -> tuple[Place, int]:
    root = f"/proc/{owner.pid}/root"
    give_up = time.monotonic() + _PREPARE_S
    while True:
        try:
            path = rendezvous.create(owner.pid, owner.uid, owner.gid, root)
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            break
        except OSError as error:
            if not os.path.exists(f"/proc/{owner.pid}/root"):
                raise TargetGone(text("process {pid} has just ended", pid=owner.pid)) from None
            # another injector may be half way through making or removing the same directory
            if time.monotonic() > give_up or isinstance(error, PermissionError):
                raise CannotAttach(
                    text("no private directory can be made in process {pid}'s /tmp: {why}", pid=owner.pid, why=error)
                ) from error
            time.sleep(_RETRY_S)
    there = os.fstat(fd)
    if there.st_uid != owner.uid or stat.S_IMODE(there.st_mode) & 0o077:
        os.close(fd)
        raise CannotAttach(text("{path} is not a private directory of uid {uid}", path=path, uid=owner.uid))
    return Place(fd, path, root, owner), fd
