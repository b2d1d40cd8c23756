"""`traindbg diagnose --follow` on a real program that writes a log and then falls silent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import PROGRAMS

PROGRAM = PROGRAMS / "rollout_loop.py"
ROUNDS = 6
LINES = ROUNDS * 3 * 2


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A log whose writer sleeps in its last stage, and has done so for ten minutes as far as the file can tell."""
    path = tmp_path_factory.mktemp("follow") / "train.log"
    words = [sys.executable, str(PROGRAM), str(path), "--rounds", str(ROUNDS), "--stage-s", "0.02"]
    with subprocess.Popen(words) as process:
        deadline = time.monotonic() + 60
        while not path.exists() or path.read_text().count("\n") < LINES:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.utime(path, (time.time() - 600, time.time() - 600))
        yield path, process
        process.kill()


def follow(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "jupyter_traindbg.cli", "diagnose", "--follow", str(path), *options]
    return subprocess.run(words, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=100)


def test_a_silent_log_names_its_process_and_the_line_where_it_waits(
    silent: tuple[Path, subprocess.Popen[bytes]],
) -> None:
    path, process = silent
    done = follow(path, "--for", "0.5", "--json")
    assert (done.returncode, done.stderr) == (1, "")
    answer: dict[str, Any] = json.loads(done.stdout)
    (finding,) = answer["findings"]
    here = next(n for n, text in enumerate(PROGRAM.read_text().splitlines(), 1) if text.endswith("# HERE"))
    assert finding["code"] == "log_silent"
    assert finding["who"] == [f"process {process.pid}"]
    assert finding["where"] == f"{PROGRAM}:{here} wait_for_engine"
    assert (answer["stage"], answer["visits"], answer["lines_read"]) == ("sync", ROUNDS, LINES)


def test_a_pipe_gets_a_line_for_each_piece_of_news(silent: tuple[Path, subprocess.Popen[bytes]]) -> None:
    path, process = silent
    done = follow(path, "--for", "2.5", "--every", "0.2")
    assert done.returncode == 1
    first, last, *picture = done.stdout.splitlines()
    assert first == f"{path.name}:{LINES - 1}: sync · log_silent"
    assert last.startswith(first)
    assert "wait_for_engine" in "\n".join(picture)
    assert str(process.pid) in "\n".join(picture)


def test_it_ends_with_the_job(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.touch()
    follower = [sys.executable, "-m", "jupyter_traindbg.cli", "diagnose", "--follow", str(path), "--every", "0.1"]
    with (
        subprocess.Popen([sys.executable, str(PROGRAM), str(path), "--stage-s", "0.05"]) as writer,
        subprocess.Popen(follower, stdout=subprocess.PIPE, text=True) as following,
    ):
        assert following.stdout is not None
        news = iter(following.stdout.readline, "")
        assert any("sync" in line for line in news)
        writer.kill()
        assert any("the job has ended" in line for line in news)
        following.stdout.read()
    assert following.returncode == 0


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--follow"], 2, "needs one log"),
        (["--follow", "1234"], 2, "needs one log"),
        (["--follow", "no-such.log"], 3, "no-such.log"),
        (["--follow", str(PROGRAM), "--every", "0"], 2, "--every"),
        (["--follow", "."], 3, "one file"),
    ],
)
def test_what_cannot_be_followed_is_one_clear_line(words: list[str], status: int, said: str, tmp_path: Path) -> None:
    for name in ("rank0.log", "rank1.log"):
        (tmp_path / name).write_text("step 1\n")
    command = [sys.executable, "-m", "jupyter_traindbg.cli", "diagnose", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == status
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
