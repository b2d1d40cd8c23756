"""The system call that a native stack, or the line that has called into C, stands for."""

from __future__ import annotations

from cases import each

from jupyter_traindbg.frames.c_calls import by_functions, by_line


@each(
    "calls, call",
    [
        (
            ["__futex_abstimed_wait_common64", "__new_sem_wait_slow64.constprop.0", "PyThread_acquire_lock_timed"],
            "futex",
        ),
        (["0x7f83704a3f16", "0x7f83704aed90", "PyThread_acquire_lock_timed", "lock_PyThread_acquire_lock"], "futex"),
        (["_thread.lock.__enter__"], "futex"),
        (["clock_nanosleep@@GLIBC_2.17", "__nanosleep", "time_sleep"], "clock_nanosleep"),
        (["__libc_read", "_Py_read", "os_read"], "read"),
        (["__GI___libc_recv", "sock_recv"], "recvfrom"),
        (["epoll_wait", "select_epoll_poll"], "poll"),
        (["__wait4", "os_waitpid"], "wait4"),
        (["flock", "fcntl_flock"], "flock"),
        (["at::native::addmm", "at::_ops::addmm::call"], None),
        ([], None),
    ],
)
def test_functions(calls: list[str], call: str | None) -> None:
    assert by_functions(calls) == call


@each(
    "line, call",
    [
        ("time.sleep(600)", "clock_nanosleep"),
        ("fcntl.flock(f, fcntl.LOCK_EX)", "flock"),
        ("with self.lock:", "futex"),
        ("with open(path) as f:", "openat"),
        ("self.lock.acquire()", "futex"),
        ("thread.join()", "futex"),
        ('return ", ".join(names)', None),
        ("return link.recv(1)", "recvfrom"),
        ('answer = input("sure? ")', "read"),
        ("loss = model(x)", None),
        ("", None),
    ],
)
def test_lines(line: str, call: str | None) -> None:
    assert by_line(line) == call
