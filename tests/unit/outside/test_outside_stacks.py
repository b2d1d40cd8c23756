"""How `dump` speaks with py-spy: stand-ins for the tool that hang, fail or are missing. Real targets:
tests/integration/test_outside.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from stand_ins import THREAD, Put, for_py_spy
from support import Start

from jupyter_traindbg.errors import CannotAttach, DeadlineExceeded, MissingPiece, NotPermitted, TargetGone
from jupyter_traindbg.outside import procfs, stacks


@pytest.fixture
def py_spy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    return for_py_spy(tmp_path, monkeypatch)


@pytest.mark.timeout(30)
def test_a_tool_that_hangs_is_killed_at_the_deadline(py_spy: Put, tmp_path: Path) -> None:
    py_spy(f"echo $$ > {tmp_path}/pid; exec tail -f /dev/null")
    with pytest.raises(DeadlineExceeded, match=str(os.getpid())):
        stacks.dump(os.getpid(), deadline_s=0.3, children=False)
    assert not procfs.exists(int((tmp_path / "pid").read_text()))


def test_a_torn_look_is_repeated(py_spy: Put, tmp_path: Path) -> None:
    good = json.dumps([THREAD])
    py_spy(
        f"echo x >> {tmp_path}/looks; [ $(wc -l < {tmp_path}/looks) -lt 3 ] && {{ echo 'Error: torn' >&2; exit 1; }}\necho '{good}'"
    )
    (found,) = stacks.dump(os.getpid(), children=False)
    assert (found.threads[0].frames[0].file, found.threads[0].frames[0].line) == ("/home/ann/train.py", 7)
    assert (tmp_path / "looks").read_text() == "x\n" * 3


def test_a_main_thread_without_its_beginning_is_looked_at_again(py_spy: Put, tmp_path: Path) -> None:
    torn = json.dumps([{**THREAD, "frames": THREAD["frames"][:1]}])  # type: ignore[index]
    looks = tmp_path / "looks"
    py_spy(
        f"echo x >> {looks}; if [ $(wc -l < {looks}) -lt 2 ]; then echo '{torn}'; else echo '{json.dumps([THREAD])}'; fi"
    )
    (found,) = stacks.dump(os.getpid(), children=False)
    assert [f.function for f in found.threads[0].frames] == ["main", "<module>"]
    py_spy(f"echo '{torn}'")
    (found,) = stacks.dump(os.getpid(), children=False)
    assert [f.function for f in found.threads[0].frames] == ["main"], "a program that embeds Python"


@pytest.mark.timeout(30)
def test_a_torn_look_is_better_than_none_at_the_deadline(py_spy: Put, tmp_path: Path) -> None:
    torn = json.dumps([{**THREAD, "frames": THREAD["frames"][:1]}])  # type: ignore[index]
    looks = tmp_path / "looks"
    py_spy(f"echo x >> {looks}; [ $(wc -l < {looks}) -lt 2 ] || exec tail -f /dev/null; echo '{torn}'")
    (found,) = stacks.dump(os.getpid(), children=False, deadline_s=1.0)
    assert [f.function for f in found.threads[0].frames] == ["main"]


HOLDS, HOLDS_NOT = (json.dumps([{**THREAD, "owns_gil": owns}]) for owns in (True, False))


@pytest.fixture
def asleep() -> Iterator[int]:
    """A process that sleeps, whatever py-spy's stand-in says of it."""
    with subprocess.Popen(["sleep", "600"]) as process:
        while (seen := procfs.stat(process.pid)) is None or seen.state != "S" or seen.comm != "sleep":
            time.sleep(0.01)
        yield process.pid
        process.kill()


@pytest.mark.parametrize(("second", "kept"), [(HOLDS, True), (HOLDS_NOT, False)], ids=["holds it", "gave it back"])
def test_who_sleeps_with_the_gil_is_looked_at_twice(
    py_spy: Put, tmp_path: Path, asleep: int, second: str, kept: bool
) -> None:
    """Between py-spy's look and the kernel's a thread may go to sleep, and give the GIL back."""
    looks = tmp_path / "looks"
    py_spy(f"echo x >> {looks}; if [ $(wc -l < {looks}) -lt 2 ]; then echo '{HOLDS}'; else echo '{second}'; fi")
    (found,) = stacks.dump(asleep, children=False)
    assert looks.read_text() == "x\n" * 2
    assert (found.threads[0].holds_gil, "keeps the GIL" in found.note) == (kept, kept)


def test_what_one_look_alone_says_of_the_gil_is_not_told(py_spy: Put, tmp_path: Path, asleep: int) -> None:
    looks = tmp_path / "looks"
    py_spy(f"echo x >> {looks}; [ $(wc -l < {looks}) -lt 2 ] || exit 1; echo '{HOLDS}'")
    (found,) = stacks.dump(asleep, children=False)
    assert (found.threads[0].holds_gil, found.note) == (False, "")


def test_a_tool_that_keeps_failing_is_quoted(py_spy: Put) -> None:
    py_spy("echo 'Error: Failed to merge strings' >&2; exit 1")
    with pytest.raises(CannotAttach, match=r"could not read process \d+: Failed to merge strings; try again"):
        stacks.dump(os.getpid(), children=False)


def test_no_thread_in_the_answer_is_no_answer(py_spy: Put) -> None:
    py_spy("echo '[]'")
    with pytest.raises(CannotAttach, match="no thread runs Python yet"):
        stacks.dump(os.getpid(), children=False)


def test_a_process_that_ends_in_between_is_gone(py_spy: Put, start: Start) -> None:
    target = start("hung_lock.py")
    py_spy(f"kill -9 {target.pid}; sleep 0.2; echo 'Error: No such file' >&2; exit 1")
    with pytest.raises(TargetGone):
        stacks.dump(target.pid, children=False)


@pytest.mark.parametrize(
    ("scope", "words"),
    [(0, "--cap-add SYS_PTRACE"), (1, "sysctl kernel.yama.ptrace_scope=0"), (2, "with sudo"), (3, "with sudo")],
)
def test_refused_says_why_and_what_to_do(py_spy: Put, monkeypatch: pytest.MonkeyPatch, scope: int, words: str) -> None:
    py_spy("echo 'Permission Denied: Try running again' >&2; exit 1")
    monkeypatch.setattr(stacks, "_yama_scope", lambda: scope)
    with pytest.raises(NotPermitted) as refused:
        stacks.dump(os.getpid(), children=False)
    assert words in refused.value.next_step


def test_a_missing_tool_names_the_install_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda *_: str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(MissingPiece, match=r"py-spy is not installed; .*python -m pip install 'py-spy>=0.4'"):
        stacks.py_spy()
