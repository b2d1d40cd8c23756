"""Where an agent and its clients meet: ``/tmp/traindbg-UID/PID-STARTTICKS/`` with ``agent.sock`` and ``agent.json``.

The directory is 0700 and the files 0600. PID-STARTTICKS names one process for good: a recycled pid has another start time.
``agent.json`` is written last, by rename, so whoever can read it can connect. Both sides use this module: the agent from inside
with ``root=""``, a client from outside with ``root="/proc/PID/root"``, which is right in containers too.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from typing import Any, Dict, Optional

PROTOCOL = 2
SOCKET = "agent.sock"
CARD = "agent.json"


class UnsafeDirectory(OSError):
    """Somebody else owns, or can write, the directory where agents meet."""


def start_ticks(pid: int) -> int:
    """The start time of `pid` in clock ticks since boot. Raises OSError where the process is gone."""
    with open(f"/proc/{pid}/stat", "rb") as f:
        return int(f.read().rsplit(b")", 1)[1].split()[19])


def own_pid_in_its_namespace(pid: int) -> int:
    """The pid that `pid` itself sees (another number inside a container)."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
        for line in f:
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return pid


def base(uid: int, root: str = "") -> str:
    return f"{root}/tmp/traindbg-{uid}"


def directory(pid: int, uid: int, root: str = "") -> str:
    """The directory of the agent in process `pid` (as seen by the caller), whether it exists or not."""
    return os.path.join(base(uid, root), f"{own_pid_in_its_namespace(pid)}-{start_ticks(pid)}")


def make_private(path: str, uid: int, gid: int = -1) -> None:
    """Make `path` with mode 0700 for `uid`, or check that it is so already; raises `UnsafeDirectory` otherwise."""
    try:
        os.mkdir(path, 0o700)
        if uid != os.getuid():
            os.chown(path, uid, gid)
    except FileExistsError:
        pass
    seen = os.lstat(path)
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != uid or seen.st_mode & 0o077:
        raise UnsafeDirectory(f"{path} exists and is not a private directory of uid {uid}")


def create(pid: int, uid: int, gid: int = -1, root: str = "") -> str:
    """Make the agent directory of `pid` and return its path."""
    path = directory(pid, uid, root)
    for last in (False,) * 9 + (True,):
        try:
            make_private(base(uid, root), uid, gid)
            make_private(path, uid, gid)
            break
        except FileNotFoundError:  # another agent has just left as the last one, and taken the base with it
            if last:
                raise
    return path


def publish(path: str, token: str, version: str) -> None:
    """Write the card: from this moment clients can find the agent."""
    card = {"protocol": PROTOCOL, "version": version, "pid": os.getpid(), "token": token}
    draft = os.path.join(path, CARD + ".draft")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as f:
        json.dump(card, f)
    os.rename(draft, os.path.join(path, CARD))


def card(path: str) -> Optional[Dict[str, Any]]:
    """The published card, or None where there is no agent."""
    try:
        with open(os.path.join(path, CARD)) as f:
            content: Dict[str, Any] = json.load(f)
            return content
    except (FileNotFoundError, NotADirectoryError):
        return None


def new_token() -> str:
    return os.urandom(16).hex()


def remove(path: str) -> None:
    """Remove an agent's directory, and the base where this was the last one."""
    shutil.rmtree(path, ignore_errors=True)
    try:
        os.rmdir(os.path.dirname(path))
    except OSError:
        pass  # other agents still live there
