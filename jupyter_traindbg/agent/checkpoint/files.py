"""The directory of a checkpoint: written under a temporary name beside its place, every file synced, moved there when complete."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import time
from typing import Any, Callable, Dict, List, Optional

from ..refused import Refused
from ..saying import Said, said

MANIFEST, FORMAT = "manifest.json", "traindbg-checkpoint"
MOST_MANIFEST = 1 << 28
STALE_S = 3600.0
SPARE_SHARE, SPARE_BYTES = 0.05, 1 << 20
AT_FDCWD, NO_REPLACE, EXCHANGE = -100, 1, 2
MOST_NAME = 255


def partial(directory: str, ident: str) -> str:
    """The temporary name under which the checkpoint `directory` is written: ``.NAME.partial-IDENT`` beside it."""
    parent, name = os.path.split(directory)
    return os.path.join(parent, f".{name}.partial-{ident}")


def prepare(directory: str, ident: str, nbytes: int, *, overwrite: bool) -> str:
    """Check everything that can be checked, make the temporary directory, return its path. `Refused`, nothing made, where it cannot be."""
    check_target(directory, ident, overwrite=overwrite)
    parent = os.path.dirname(directory)
    remove_stale(directory)
    path = partial(directory, ident)
    try:
        os.mkdir(path, 0o755)
        with open(os.path.join(path, _owner_file()), "x"):
            pass  # a file can be made there, too: quotas and exhausted inodes show now
        check_space(parent, nbytes)
        sync_directory(parent)
    except OSError as e:
        remove(path)
        raise Refused(
            said("cannot write in {place}: {why}", place=parent, why=os_words(e)),
            said("choose a directory that the job's user may write to"),
        ) from e
    except Refused:
        remove(path)
        raise
    return path


def check_target(directory: str, ident: str, *, overwrite: bool) -> None:
    parent, name = os.path.split(directory)
    if not os.path.isabs(directory) or "\0" in directory or name in ("", ".", ".."):
        raise Refused(
            said("the directory must be an absolute path that ends in a name"),
            said("give the full path of the checkpoint"),
        )
    if len(os.fsencode(os.path.basename(partial(directory, ident)))) > MOST_NAME:
        raise Refused(said("the name {name} is too long", name=f"{name[:40]}..."), said("choose a shorter one"))
    try:
        os.stat(parent)
        there = os.path.lexists(directory)
    except OSError as e:
        raise Refused(
            said("{place} cannot be used: {why}", place=parent, why=os_words(e)),
            said("make it, or choose another directory"),
        ) from e
    if not os.path.isdir(parent):
        raise Refused(said("{place} is no directory", place=parent), said("choose another directory"))
    if there and not overwrite:
        raise Refused(
            said("{place} exists already", place=directory),
            said("choose another name; `--overwrite` (in Python: `overwrite=True`) replaces it"),
        )
    if there and not _replaceable(directory):
        raise Refused(
            said("{place} exists and is no checkpoint of ours; it will not be replaced", place=directory),
            said("choose another name"),
        )


def check_space(parent: str, nbytes: int) -> None:
    """`Refused` where the file system has not the room for `nbytes` and a little more."""
    needed = int(nbytes * (1 + SPARE_SHARE)) + SPARE_BYTES
    stat = os.statvfs(parent)
    free = stat.f_bavail * stat.f_frsize
    if free < needed:
        raise Refused(no_space(parent, needed, free), said("make room there, or choose another directory"))
    if stat.f_files and not stat.f_favail:
        raise Refused(
            said("no free inodes on {place}", place=mount_point(parent)),
            said("remove files there, or choose another directory"),
        )


def look(directory: str, ident: str, names: List[str]) -> Dict[str, Any]:
    """What is there, for a client on another host: ``there`` (see `what_is_there`), whether ``partial`` of `ident` is, ``free_bytes`` or
    None, the ``manifest``'s text or None, and the ``sizes`` of the files `names` in bytes, None for those that are not there.
    """
    try:
        stat = os.statvfs(os.path.dirname(directory))
        free = stat.f_bavail * stat.f_frsize  # type: Optional[int]
    except OSError:
        free = None
    return {
        "there": what_is_there(directory),
        "partial": bool(ident) and os.path.isdir(partial(directory, ident)),
        "free_bytes": free,
        "manifest": _text(os.path.join(directory, MANIFEST)),
        "sizes": {name: _size(os.path.join(directory, os.path.basename(name))) for name in names},
    }


def what_is_there(directory: str) -> str:
    """``nothing``, ``empty directory``, ``checkpoint`` (one of ours) or ``something else``."""
    if not os.path.lexists(directory):
        return "nothing"
    if not _replaceable(directory):
        return "something else"
    try:
        return "checkpoint" if os.listdir(directory) else "empty directory"
    except OSError:
        return "something else"


def _text(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8") as f:
            return f.read(MOST_MANIFEST)
    except (OSError, ValueError):
        return None


def _size(path: str) -> Optional[int]:
    try:
        return os.stat(path).st_size
    except OSError:
        return None


def remove_stale(directory: str) -> None:
    """Remove temporary directories for the same checkpoint whose writers are gone, after an hour."""
    parent, name = os.path.split(directory)
    prefix = f".{name}.partial-"
    for other in os.listdir(parent):
        path = os.path.join(parent, other)
        if not other.startswith(prefix) or os.path.islink(path):
            continue
        try:
            age_s = time.time() - os.stat(path).st_mtime
            writers = [n for n in os.listdir(path) if n.startswith(_OWNER)]
        except OSError:
            continue  # somebody else's, or just being removed
        if age_s > STALE_S and not any(_alive(w) for w in writers):
            shutil.rmtree(path, ignore_errors=True)


_OWNER = ".writer-"


def _owner_file() -> str:
    return f"{_OWNER}{os.uname().nodename}-{os.getpid()}"


def _alive(owner_file: str) -> bool:
    """True unless the writer is known to be gone: one on another machine cannot be asked, and its directory is left alone."""
    host, _, pid = owner_file[len(_OWNER) :].rpartition("-")
    return host != os.uname().nodename or not pid.isdigit() or os.path.exists(f"/proc/{pid}")


def finish(temporary: str, directory: str, *, overwrite: bool) -> None:
    """Give the complete, synced `temporary` its name. Whoever looks sees the old checkpoint or the new one, never a mixture or none."""
    try:
        os.unlink(os.path.join(temporary, _owner_file()))
    except FileNotFoundError:
        pass  # written by another process of ours
    sync_directory(temporary)
    if overwrite and os.path.lexists(directory):
        _exchange(temporary, directory)
    else:
        _move(temporary, directory)
    sync_directory(os.path.dirname(directory))


def _move(temporary: str, directory: str) -> None:
    if not _renameat2(temporary, directory, NO_REPLACE):
        if os.path.lexists(directory):
            raise FileExistsError(errno.EEXIST, "it has come into being meanwhile", directory)
        os.rename(temporary, directory)


def _exchange(temporary: str, directory: str) -> None:
    if not _replaceable(directory):
        raise FileExistsError(errno.EEXIST, "it is no checkpoint of ours", directory)
    if _renameat2(temporary, directory, EXCHANGE):
        shutil.rmtree(temporary, ignore_errors=True)
        return
    aside = temporary + ".old"
    os.rename(directory, aside)
    try:
        os.rename(temporary, directory)
    except OSError:
        os.rename(aside, directory)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _renameat2(old: str, new: str, flags: int) -> bool:
    """Linux' rename with flags; False where the file system or the C library has none."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), ctypes.c_uint(flags)) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS):
        return False
    raise OSError(code, os.strerror(code), new)


def _replaceable(directory: str) -> bool:
    """True for a directory that is empty or one of our checkpoints: anything else is never removed."""
    if os.path.islink(directory) or not os.path.isdir(directory):
        return False
    try:
        if not os.listdir(directory):
            return True
        with open(os.path.join(directory, MANIFEST), "rb") as f:
            return FORMAT.encode() in f.read(MOST_MANIFEST)
    except OSError:
        return False


def sync_directory(path: str) -> None:
    """Make the names in directory `path` permanent."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as e:
        if e.errno not in (errno.EINVAL, errno.ENOTSUP):  # network file systems without it
            raise
    finally:
        os.close(descriptor)


def written(path: str, write: Callable[[Any], Any]) -> Any:
    """Open `path`, which must be new, give it to `write`, sync it to the disk; what `write` returned."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with open(descriptor, "wb", buffering=0) as file:
        value = write(file)
        os.fsync(descriptor)
    return value


def no_space(parent: str, needed: int, free: int) -> Said:
    """That there is not the room that is needed, in bytes."""
    place, needs, has = mount_point(parent), size_words(needed), size_words(free)
    return said("no space left on {place}: needed {needed}, free {free}", place=place, needed=needs, free=has)


def space_words(path: str, error: OSError, nbytes: int) -> Said:
    """What went wrong while `nbytes` were to be written at `path`, in words for a person."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        parent = _existing(path)
        stat = os.statvfs(parent)
        free = stat.f_bavail * stat.f_frsize
        if error.errno == errno.ENOSPC:
            return no_space(parent, nbytes, free)
        return said(
            "the disk quota is used up on {place}: needed {needed}, free {free}",
            place=mount_point(parent),
            needed=size_words(nbytes),
            free=size_words(free),
        )
    if error.errno == errno.EFBIG:
        return said(
            "a file of {size} is more than the limit of the process (ulimit -f) or of the file system",
            size=size_words(nbytes),
        )
    return said("writing to {path} failed: {why}", path=path, why=os_words(error))


def os_words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def size_words(nbytes: float) -> str:
    units: List[str] = ["bytes", "kB", "MB", "GB", "TB"]
    index = 0
    while nbytes >= 1000 and index < len(units) - 1:
        nbytes, index = nbytes / 1000, index + 1
    return f"{nbytes:.0f} {units[0]}" if index == 0 else f"{nbytes:.2f} {units[index]}"


def mount_point(path: str) -> str:
    path = os.path.realpath(path)
    while not os.path.ismount(path):
        path = os.path.dirname(path)
    return path


def _existing(path: str) -> str:
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def remove(path: Optional[str]) -> None:
    """Remove a temporary directory of ours, as far as that is possible."""
    if path is not None and ".partial-" in os.path.basename(path):
        shutil.rmtree(path, ignore_errors=True)
