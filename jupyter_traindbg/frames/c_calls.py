"""Which system call a thread sits in, by the C functions of a native stack, or by the line of source that has called into C.

For stacks that were dumped: of a live thread the kernel tells.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["by_functions", "by_line"]

_MOST = 16
"""So many functions from the inside on: further out are those of the interpreter."""
_PREFIXES = re.compile(r"^(?:__GI_+|__libc_|__pthread_|___?|os_|posix_|socket_|sock_|select_|fcntl_)")
_SUFFIXES = re.compile(r"(?:@@?GLIBC_[\d.]+|\.(?:isra|part|constprop|cold|lto_priv)\.\d+|64|_nocancel|_time64|_impl)+$")
_CALLS = {
    **dict.fromkeys(("clock_nanosleep", "nanosleep", "usleep", "time_sleep", "pysleep", "sleep"), "clock_nanosleep"),
    **dict.fromkeys(
        ("futex", "cond_wait", "cond_timedwait", "cond_clockwait", "pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait",
         "sem_wait", "sem_timedwait", "sem_clockwait", "do_futex_wait", "mutex_lock", "pthread_mutex_lock", "lll_lock_wait",
         "PyThread_acquire_lock_timed", "lock_PyThread_acquire_lock", "_PySemaphore_Wait", "_PyMutex_LockTimed", "thread.lock.acquire",
         "_thread.lock.acquire", "_thread.lock.__enter__", "_thread.RLock.acquire", "_thread.RLock.__enter__", "rlock_acquire", "syscall"),
        "futex",
    ),
    **dict.fromkeys(("read", "readv", "pread"), "read"),
    **dict.fromkeys(("recv", "recvfrom", "recvmsg", "recv_into"), "recvfrom"),
    **dict.fromkeys(("write", "writev", "pwrite"), "write"),
    **dict.fromkeys(("send", "sendto", "sendmsg", "sendall"), "sendto"),
    **dict.fromkeys(("poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait", "epoll_pwait2"), "poll"),
    **dict.fromkeys(("wait4", "waitpid", "waitid", "wait"), "wait4"),
    **dict.fromkeys(("flock",), "flock"),
    **dict.fromkeys(("lockf", "fcntl"), "fcntl"),
    **dict.fromkeys(("open", "openat"), "openat"),
    **dict.fromkeys(("fsync", "fdatasync"), "fsync"),
    **dict.fromkeys(("stat", "lstat", "newfstatat", "statx", "access"), "stat"),
    "accept": "accept",
    "accept4": "accept",
    "connect": "connect",
    "ioctl": "ioctl",
    "getdents": "getdents64",
}  # fmt: skip
_LINES = tuple(
    (re.compile(form), call)
    for form, call in (
        (r"\btime\.sleep\(|(?<![\w.])u?sleep\(", "clock_nanosleep"),
        (r"\bflock\(", "flock"),
        (r"\blockf\(", "fcntl"),
        (r"\bos\.(?:waitpid|wait|wait3|wait4)\(", "wait4"),
        (r"\.accept\(", "accept"),
        (r"\.(?:recv|recv_into|recvfrom)\(", "recvfrom"),
        (r"\.(?:sendall|sendto)\(", "sendto"),
        (r"\bos\.f(?:data)?sync\(", "fsync"),
        (r"^with\b(?!.*\bopen\()|\.acquire\(|\.join\(\s*\)", "futex"),
        (r"\.wait\(", "futex"),
        (r"(?<![\w.])open\(|\.open\(", "openat"),
        (r"(?<![\w.])input\(|\bos\.read\(|\.read(?:line|lines|into)?\(", "read"),
        (r"\bos\.write\(", "write"),
    )
)


def by_functions(calls: Sequence[str]) -> str | None:
    """The system call below these C functions, the innermost first; None where they are none that wait."""
    for name in calls[:_MOST]:
        bare = _bare(name)
        if bare.startswith(("futex_abstimed_wait", "futex_wait", "new_sem_wait", "futex_abstimed", "cond_wait")):
            return "futex"
        for said in (name, bare):
            if said in _CALLS:
                return _CALLS[said]
    return None


def by_line(code: str) -> str | None:
    """The system call in which a thread sits that has called into C from this line and is not running; None where that is not plain."""
    return next((call for form, call in _LINES if form.search(code)), None)


def _bare(name: str) -> str:
    bare = name.partition("(")[0].strip()
    while (shorter := _SUFFIXES.sub("", _PREFIXES.sub("", bare))) != bare:
        bare = shorter
    return bare
