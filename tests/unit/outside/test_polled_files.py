"""Files that a loop looks at: whether they are there, and who holds them. Real files, real locks, real processes."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_traindbg.model import PolledFile
from jupyter_traindbg.outside import filelocks, polled_files

ME = os.getpid()


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """A process of this user's that does nothing."""
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    yield process
    process.communicate(timeout=20)


def look(path: Path | str, *ranks: int) -> PolledFile | None:
    found = polled_files.look({ME: [str(path)]}, (ME, *ranks), 1 + len(ranks))[ME]
    return found[0] if found else None


def test_a_file_that_is_not_there_is_told_where_its_directory_is(tmp_path: Path) -> None:
    assert look(tmp_path / "ready") == PolledFile(str(tmp_path / "ready"), there=False)
    assert look(tmp_path / "none" / "ready") is None
    assert look("not.a.path") is None


def test_a_folder_may_be_looked_into(tmp_path: Path) -> None:
    assert look(tmp_path) == PolledFile(str(tmp_path))
    assert look("/dev/null") is None


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (
            [
                "part-00000.done",
                "part-00001.done",
                "part-00003.done",
                "part-00000.txt",
                "part-00001.txt",
                "part-00003.txt",
            ],
            "part-00002.done",
        ),
        (["epoch3-rank0", "epoch3-rank1", "epoch3-rank2"], "epoch3-rank3"),
        (["0.ok", "2.ok", "3.ok", "notes.txt", "run-2025"], "1.ok"),
    ],
)
def test_the_one_file_that_is_missing_of_its_kind_is_told(tmp_path: Path, names: list[str], missing: str) -> None:
    for name in names:
        (tmp_path / name).touch()
    number = int(re.findall(r"\d+", missing)[-1])
    four = (1, 2, 3)  # and this one
    assert look(tmp_path, *four) == PolledFile(str(tmp_path), unmade=missing, unmade_by=number)
    path = str(tmp_path / missing)
    assert look(path, *four) == PolledFile(path, there=False, unmade=missing, unmade_by=number)
    other = str(tmp_path / "ready-7")
    assert look(other, *four) == PolledFile(other, there=False)
    assert look(tmp_path, *four, 4) == PolledFile(str(tmp_path)), "two of five are missing"


@pytest.mark.parametrize(
    "names", [["a0", "a1", "a2", "a3"], ["a0", "a1"], ["a0", "a1", "a2", "b1", "b2", "b3"], ["a1", "a2", "a4"]]
)
def test_where_none_or_several_are_missing_nothing_is_told(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).touch()
    assert look(tmp_path, 1, 2, 3) == PolledFile(str(tmp_path))


def test_what_may_be_numbered_by_steps_is_told_of_no_rank(tmp_path: Path) -> None:
    for name in ("words-0.json", "words-1.json", "words-2.json", "epoch-1", "epoch-2", "epoch-3"):
        (tmp_path / name).touch()
    assert look(tmp_path, 1, 2, 3) == PolledFile(str(tmp_path))
    step = str(tmp_path / "words-3.json")
    assert look(step, 1, 2, 3) == PolledFile(step, there=False)
    first = str(tmp_path / "epoch-0")
    assert look(first, 1, 2, 3) == PolledFile(first, there=False, unmade="epoch-0", unmade_by=0)


def test_of_two_ranks_one_file_is_no_kind(tmp_path: Path) -> None:
    (tmp_path / "a0").touch()
    assert look(tmp_path, 1) == PolledFile(str(tmp_path))


def test_a_folder_is_read_once_for_all_who_look_into_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").symlink_to(tmp_path)
    for name in ("rank0", "rank1", "rank3"):
        (tmp_path / name).touch()
    read: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: read.append(path) or scandir(path))
    paths = [str(tmp_path), str(tmp_path / "here"), str(tmp_path / "rank2")]
    found = polled_files.look({ME: paths, os.getppid(): paths}, (ME, 1, 2, 3), 4)
    assert [[file.unmade for file in files] for files in found.values()] == [["rank2"] * 3] * 2
    assert len(read) == 1


def test_ranks_on_other_hosts_leave_files_in_a_shared_folder_too(tmp_path: Path) -> None:
    for name in ("rank0", "rank1", "rank3"):
        (tmp_path / name).touch()
    (told,) = polled_files.look({ME: [str(tmp_path)]}, (ME, os.getppid()), 4)[ME]
    assert (told.unmade, told.unmade_by) == ("rank2", 2)


def test_a_plain_file_has_no_holder(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text(f"{ME}")
    assert look(tmp_path / "metrics.json") == PolledFile(str(tmp_path / "metrics.json"))


def test_a_file_is_found_by_a_relative_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("")
    assert look("a.txt") == PolledFile("a.txt")


@pytest.mark.parametrize("words", ["{pid}\n", "{pid}\n{host}\n", "pid: {pid}", "PID={pid}"])
def test_the_pid_in_a_lock_file_is_its_holder(tmp_path: Path, other: subprocess.Popen[bytes], words: str) -> None:
    path = tmp_path / "cache.lock"
    path.write_text(words.format(pid=other.pid, host=socket.gethostname()))
    found = look(path)
    assert found is not None
    assert found.holder is not None
    assert (found.how, found.holder.pid) == ("written", other.pid)
    assert found.holder.command


@pytest.mark.parametrize("words", ["", "held", "{pid}\nsome-other-host\n", "v2 {pid}"])
def test_what_is_no_pid_of_this_host_is_none(tmp_path: Path, other: subprocess.Popen[bytes], words: str) -> None:
    path = tmp_path / "cache.lock"
    path.write_text(words.format(pid=other.pid))
    assert look(path) == PolledFile(str(path))


def test_a_holder_that_has_ended_has_no_command(tmp_path: Path) -> None:
    path = tmp_path / "cache.lock"
    path.write_text("999999999")
    found = look(path)
    assert found is not None
    assert found.holder is not None
    assert found.holder.command == ""


def test_its_own_lock_is_none_that_anybody_waits_for(tmp_path: Path) -> None:
    path = tmp_path / "cache.lock"
    path.write_text(str(ME))
    assert look(path) == PolledFile(str(path))


TAKES = """
import fcntl, sys
file = open(sys.argv[1], "a")
if sys.argv[2] == "lock":
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("taken", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["lock", "open"])
def test_who_has_it_locked_or_open_is_its_holder(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polled_files, "BESIDE_S", 20.0)
    path = tmp_path / "cache.lock"
    taker = subprocess.Popen(
        [sys.executable, "-c", TAKES, str(path), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert taker.stdout is not None
        assert taker.stdout.readline() == b"taken\n"
        found = look(path, taker.pid)
        assert found is not None
        assert found.holder is not None
        beside = look(path)  # it is none of the job's
        assert beside is not None
        assert beside.holder == found.holder
        told = "locked" if how == "lock" and filelocks.owner(path.stat()) else "open"
        assert (found.how, found.holder.pid) == (told, taker.pid)
        if how == "lock":
            with path.open() as mine, pytest.raises(BlockingIOError):
                fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        taker.communicate(timeout=20)


def test_of_several_that_have_it_open_nobody_is_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "cache.lock"
    command = [sys.executable, "-c", TAKES, str(path), "open"]
    takers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for taker in takers:
            assert taker.stdout is not None
            assert taker.stdout.readline() == b"taken\n"
        assert look(path, *(taker.pid for taker in takers)) == PolledFile(str(path))
    finally:
        for taker in takers:
            taker.communicate(timeout=20)


def test_a_lock_is_found_by_device_and_inode() -> None:
    about = os.stat_result((0o100644, 99, os.makedev(0, 0x2A), 1, 0, 0, 0, 0, 0, 0))
    others = "1: POSIX  ADVISORY  READ  899 00:1c:99 128 128", "2: -> FLOCK  ADVISORY  WRITE 5001 00:2a:99 0 EOF"
    table = "\n".join((others[0], "2: FLOCK  ADVISORY  WRITE 4711 00:2a:99 0 EOF", others[1]))
    assert filelocks.owner(about, table) == 4711
    assert filelocks.owner(about, "3: FLOCK  ADVISORY  WRITE -1 00:2a:99 0 EOF\nnonsense\n") is None
    assert filelocks.owner(about, "") is None


def test_a_host_with_too_many_open_files_costs_only_that_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polled_files, "BESIDE_S", 0.0)
    (tmp_path / "a.lock").touch()
    found = look(tmp_path / "a.lock")
    assert found is not None
    assert (found.there, found.holder) == (True, None)
