"""The helper's directory on its node, without a cluster: private, gone with its process, and clean of those that others left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jupyter_traindbg.hosts import helper, shipping

ALONE = """
import importlib.util, sys, time
spec = importlib.util.spec_from_file_location("helper", sys.argv[1])
helper = importlib.util.module_from_spec(spec)
spec.loader.exec_module(helper)
one = helper.Helper("jupyter_traindbg", open(sys.argv[3], "rb").read(), sys.argv[2])
about = one.about()
assert not about["error"], about
import pickle
answer = pickle.loads(one.run(pickle.dumps(("jupyter_traindbg.spread.part:host", (), {}, False, "en"))))
asked = ("jupyter_traindbg.attach.access:check", (2**22 - 1,), {}, False, "zh")
error = pickle.loads(one.run(pickle.dumps(asked)))[1]
import jupyter_traindbg
print(one._place, answer[0], jupyter_traindbg.__file__, str(error).encode().hex(), flush=True)
if sys.argv[4] == "close":
    one.close()
time.sleep(60)
"""


def start(tmp_path: Path, how: str) -> tuple[subprocess.Popen[str], list[str]]:
    archive = tmp_path / "archive.zip"
    archive.write_bytes(shipping.archive())
    session = tmp_path / "session"
    session.mkdir(exist_ok=True)
    assert helper.__file__ is not None
    command = [sys.executable, "-I", "-c", ALONE, helper.__file__, str(session), str(archive), how]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().split()


def until_gone(path: str, within_s: float = 10.0) -> bool:
    deadline = time.monotonic() + within_s
    while os.path.exists(path) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not os.path.exists(path)


@pytest.mark.parametrize("how", ["SIGKILL", "close"])
def test_our_source_runs_there_and_is_gone_afterwards(tmp_path: Path, how: str) -> None:
    process, (place, good, imported_from, error) = start(tmp_path, how)
    try:
        assert good == "True"
        assert imported_from.startswith(place)
        assert bytes.fromhex(error).decode().startswith(f"没有进程 {2**22 - 1}；"), "the translations travel, too"
        if how == "SIGKILL":
            assert os.stat(place).st_mode & 0o777 == 0o700
            process.kill()
        assert until_gone(place)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_what_a_dead_helper_left_is_removed_and_a_living_ones_stays(tmp_path: Path) -> None:
    process, (living, *_) = start(tmp_path, "stay")
    left = tmp_path / "session" / f"{helper.PREFIX}left"
    left.mkdir(0o700)
    (left / helper.LOCK).touch()
    stranger = tmp_path / "session" / "logs"
    stranger.mkdir()
    other, (second, *_) = start(tmp_path, "stay")
    try:
        assert not left.exists()
        assert os.path.isdir(living)
        assert os.path.isdir(second)
        assert stranger.exists()
    finally:
        for one in (process, other):
            os.kill(one.pid, signal.SIGKILL)
            one.wait()
            assert one.stdout is not None
            one.stdout.close()
