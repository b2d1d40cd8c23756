"""Methods of a worker that is played end by an interrupt, on every Python; the real ones are in the integration tests."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path

import pytest
from support import PROGRAMS, REPO, interpreters

from jupyter_traindbg.agent import throwing
from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.refused import Refused


@pytest.mark.parametrize("signals", ["heard", "ignored"])
@pytest.mark.parametrize("python", interpreters().values(), ids=interpreters())
def test_what_computes_or_waits_on_the_main_thread_is_interrupted(python: str, signals: str, tmp_path: Path) -> None:
    """Where SIGINT is ignored, as in a cluster that a script has started in the background, waits for locks are reached all the same."""
    words = [python, "-B", str(PROGRAMS / "interrupted.py"), str(REPO / "jupyter_traindbg"), signals]
    seen = subprocess.run(words, capture_output=True, text=True, timeout=100, cwd=tmp_path, check=False)
    assert seen.returncode == 0, seen.stderr
    answer = json.loads(seen.stdout)
    methods = {"busy", "locks", "waits"} | ({"sleeps"} if signals == "heard" else set())
    assert answer["ended"] == dict.fromkeys(methods, "KeyboardInterrupt")
    assert answer["answers"] == dict.fromkeys(methods, True)
    assert seen.stderr.count("traindbg interrupts") == len(methods), "whoever reads the log finds out why"


def test_a_process_that_is_no_worker_is_left_alone(agent: Agent) -> None:
    assert agent.call("interrupt", {})["worker"] is False
    with pytest.raises(Refused, match="no worker of Ray's"):
        agent.call("interrupt", {"do": "interrupt"})
    with pytest.raises(Refused, match="there are look and interrupt"):
        agent.call("interrupt", {"do": "kill"})


def test_an_exception_can_be_put_into_a_thread() -> None:
    caught = threading.Event()

    def work() -> None:
        try:
            while not caught.wait(0.01):
                pass
        except KeyboardInterrupt:
            caught.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    throwing.put_into(thread.ident or 0, KeyboardInterrupt)
    assert caught.wait(10)


def test_a_nudge_leaves_no_handler_behind() -> None:
    import signal

    before = [signal.getsignal(number) for number in throwing.QUIET_SIGNALS]
    throwing.nudge(threading.main_thread().ident)
    assert [signal.getsignal(number) for number in throwing.QUIET_SIGNALS] == before
    with open("/proc/self/status") as f:
        (caught,) = [int(line.split()[1], 16) for line in f if line.startswith("SigCgt")]
    assert not caught & 1 << (signal.SIGURG - 1)
