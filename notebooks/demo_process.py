"""Starts and stops the training that the demo attaches to. Used by `make demo`, and by the notebook where nobody ran that."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

TRAINER = Path(__file__).resolve().parent / "demo_train.py"
STATE = Path(os.environ.get("TRAINDBG_DEMO_DIR") or TRAINER.parent.parent / ".demo")
LOG = STATE / "train.log"
PID_FILE = STATE / "train.pid"

FIRST_STEPS = b"step 20 "
START_LIMIT_S = 180.0
STOP_LIMIT_S = 10.0


def start(minutes: float) -> subprocess.Popen[bytes]:
    """The training, some steps under way, as a process of its own session that knows nothing of traindbg.

    Where the kernel lets nobody into such a process, it is started again prepared (``TRAINDBG=1``), and a line says so. It ends by itself
    after `minutes`, should nobody be left to stop it. Raises RuntimeError where it does not come up.
    """
    process = _launch(minutes, {})
    reason = _why_not(process.pid)
    if reason is not None:
        print(f"-- this system lets nobody into an unprepared process ({reason}); starting it with TRAINDBG=1", flush=True)
        stop(process)
        process = _launch(minutes, {"TRAINDBG": "1"})
    return process


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stop the training and its DataLoader workers. Takes 0.1 s, 20 s at most."""
    stop_group(process.pid, process)
    atexit.unregister(stop_group)
    PID_FILE.unlink(missing_ok=True)


def stop_leftover() -> None:
    """Stop the training of an earlier demo that was itself killed too hard to do so."""
    if PID_FILE.exists():
        pid, _, ticks = PID_FILE.read_text().partition(" ")
        if pid.isdigit() and start_ticks(int(pid)) == ticks:
            stop_group(int(pid))
        PID_FILE.unlink(missing_ok=True)


def losses() -> list[tuple[int, str]]:
    """Step number and loss of every step in the training's own log; nine digits, so equal text is equal to the last bit."""
    rows = [line.split() for line in LOG.read_text().splitlines(keepends=True) if line.startswith("step ") and line.endswith("\n")]
    return [(int(row[1]), row[3]) for row in rows]


def start_ticks(pid: int) -> str:
    """When process `pid` started, in clock ticks since boot ("" where it is gone): tells it from a later one of the same number."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _why_not(pid: int) -> str | None:
    """Why `pid` cannot be entered. Asked by a child process: where parents may trace (Yama), this process is allowed more than others."""
    command = [sys.executable, "-m", "jupyter_traindbg.cli", "targets", "--json"]
    answer = subprocess.run(command, stdout=subprocess.PIPE, timeout=60, check=True)
    return next((t["why_not"] for t in json.loads(answer.stdout)["targets"] if t["pid"] == pid), None)


def _launch(minutes: float, more_environment: dict[str, str]) -> subprocess.Popen[bytes]:
    STATE.mkdir(mode=0o700, exist_ok=True)
    environment = {k: v for k, v in os.environ.items() if k != "TRAINDBG"} | more_environment
    with LOG.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(TRAINER), "--minutes", str(minutes)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    atexit.register(stop_group, process.pid, process)
    PID_FILE.write_text(f"{process.pid} {start_ticks(process.pid)}")
    _wait_for_first_steps(process)
    return process


def _wait_for_first_steps(process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while FIRST_STEPS not in LOG.read_bytes():
        if process.poll() is not None:
            raise RuntimeError(f"the training ended with status {process.returncode}:\n{LOG.read_text(errors='replace')}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"the training made no progress in {START_LIMIT_S:.0f} s; see {LOG}")
        time.sleep(0.1)


def stop_group(leader: int, process: subprocess.Popen[bytes] | None = None) -> None:
    """End the process group of `leader`: politely, then by force. `process` is given where it is our child."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + STOP_LIMIT_S
        while time.monotonic() < deadline:
            try:
                os.killpg(leader, number)
            except ProcessLookupError:
                return
            if process is not None:
                process.poll()  # reap it: a zombie still counts as a member of its group
            time.sleep(0.1)
