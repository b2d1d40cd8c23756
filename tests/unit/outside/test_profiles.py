"""What py-spy's record of a rank's DataLoader workers says, and what happens where it says nothing."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from jupyter_traindbg.errors import CannotAttach
from jupyter_traindbg.outside import profiles

TORCH = "/env/site-packages/torch/utils/data/_utils"
FRAMES = [
    {"name": "_worker_loop", "file": f"{TORCH}/worker.py", "line": 340},
    {"name": "fetch", "file": f"{TORCH}/fetch.py", "line": 54},
    {"name": "Texts.__getitem__", "file": "/job/a;b (c).py", "line": 33},
    {"name": "get", "file": "/usr/lib/python3.11/multiprocessing/queues.py", "line": 113},
    {"name": "main", "file": "/job/train.py", "line": 9},
    {"name": "main", "file": "/job/tr\0\0\0", "line": 9},
]


def profile(name: str, samples: list[list[int]]) -> dict[str, Any]:
    return {"name": name, "type": "sampled", "samples": samples, "weights": [0.05] * len(samples)}


RECORD = {
    "shared": {"frames": FRAMES},
    "profiles": [
        profile('Process 10 Thread 10 "MainThread"', [[4]] * 9 + [[5]]),
        profile('Process 11 Thread 11 "MainThread"', [[0, 1, 2]] * 6 + [[0, 3]] * 2 + [[4]]),
        profile('Process 11 Thread 12 "QueueFeederThread"', [[3]] * 9),
    ],
}


def stand_in(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in place of py-spy, which finds its output file as the last of its arguments."""
    tool = folder / "py-spy"
    tool.write_text(f"#!/bin/sh\nfor out; do :; done\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setattr(profiles, "py_spy", lambda: str(tool))


def test_workers_are_told_by_their_loop_innermost_frame_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "record.json").write_text(json.dumps(RECORD))
    stand_in(tmp_path, f'cp {tmp_path}/record.json "$out"', monkeypatch)
    rank, worker = profiles.watch(10, threading.Event(), 5.0)
    assert (rank.pid, rank.looks) == (10, 10)
    assert [(frames[0].file, many) for frames, many in rank.stacks] == [("/job/train.py", 9)], "one was torn"
    assert (worker.pid, worker.looks) == (11, 9)
    (made, many), (waits, few) = worker.stacks
    assert [frame.function for frame in made] == ["Texts.__getitem__", "fetch", "_worker_loop"]
    assert made[0].file == "/job/a;b (c).py"
    assert not made[0].library
    assert (many, few) == (6, 2), "a stack outside of the loop is a torn one"
    assert waits[0].function == "get"


def test_it_ends_when_the_window_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "record.json").write_text(json.dumps(RECORD))
    wait = f"trap 'cp {tmp_path}/record.json \"$out\"; exit 0' INT; while :; do sleep 0.05; done"
    stand_in(tmp_path, wait, monkeypatch)
    over = threading.Event()
    threading.Timer(0.3, over.set).start()
    assert [seen.pid for seen in profiles.watch(10, over, 60.0)] == [10, 11]


def test_what_it_said_is_told_where_it_wrote_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, "echo 'Error: Permission denied' >&2; exit 1", monkeypatch)
    with pytest.raises(CannotAttach, match="process 10: Error: Permission denied"):
        profiles.watch(10, threading.Event(), 5.0)
