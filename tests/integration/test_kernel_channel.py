"""Into real kernels of ipykernel 7 and 6, while they are busy in a cell, and without their noticing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import REPO

from jupyter_traindbg.attach.kernel_channel import find_connection_file, kernel_pid, run_in_kernel
from jupyter_traindbg.errors import (
    AmbiguousTarget,
    DeadlineExceeded,
    GilHeld,
    NotPermitted,
    ProbeFailed,
    TargetGone,
    TraindbgError,
    UnknownTarget,
)

if TYPE_CHECKING:
    from kernels import Cell, Kernel

pytest_plugins = ["kernels"]
pytestmark = pytest.mark.timeout(180)

PID = "import os\nresult = {'pid': os.getpid()}"

BUSY = {
    "python loop": "while True: sum(range(1000))",
    "sleep": "import time\nwhile True: time.sleep(100)",
    "C call without the GIL": "import ctypes\nctypes.CDLL(None).sleep(100)",
    "await": "import asyncio\nwhile True: await asyncio.sleep(0.01)",
}

WAIT = "import os, time\nprint('busy', flush=True)\nwhile not os.path.exists('go on'): time.sleep(0.01)\n"
"""A cell that is busy until `go_on`."""
HOLD = (
    "import ctypes, sys\nos.mkfifo('let go')\nfifo, c = os.open('let go', os.O_RDWR), ctypes.PyDLL(None)\n"
    "sys.setswitchinterval(1e6)  # nobody gets the GIL between the two calls\n"
    "c.close(c.creat(b'held', 0o600))\nc.read(fifo, ctypes.create_string_buffer(1), 1)\nsys.setswitchinterval(0.005)\n"
)
"""The GIL is held from the moment at which the file "held" is there until somebody writes to the FIFO "let go"."""
LONG_S = 600.0
"""The deadline of a call that is to come back long before: longer than its test may take."""


def go_on(kernel: Kernel) -> None:
    Path(kernel.file).with_name("go on").touch()


def busy_cell(kernel: Kernel, code: str = WAIT, *, allow_stdin: bool = True) -> Cell:
    cell = kernel.run(code, allow_stdin=allow_stdin)
    cell.wait_for("busy")
    return cell


def subshells(kernel: Kernel) -> list[str]:
    """Ids of the subshells there are; none on ipykernel 6, which has no such thing."""
    features = kernel.control("kernel_info_request").get("supported_features", [])
    return list(kernel.control("list_subshell_request")["subshell_id"]) if "kernel subshells" in features else []


# --- it works while the kernel is busy ---------------------------------------------------------------------------------


@pytest.mark.parametrize("busy", BUSY)
def test_runs_while_the_main_thread_is_busy_and_the_cell_can_still_be_interrupted(kernel: Kernel, busy: str) -> None:
    cell = busy_cell(kernel, f"print('busy', flush=True)\n{BUSY[busy]}")
    for _ in range(5):
        assert run_in_kernel(kernel.file, PID) == {"pid": kernel.pid}
    assert kernel_pid(kernel.file) == kernel.pid
    assert subshells(kernel) == []
    kernel.interrupt()
    assert cell.finish(20)["status"] == "error"
    assert cell.error() in ("KeyboardInterrupt", "CancelledError")
    assert cell.text() == "busy\n"


def test_runs_in_an_idle_kernel(kernel: Kernel) -> None:
    assert run_in_kernel(kernel.file, PID) == {"pid": kernel.pid}
    assert kernel.value("print(1 + 1)") == "2\n"


def test_twenty_calls_leave_nothing_behind_on_either_side(kernel: Kernel) -> None:
    threads = "import threading; print(sorted(t.name for t in threading.enumerate()))"
    before_there = kernel.value(threads)
    before_here = (threading.enumerate(), len(os.listdir("/proc/self/fd")))
    cell = busy_cell(kernel)
    for i in range(20):
        assert run_in_kernel(kernel.file, f"result = {{'i': {i}}}") == {"i": i}
    assert subshells(kernel) == []
    assert (threading.enumerate(), len(os.listdir("/proc/self/fd"))) == before_here
    go_on(kernel)
    assert cell.finish()["status"] == "ok"
    assert kernel.value(threads) == before_there


def test_two_clients_at_once(kernel: Kernel) -> None:
    cell = busy_cell(kernel)

    def client(name: str) -> list[str]:
        return [run_in_kernel(kernel.file, f"result = {{'name': {name!r}}}")["name"] for _ in range(8)]

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(client, ["a", "b"])) == [["a"] * 8, ["b"] * 8]
    assert subshells(kernel) == []
    go_on(kernel)
    assert cell.finish()["status"] == "ok"
    assert kernel.value("print(sorted(set(vars(get_ipython().events)) & {'trigger'}))") == "[]\n"


def test_any_json_comes_back_whole(kernel: Kernel) -> None:
    sent = {"text": "'\"\\\n é 深 \x00 </script> ? %x", "deep": [1.5, None, {"a": [True]}], "long": "x" * 300_000}
    assert run_in_kernel(kernel.file, f"import json\nresult = json.loads({json.dumps(sent)!r})") == sent


def test_from_inside_a_notebook_where_an_event_loop_runs(kernel: Kernel) -> None:
    said = kernel.value(
        f"import sys; sys.path.insert(0, {str(REPO)!r})\n"
        "from jupyter_traindbg.attach.kernel_channel import run_in_kernel\n"
        f"import asyncio; asyncio.get_running_loop()\nprint(run_in_kernel({kernel.file!r}, {PID!r}))"
    )
    assert said == f"{{'pid': {kernel.pid}}}\n"


# --- and the running cell does not notice ------------------------------------------------------------------------------


def test_the_notebooks_state_is_untouched(kernel: Kernel) -> None:
    kernel.value("6 * 7\nprint('first')")
    state = (
        "ip = get_ipython(); n = ip.execution_count\n"
        "seen = (sorted(k for k in ip.user_ns), In[:-1], dict(Out), ip.last_execution_succeeded,\n"
        "  ip.last_execution_result.info.raw_cell, sorted(vars(ip.events)), sorted(vars(ip.payload_manager)),\n"
        "  list(ip.history_manager.get_range(raw=False))[:-1])\n"
    )
    cell = busy_cell(kernel, f"{state}before = n, seen\nimport os, time\n{WAIT}{state}print((n, seen) == before)")
    # `seen` of the second time knows the names that the first has made: make them known to both.
    go_on(kernel)
    cell.finish()
    os.remove(Path(kernel.file).with_name("go on"))
    cell = busy_cell(kernel, f"{state}before = n, seen\n{WAIT}{state}print((n, seen) == before, ip.execution_count)")
    for _ in range(3):
        run_in_kernel(kernel.file, "here = 1\nresult = {'globals': sorted(globals())}")
    go_on(kernel)
    assert cell.finish()["execution_count"] == 3
    assert cell.text() == "busy\nTrue 4\n"
    assert {m["msg_type"] for m in cell.outputs} == {"status", "execute_input", "stream"}


def test_an_open_figure_survives_until_its_own_cell_shows_it(kernel: Kernel) -> None:
    kernel.value("%matplotlib inline\nimport matplotlib.pyplot as plt")
    cell = busy_cell(kernel, f"plt.plot([1, 2])\n{WAIT}print(plt.get_fignums())")
    for _ in range(3):
        run_in_kernel(kernel.file, PID)
    assert "display_data" not in {m["msg_type"] for m in cell.outputs}
    go_on(kernel)
    assert cell.finish()["status"] == "ok"
    assert cell.text() == "busy\n[1]\n"
    assert [m["msg_type"] for m in cell.outputs].count("display_data") == 1


@pytest.mark.parametrize("disturbed", [False, True])
@pytest.mark.parametrize("style", ["plain", "await"])
def test_a_later_input_works_where_the_notebook_allows_it(kernel: Kernel, disturbed: bool, style: str) -> None:
    cell = busy_cell(kernel, f"{_waiting(style)}\nprint('got', input('? '))")
    if disturbed:
        run_in_kernel(kernel.file, PID)
    go_on(kernel)
    kernel.answer_input("hello")
    assert cell.finish(20)["status"] == "ok"
    assert cell.text() == "busy\ngot hello\n"


@pytest.mark.parametrize("disturbed", [False, True])
@pytest.mark.parametrize("style", ["plain", "await"])
def test_a_later_input_fails_where_the_notebook_does_not_allow_it(kernel: Kernel, disturbed: bool, style: str) -> None:
    cell = busy_cell(kernel, f"{_waiting(style)}\nprint('got', input('? '))", allow_stdin=False)
    if disturbed:
        run_in_kernel(kernel.file, PID)
    go_on(kernel)
    assert cell.finish(20)["ename"] == "StdinNotImplementedError"
    assert cell.text() == "busy\n"


def _waiting(style: str) -> str:
    if style == "plain":
        return WAIT
    return (
        "import asyncio, os\nprint('busy', flush=True)\nwhile not os.path.exists('go on'): await asyncio.sleep(0.01)\n"
    )


@pytest.mark.parametrize("style", ["plain", "await"])
def test_what_threads_of_the_cell_print_later_still_belongs_to_the_cell(kernel: Kernel, style: str) -> None:
    thread = (
        "import threading, time, os\n"
        "def late():\n    while not os.path.exists('go on'): time.sleep(0.01)\n    print('from a thread', flush=True)\n"
        "t = threading.Thread(target=late); t.start()\n"
    )
    cell = busy_cell(kernel, f"{thread}{_waiting(style)}t.join()")
    run_in_kernel(kernel.file, PID)
    go_on(kernel)
    cell.finish()
    assert cell.text() == "busy\nfrom a thread\n"


def test_a_payload_that_the_cell_has_queued_reaches_its_notebook(kernel: Kernel) -> None:
    cell = busy_cell(kernel, f"get_ipython().set_next_input('next')\n{WAIT}")
    run_in_kernel(kernel.file, PID)
    go_on(kernel)
    assert [p["source"] for p in cell.finish()["payload"]] == ["set_next_input"]
    assert kernel.run("1").finish()["payload"] == []


@pytest.mark.parametrize(
    ("source", "last_line"),
    [
        ("raise ValueError('no good')", "ValueError: no good"),
        ("def f(:", "SyntaxError: invalid syntax"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("x = 1", "KeyError: 'result'"),
        ("result = {'a': object()}", "TypeError: Object of type object is not JSON serializable"),
    ],
)
def test_an_error_in_the_source_is_told_to_us_alone(kernel: Kernel, source: str, last_line: str) -> None:
    cell = busy_cell(kernel)
    with pytest.raises(ProbeFailed) as failed:
        run_in_kernel(kernel.file, source)
    assert last_line in str(failed.value)
    assert "\n" not in str(failed.value)
    go_on(kernel)
    assert cell.finish()["status"] == "ok"
    assert cell.text("stderr") == ""
    assert cell.error() is None
    assert subshells(kernel) == []
    assert "Traceback" not in kernel.log.read_text()


# --- when it cannot ----------------------------------------------------------------------------------------------------


def test_a_source_that_does_not_end_blocks_neither_interrupt_nor_the_next_call(kernel: Kernel) -> None:
    cell = busy_cell(kernel, "print('busy', flush=True)\nwhile True: pass")
    endless = "import os, time\nwhile not os.path.exists('go on'): time.sleep(0.01)\nresult = {}"
    with pytest.raises(DeadlineExceeded, match="own thread"):
        run_in_kernel(kernel.file, endless, 2)
    assert subshells(kernel) == []
    assert run_in_kernel(kernel.file, PID) == {"pid": kernel.pid}
    kernel.interrupt()
    cell.finish(10)
    assert cell.error() == "KeyboardInterrupt"
    go_on(kernel)
    names = "import threading; print([t.name for t in threading.enumerate() if 'traindbg' in t.name])"
    kernel.until(lambda: kernel.value(names) == "[]\n", "the thread has gone", 20)


def test_while_the_gil_is_held_there_is_a_clean_error_and_it_works_afterwards(kernel: Kernel) -> None:
    cell = busy_cell(kernel, WAIT + HOLD)
    go_on(kernel)
    folder = Path(kernel.file).parent
    kernel.until((folder / "held").exists, "the GIL is held", 30)
    with pytest.raises(GilHeld) as held:
        run_in_kernel(kernel.file, PID, 1.5)
    assert "traindbg stacks" in str(held.value)
    assert find_connection_file(kernel.file) == kernel.file
    (folder / "let go").write_bytes(b"-")
    assert cell.finish()["status"] == "ok"
    assert run_in_kernel(kernel.file, PID) == {"pid": kernel.pid}
    assert subshells(kernel) == []
    assert kernel.value("print('fine')") == "fine\n"


def test_a_dead_kernel_is_told_and_not_waited_for(kernel: Kernel) -> None:
    kernel.kill()
    with pytest.raises(TargetGone):
        run_in_kernel(kernel.file, PID, LONG_S)
    with pytest.raises(TargetGone):
        kernel_pid(kernel.file, LONG_S)
    with pytest.raises(TargetGone):
        find_connection_file(kernel.file)


def test_a_kernel_that_dies_in_mid_request(kernel: Kernel) -> None:
    with pytest.raises(TargetGone):
        run_in_kernel(kernel.file, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", LONG_S)


def test_a_stopped_kernel_is_named_and_works_after_it_goes_on(kernel: Kernel) -> None:
    os.kill(kernel.pid, signal.SIGSTOP)
    with pytest.raises(DeadlineExceeded, match=f"process {kernel.pid} is stopped.*kill -CONT"):
        run_in_kernel(kernel.file, PID)
    os.kill(kernel.pid, signal.SIGCONT)
    assert run_in_kernel(kernel.file, PID) == {"pid": kernel.pid}


def test_a_wrong_key(kernel: Kernel) -> None:
    knows = "kernel subshells" in kernel.control("kernel_info_request").get("supported_features", [])
    with pytest.raises(NotPermitted if knows else GilHeld, match="the key in"):
        run_in_kernel(kernel.wrong_key_file(), PID, LONG_S if knows else 3)
    assert run_in_kernel(kernel.file, PID) == {"pid": kernel.pid}


# --- finding kernels ---------------------------------------------------------------------------------------------------


def test_finds_a_kernel_by_path_id_and_prefix(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    name = Path(kernel.file).stem.removeprefix("kernel-")
    directory = Path(kernel.file).parent
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(directory))
    for text in (kernel.file, name, name[:-3]):
        assert find_connection_file(text) == kernel.file
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(directory / "elsewhere"))
    assert find_connection_file(name) == kernel.file  # from the kernel's command line


def test_a_wrong_id_lists_the_kernels_that_run(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = Path(kernel.file).parent
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(directory))
    (directory / "jpserver-1.json").write_text('{"port": 8888}')
    (directory / "broken.json").write_text("{")
    for text in ("no-such-kernel", str(directory / "none.json"), ""):
        with pytest.raises(UnknownTarget) as unknown:
            find_connection_file(text)
        assert f"kernel:{Path(kernel.file).stem.removeprefix('kernel-')[:8]}" in str(unknown.value)
        assert "jpserver" not in str(unknown.value)
        assert "\n" not in str(unknown.value)
    for text in ("jpserver-1.json", "broken.json"):
        with pytest.raises(UnknownTarget, match="not a kernel's connection file"):
            find_connection_file(str(directory / text))


def test_a_prefix_of_two_kernels_is_ambiguous_unless_one_is_dead(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = Path(kernel.file).parent
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(directory))
    name = Path(kernel.file).stem.removeprefix("kernel-")
    twin = directory / f"kernel-{name}-twin.json"
    shutil.copy(kernel.file, twin)
    with pytest.raises(AmbiguousTarget, match="twin"):
        find_connection_file(name[:-1])
    assert find_connection_file(name) == kernel.file  # the whole id is not ambiguous
    twin.write_text(json.dumps({**json.loads(twin.read_text()), "hb_port": 1}))
    assert find_connection_file(name[:-1]) == kernel.file
    with pytest.raises(TargetGone):
        find_connection_file(f"{name}-twin")


def test_errors_are_ours_and_importing_is_cheap() -> None:
    with pytest.raises(TraindbgError):
        run_in_kernel("/no/such/file.json", PID)
    code = (
        "import sys, jupyter_traindbg.attach.kernel_channel\n"
        "print([m for m in ('zmq', 'jupyter_client', 'jupyter_core', 'psutil', 'IPython') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"
