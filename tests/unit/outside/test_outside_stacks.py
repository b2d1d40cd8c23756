"""How `dump` speaks with py-spy: stand-ins for the tool that hang, fail or are missing. Real targets:
tests/integration/test_outside.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jupyter_traindbg.errors import CannotAttach, DeadlineExceeded, MissingPiece, NotPermitted, TargetGone
from jupyter_traindbg.outside import procfs, stacks

THREAD = {
    "pid": 1,
    "thread_id": 1,
    "thread_name": "MainThread",
    "os_thread_id": None,
    "owns_gil": False,
    "frames": [{"name": "main", "filename": "/home/ann/train.py", "line": 7}],
}


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Puts a shell script in py-spy's place."""

    def put(script: str) -> Path:
        path = tmp_path / "py-spy"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setattr(stacks, "py_spy", lambda: str(path))
        return path

    return put


def test_a_tool_that_hangs_is_killed_at_the_deadline(tool, tmp_path):
    tool(f"echo $$ > {tmp_path}/pid; exec sleep 60")
    started = time.monotonic()
    with pytest.raises(DeadlineExceeded, match=str(os.getpid())):
        stacks.dump(os.getpid(), deadline_s=0.3, children=False)
    assert time.monotonic() - started < 1
    assert not procfs.exists(int((tmp_path / "pid").read_text()))


def test_a_torn_look_is_repeated(tool, tmp_path):
    good = json.dumps([THREAD])
    tool(
        f"echo x >> {tmp_path}/looks; [ $(wc -l < {tmp_path}/looks) -lt 3 ] && {{ echo 'Error: torn' >&2; exit 1; }}\necho '{good}'"
    )
    (found,) = stacks.dump(os.getpid(), children=False)
    assert (found.threads[0].frames[0].file, found.threads[0].frames[0].line) == ("/home/ann/train.py", 7)
    assert (tmp_path / "looks").read_text() == "x\n" * 3


def test_a_tool_that_keeps_failing_is_quoted(tool):
    tool("echo 'Error: Failed to merge strings' >&2; exit 1")
    with pytest.raises(CannotAttach, match=r"could not read process \d+: Failed to merge strings; try again"):
        stacks.dump(os.getpid(), children=False)


def test_no_thread_in_the_answer_is_no_answer(tool):
    tool("echo '[]'")
    with pytest.raises(CannotAttach, match="no thread runs Python yet"):
        stacks.dump(os.getpid(), children=False)


def test_a_process_that_ends_in_between_is_gone(tool, start):
    target = start("hung_lock.py")
    tool(f"kill -9 {target.pid}; sleep 0.2; echo 'Error: No such file' >&2; exit 1")
    with pytest.raises(TargetGone):
        stacks.dump(target.pid, children=False)


@pytest.mark.parametrize(
    ("scope", "words"),
    [(0, "--cap-add SYS_PTRACE"), (1, "sysctl kernel.yama.ptrace_scope=0"), (2, "with sudo"), (3, "with sudo")],
)
def test_refused_says_why_and_what_to_do(tool, monkeypatch, scope, words):
    tool("echo 'Permission Denied: Try running again' >&2; exit 1")
    monkeypatch.setattr(stacks, "_yama_scope", lambda: scope)
    with pytest.raises(NotPermitted) as refused:
        stacks.dump(os.getpid(), children=False)
    assert words in refused.value.next_step


def test_a_missing_tool_names_the_install_line(monkeypatch, tmp_path):
    monkeypatch.setattr("sysconfig.get_path", lambda *_: str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(MissingPiece, match=r"py-spy is not installed; .*python -m pip install 'py-spy>=0.4'"):
        stacks.py_spy()


def test_a_childs_failure_does_not_cost_the_others(tool, start):
    good = json.dumps([THREAD])
    target = start("hung_loader.py")
    tool(f"case $5 in {target.pid}) echo '{good}';; *) echo 'Error: torn' >&2; exit 1;; esac")
    first, *workers = stacks.dump(target.pid)
    assert first.threads[0].frames
    assert [w.role for w in workers] == ["DataLoader worker"] * 2
    for worker in workers:
        assert "torn" in worker.note
        assert worker.threads[0].frames == ()
    assert {w.threads[0].waiting_for for w in workers} == {"sleep", "a socket or a pipe"}


def test_py_spy_is_found_by_many_threads_at_once_in_a_fresh_interpreter():
    """Python 3.11's sysconfig is not safe against that; asking for several ranks does it."""
    program = (
        "import sys; sys.setswitchinterval(1e-6)\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from jupyter_traindbg.outside.stacks import py_spy\n"
        "with ThreadPoolExecutor(16) as pool: print(len({f.result() for f in [pool.submit(py_spy) for _ in range(64)]}))"
    )
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
        assert (done.stdout, done.stderr) == ("1\n", "")
