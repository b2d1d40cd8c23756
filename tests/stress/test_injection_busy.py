"""Injection by pid into processes of which no thread is ever parked: through the main thread, while it computes (attach/pending.py)."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import platform
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from support import PROGRAMS, REPO, Program, Start, interpreters
from traces import footprint, settled

import traindbg
from jupyter_traindbg.agent import rendezvous
from jupyter_traindbg.attach import inject as injection
from jupyter_traindbg.attach import pending, tracee
from jupyter_traindbg.attach.inject import Injected, inject
from jupyter_traindbg.errors import NoSafeThread

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="this way in is for Linux on x86-64"
)

PYTHONS = [pytest.param(path, id=name) for name, path in interpreters().items()]
PUBLISHING = [pytest.param(path, id=name) for name, path in interpreters().items() if int(name.partition(".")[2]) >= 14]
"""Those that say where their eval breaker is."""
PEEKUSER = 3

BOOT = """
import os, sys
sys._boots = getattr(sys, "_boots", 0) + 1
with open(os.path.join(os.path.dirname(__file__), "seen"), "w") as file:
    file.write(str(sys._boots))
"""


@pytest.fixture(scope="module", autouse=True)
def _object() -> None:
    """The object, built where a checkout has none yet."""
    if not injection.OBJECT.exists():
        subprocess.run([sys.executable, str(REPO / "hatch_build.py")], check=True, timeout=120)


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parked threads are looked for once instead of for a second: these programs have none."""
    monkeypatch.setattr(injection, "_THREAD_PATIENCE_S", 0.0)


@pytest.fixture
def busy(start: Start) -> Iterator[Callable[..., Program]]:
    """As `start`; afterwards the directories that the agents would have removed are gone."""
    directories = []

    def run(*words: str, **how: str) -> Program:
        program = start(*words, **how)
        directories.append(rendezvous.directory(program.pid, os.getuid()))
        return program

    yield run
    for directory in directories:
        rendezvous.remove(directory)


def boots(injected: Injected) -> int:
    return int(Path(injected.directory, "seen").read_text())


def executable_memory(program: Program) -> list[str]:
    """Mappings that can be run and belong to no file, our two pages among them."""
    lines = Path(f"/proc/{program.pid}/maps").read_text().splitlines()
    return [line for line in lines if re.search(r"^\S+ ..x. \S+ 00:00 0 *$", line)]


def watches(program: Program) -> int:
    """What is left in the debug register that says which others are in use."""
    thread = tracee.Thread(program.pid)
    tracee.ptrace(tracee.SEIZE, program.pid)
    thread.stop()
    try:
        return int(tracee.libc.ptrace(PEEKUSER, program.pid, tracee.DEBUG_REGISTER_7, 0)) & 0xFF
    finally:
        tracee.ptrace(tracee.DETACH, program.pid)


def results(program: Program) -> list[str]:
    """What it printed, but for the last line, which may be half there."""
    return [line for line in program.output().split("\n")[:-1] if line != "ready"]


def chain() -> ModuleType:
    spec = importlib.util.spec_from_file_location("chain", PROGRAMS / "chain.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_chain(program: Program, kind: str) -> None:
    """Each number must follow from the one before. The first 2000 are computed again, and 2000 at the end."""
    step = getattr(chain(), kind)
    rows = [[int(word) for word in line.split()] for line in results(program)]
    assert [row[0] for row in rows] == list(range(1, len(rows) + 1))
    numbers = [1, *(row[1] for row in rows)]
    checked = [*range(min(2000, len(rows))), *range(max(0, len(rows) - 2000), len(rows))]
    for i in checked:
        assert step(numbers[i]) == numbers[i + 1], rows[i]


def test_a_training_of_one_thread_answers_and_keeps_no_trace(start: Start) -> None:
    program = start("train.py")
    before = footprint(program.pid)
    assert before.threads == 1
    with traindbg.attach(program.pid) as job:
        (rank,) = job.ranks
        assert (rank.pid, rank.way, rank.agent) == (program.pid, "injected", True)
        (stacks,) = job.stacks().processes
        assert any("train.py" in frame.file for thread in stacks.threads for frame in thread.frames)
        (steps,) = job.steps(last=3).ranks
        assert steps.steps[-1].loss is not None
        (grads,) = job.grads().ranks
        assert isinstance(grads.total_norm, float)
        assert grads.total_norm > 0
    assert settled(program.pid, before) == before
    assert executable_memory(program) == []


@pytest.mark.parametrize("kind", ["python", "loop", "library"])
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.usefixtures("no_patience")
def test_every_python_here_while_it_computes(busy: Start, python: str, kind: str) -> None:
    program = busy("chain.py", kind, python=python)
    before = footprint(program.pid, directory=False)
    for time_round in range(1, 4):
        injected = inject(program.pid, {}, BOOT)
        assert (injected.stage, injected.tid) == ("done", program.pid)
        assert injected.paused_s > 0, "it was measured"
        assert boots(injected) == time_round
    assert settled(program.pid, before, directory=False) == before
    assert executable_memory(program) == []
    assert os.listdir(injected.directory) == ["seen"]
    check_chain(program, kind)
    assert watches(program) == 0


@pytest.mark.parametrize("python", PYTHONS)
def test_who_says_where_its_eval_breaker_is(busy: Start, python: str) -> None:
    program = busy("chain.py", "loop", python=python)
    memory = os.open(f"/proc/{program.pid}/mem", os.O_RDONLY)
    try:
        found = pending.Visit(program.pid, memory, "/none", str(injection.OBJECT)).breaker
    finally:
        os.close(memory)
    assert (found != 0) == any(python in one.values for one in PUBLISHING)


@pytest.mark.parametrize("python", PUBLISHING)
@pytest.mark.usefixtures("no_patience")
def test_what_it_starts_while_it_is_watched_knows_nothing_of_that(busy: Start, python: str) -> None:
    program = busy("begets.py", python=python)
    for time_round in range(1, 21):
        assert boots(inject(program.pid, {}, BOOT)) == time_round
    rounds = len(results(program))
    program.wait_for(f"\n{rounds + 2}\n")
    assert watches(program) == 0


@pytest.mark.parametrize("python", PUBLISHING)
@pytest.mark.usefixtures("no_patience")
def test_one_that_does_not_look_for_long_is_let_go(busy: Start, python: str) -> None:
    """Its calls take a second and more: it may be entered between two of them."""
    program = busy("chain.py", "libc", python=python)
    for _ in range(3):
        with contextlib.suppress(NoSafeThread):
            assert inject(program.pid, {}, BOOT).tid == program.pid
        assert watches(program) == 0
    assert executable_memory(program) == []
    step = len(results(program))
    program.wait_for(f"{step + 1} {step + 2} 0 0\n")


@pytest.mark.timeout(180)
@pytest.mark.usefixtures("no_patience")
@pytest.mark.parametrize("program", ["train.py", "allocating.py"])
def test_100_visits_leave_a_training_of_one_thread_bit_identical(start: Start, program: str) -> None:
    disturbed, undisturbed = start(program), start(program)
    before = footprint(disturbed.pid)
    for _ in range(100):
        with traindbg.attach(disturbed.pid) as job:
            assert [rank.way for rank in job.ranks] == ["injected"]
    assert settled(disturbed.pid, before) == before
    assert executable_memory(disturbed) == []
    lines = results(disturbed)
    disturbed.stop()
    undisturbed.wait_for(f"\n{len(lines) + 1} ", timeout_s=90)
    assert lines == results(undisturbed)[: len(lines)]


@pytest.mark.parametrize("kind", ["python", "loop", "library"])
@pytest.mark.parametrize("python", [pytest.param(sys.executable, id="this"), *PUBLISHING])
@pytest.mark.usefixtures("no_patience")
def test_signals_arrive_once_each_and_where_they_should(busy: Start, python: str, kind: str) -> None:
    program = busy("chain.py", kind, python=python)
    sent = {signal.SIGUSR1: 0, signal.SIGINT: 0}
    stop = threading.Event()

    def send() -> None:
        while not stop.is_set():
            for column, number in ((2, signal.SIGUSR1), (3, signal.SIGINT)):
                os.kill(program.pid, number)
                sent[number] += 1
                # one at a time: equal ones would merge
                while int(results(program)[-1].split()[column]) != sent[number]:
                    if program.process.poll() is not None or stop.wait(0.0005):
                        return

    program.wait_for("\n2 ")
    sender = threading.Thread(target=send)
    sender.start()
    try:
        for time_round in range(1, 11):
            assert boots(inject(program.pid, {}, BOOT)) == time_round
    finally:
        stop.set()
        sender.join()
    assert program.process.poll() is None
    assert sum(sent.values()) > 10
    wanted = f" {sent[signal.SIGUSR1]} {sent[signal.SIGINT]}"
    program.wait_for(f"{wanted}\n")
    assert results(program)[-1].endswith(wanted)
    check_chain(program, kind)


@pytest.mark.usefixtures("no_patience")
def test_one_long_call_is_waited_for_by_the_visitor_not_by_us(busy: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(injection, "_GIL_PATIENCE_S", 0.3)
    program = busy("one_long_call.py", "8000000")
    injected = inject(program.pid, {}, BOOT)
    assert (injected.stage, injected.tid) == ("native", program.pid)
    again = inject(program.pid, {}, BOOT)
    assert (again.stage, again.tid) == ("native", None)
    assert "through" not in program.output()
    program.wait_for("through")
    ends = time.monotonic() + 60
    while not Path(injected.directory, "done").exists():
        assert time.monotonic() < ends
        time.sleep(0.01)
    assert boots(injected) == 1
    assert boots(inject(program.pid, {}, BOOT)) == 2
    assert executable_memory(program) == []


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="it may be entered between two of its calls")
@pytest.mark.usefixtures("no_patience")
def test_a_program_that_computes_inside_libc_is_refused_and_left_alone(busy: Start) -> None:
    program = busy("chain.py", "libc")
    before = footprint(program.pid)
    with pytest.raises(NoSafeThread, match=r"1 running\), nor its main thread .*\(it runs libc"):
        inject(program.pid, {"agent.zip": b"x"}, BOOT)
    assert footprint(program.pid) == before
    step = len(results(program))
    program.wait_for(f"{step + 1} {step + 2} 0 0\n")


def queue_without_a_loader(program: Program, path: str) -> dict[str, str]:
    """The helper's answer where nobody prepared a directory."""
    words = ["queue", str(program.pid), path, str(injection.OBJECT), "2.0"]
    command = [sys.executable, "-I", "-S", str(injection.HELPER), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


def test_an_object_that_cannot_be_loaded_leaves_a_mark_and_no_harm(busy: Start, tmp_path: Path) -> None:
    program = busy("chain.py", "library")
    before = footprint(program.pid)
    assert queue_without_a_loader(program, str(tmp_path / "no-such.so"))["status"] == "done"
    ends = time.monotonic() + 60
    while not (tmp_path / "noload").exists():
        assert time.monotonic() < ends
        time.sleep(0.01)
    assert settled(program.pid, before) == before
    assert executable_memory(program) == []
    check_chain(program, "library")


def test_a_full_queue_is_said_and_the_pages_are_taken_back(busy: Start, tmp_path: Path) -> None:
    program = busy("full_queue.py")
    before = executable_memory(program)
    answer = queue_without_a_loader(program, str(tmp_path / "no-such.so"))
    assert "through" not in program.output(), "the queue was no longer full"
    assert answer["status"] == "failed"
    assert "full" in answer["detail"]
    assert executable_memory(program) == before
    program.wait_for("through")
    assert queue_without_a_loader(program, str(tmp_path / "no-such.so"))["status"] == "done"


def test_the_copied_code_refers_to_nothing_outside_and_leaves_by_a_jump(need_tool: Callable[[str], str]) -> None:
    code, entry, thread_entry = pending.copied(str(injection.OBJECT))
    assert 0 <= entry < len(code)
    assert 0 <= thread_entry < len(code)
    command = [need_tool("objdump"), "-d", "--no-show-raw-insn", "-j", "pending", str(injection.OBJECT)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = re.findall(r"^ *([0-9a-f]+):\t(.*?)\s*$", listing, re.MULTILINE)
    first, last = int(lines[0][0], 16), int(lines[-1][0], 16)
    assert "%rip" not in listing
    for _, line in lines:
        direct = re.match(r"(?:call|j\w+) +([0-9a-f]+) ", line)
        assert direct is None or first <= int(direct[1], 16) <= last
    for start in (entry, thread_entry):
        body = listing.partition(f"{first + start:016x} <")[2].partition("\n\n")[0]
        assert re.search(r"jmp +\*%", body)
        assert not re.search(r"\tret", body)


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("libtorch_cpu.so", True),
        ("libtorch_python.so", True),
        ("libmkl_avx512.so.2", True),
        ("libm.so.6", True),
        ("", True),  # compiled as it runs
        ("libc.so.6", False),
        ("libc-2.31.so", False),
        ("ld-linux-x86-64.so.2", False),
        ("ld-musl-x86_64.so.1", False),
        ("libpthread-2.31.so", False),
        ("libjemalloc.so.2", False),
        ("libpython3.12.so.1.0", False),
        ("python3.11", False),
        ("[vdso]", False),
    ],
)
def test_libraries_that_may_be_interrupted(name: str, allowed: bool) -> None:
    assert (pending.NOT_THERE.search(name) is None) is allowed


def test_only_functions_on_objects_are_interrupted_in_cpython() -> None:
    files = {row.path for row in tracee.mappings(os.getpid()) if row.offset == 0 and "python" in row.path}
    names = {
        name
        for file in files
        if ".so" in file or file == os.path.realpath(sys.executable)
        for name in tracee.exported(file)
    }
    allowed = {name for name in names if pending.ON_OBJECTS.match(name)}
    assert len(allowed) > 200
    for word in ("Py_AddPendingCall", "Py_MakePendingCalls", "_PyEval_EvalFrameDefault", "PyThread_acquire_lock"):
        assert not pending.ON_OBJECTS.match(word)
    for word in ("PyLong_FromLong", "_PyDict_GetItem_KnownHash", "_Py_Dealloc", "PyObject_Malloc"):
        assert pending.ON_OBJECTS.match(word)
    assert not {name for name in allowed if re.search(r"Thread|Eval|Pending|Signal|Mutex|Parking", name)}
