"""Which threads may be borrowed, judged on lines recorded from /proc/PID/task/TID/syscall."""

from cases import each

from jupyter_traindbg.attach.parked import Maps, NotParked, look, wait_of
from jupyter_traindbg.attach.ptrace import same_wait

LIBC = "/usr/lib/x86_64-linux-gnu/libc.so.6"
REST = "0x0 0x0 0x0 0x7fff681eb688 0x7fe3d06ed503"


def judge(line, library=LIBC, target="pipe:[1]", machine="x86_64"):
    return wait_of(line, lambda address: library, lambda fd: target, machine)


@each(
    ("line", "expected"),
    [
        (f"230 0x1 0x1 0x7fff681eb6a0 {REST}", ("clock_nanosleep", 0)),
        (f"7 0x7f00 0x1 0x1388 {REST}", ("poll", 0)),
        (f"219 0x7f00 0x0 0x0 {REST}", ("restart_syscall", 0)),
        (f"202 0x7f00 0x189 0x0 {REST}", ("futex", 1)),
        (f"232 0x5 0x7f00 0x1 {REST}", ("epoll_wait", 2)),
    ],
)
def test_waits_that_hold_nothing_are_taken_best_first(line, expected):
    assert judge(line) == expected


@each(
    ("line", "reason"),
    [
        ("running", "running"),
        ("-1 0x7ffd 0x7f00", "running"),
        (f"1 0x1 0x7f00 0x10 {REST}", "in system call 1"),
        (f"202 0x7f00 0x80 0x2 {REST}", "waiting for a low-level lock"),
        (f"202 0x7f00 0x86 0x2 {REST}", "in futex operation 6"),
    ],
)
def test_everything_else_is_refused_with_its_reason(line, reason):
    assert judge(line) == NotParked(reason)


@each(
    "library",
    ["", "/lib/libc-2.31.so", "/lib/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1", "/lib/libpthread-2.31.so"],
)
def test_a_plain_futex_wait_in_the_c_library_or_in_no_file_is_a_lock(library):
    assert isinstance(judge(f"202 0x7f00 0x80 0x2 {REST}", library), NotParked)


@each("library", ["/x/libgomp-24e2ab19.so.1.0.0", "/x/libiomp5.so", "/x/libtorch_cpu.so", "/x/ldap.so"])
def test_a_plain_futex_wait_of_a_thread_pool_is_taken(library):
    assert judge(f"202 0x7f00 0x80 0x2 {REST}", library) == ("futex", 1)


@each("library", ["/x/libjemalloc.so.2", "/x/libtcmalloc_minimal.so.4", "/x/libmimalloc.so"])
@each("operation", ["0x80", "0x189"])
def test_a_wait_inside_an_allocator_is_never_taken(library, operation):
    assert isinstance(judge(f"202 0x7f00 {operation} 0x2 {REST}", library), NotParked)


@each("target", ["/mnt/fuse/libfoo.so", "/etc/passwd"])
def test_reading_a_file_may_be_the_loader(target):
    assert judge(f"0 0x3 0x7f00 0x10 {REST}", target=target) == NotParked("reading a file")
    assert judge(f"0 0x3 0x7f00 0x10 {REST}", target="anon_inode:[eventfd]") == ("read", 0)


def test_numbers_are_those_of_the_machine():
    assert judge(f"73 0x7f00 0x1 0x0 {REST}", machine="aarch64") == ("ppoll", 0)
    assert judge(f"73 0x7f00 0x1 0x0 {REST}", machine="x86_64") == NotParked("in system call 73")
    assert judge(f"73 0x7f00 0x1 0x0 {REST}", machine="riscv64") == NotParked("in system call 73")


def test_helper_threads_come_before_the_main_thread(start):
    target = start("hung_lock.py")
    threads = look(target.pid).parked
    assert len(threads) >= 2
    assert [thread.tid for thread in threads][-1] == target.pid


def test_a_computing_process_has_none_and_says_so(start):
    seen = look(start("busy.py").pid)
    assert seen.parked == ()
    assert seen.why_none() == "1 running"


def test_maps_name_the_file_of_an_address(start):
    maps = Maps(start("sleeping.py").pid)
    pc = int(look(maps._pid).parked[0].syscall.split()[8], 16)
    assert "libc" in maps.file_at(pc)
    assert maps.file_at(0) == ""


def test_a_condition_variable_that_is_waited_for_again_is_the_same_wait() -> None:
    """glibc 2.41 and newer: another number each time, at one of two addresses."""
    once = "202 0xbb88e8 0x89 0x240 0x7fff71fa2cc0 0x0 0xffffffff 0x7fff71fa2b68 0x7fb11c4d6efe"
    again = "202 0xbb88ec 0x89 0x246 0x7fff71fa2cc0 0x0 0xffffffff 0x7fff71fa2b68 0x7fb11c4d6efe"
    assert same_wait(once) == same_wait(again)
    for elsewhere in (
        again.replace("0x89", "0x80"),
        again.replace("b68 ", "a68 "),
        again.replace("efe", "eff"),
        "running",
    ):
        assert same_wait(elsewhere) != same_wait(once)


def test_another_descriptor_is_another_wait() -> None:
    one = "0 0x3 0x7ffc0 0x100 0x0 0x0 0x0 0x7ffb0 0x7fb1f"
    assert same_wait(one) != same_wait(one.replace("0x3", "0x4"))
