"""What an interrupt does in this process; methods that end by one, on every Python: tests/integration/test_agent_pythons.py."""

from __future__ import annotations

import threading

import pytest

from jupyter_traindbg.agent import throwing
from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.refused import Refused


def test_a_process_that_is_no_worker_is_left_alone(agent: Agent) -> None:
    assert agent.call("interrupt", {})["worker"] is False
    with pytest.raises(Refused, match="no worker of Ray's"):
        agent.call("interrupt", {"do": "interrupt"})
    with pytest.raises(Refused, match="there are look, interrupt"):
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
