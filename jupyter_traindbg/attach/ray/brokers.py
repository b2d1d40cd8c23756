"""This process's end of the line to its brokers: one per cluster and token, started when first asked, ended with us."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any, NoReturn

from ...errors import DeadlineExceeded, ProbeFailed, TargetGone, TraindbgError
from ...language import text
from . import wire

__all__ = ["Broker", "broker"]

MODULE = "jupyter_traindbg.attach.ray.broker"
START_S = 5.0
GRACE_S = 0.5
"""What an answer may take beside the deadline that the function keeps itself."""
STUCK_S = 20.0
"""A broker that owes an answer for so long is not waited for any more: joining a cluster over a bad line can take for ever."""
LEAVE_S = 2.0
_ABOUT_OURSELVES = (
    "RAY_ADDRESS",
    "RAY_AUTH_MODE",
    "RAY_AUTH_TOKEN",
    "RAY_AUTH_TOKEN_PATH",
    "RAY_CLIENT_MODE",
    "RAY_JOB_CONFIG_JSON_ENV_VAR",
    "RAY_JOB_ID",
    "RAY_NAMESPACE",
    "RAY_NODE_ID",
    "RAY_RAYLET_PID",
    "RAY_RUNTIME_ENV",
    "RAY_RUNTIME_ENV_HOOK",
    "TRAINDBG",
)
"""Variables of a kernel that is itself part of a Ray job, or prepared: the broker is neither."""


class Broker:
    """One child process. Calls from several threads go on side by side; each has its own deadline."""

    def __init__(self, address: str, token: str | None = None) -> None:
        self._address, self._token = address, token
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self.starts = 0
        """How often a child was started: what was kept in an earlier one is lost."""

    def call(self, name: str, *args: Any, timeout: float, **kwargs: Any) -> Any:
        """What the function ``"module:function"`` returns or raises, run in the broker.

        The function keeps to a deadline itself, where it can. One that is late goes on, so that a slow start serves the next call; only a
        broker that is 20 s late is taken for stuck, and replaced by that call. Raises `DeadlineExceeded`, `TargetGone` where the broker
        ended meanwhile, `ProbeFailed` for errors that are nobody's intention, and whichever `TraindbgError` the function raised.
        """
        with self._lock:
            if self._child is not None and self._child.stuck():
                self._child.kill()
            if self._child is None or not self._child.alive:
                self._child = _Child(environment(os.environ, self._address, self._token))
                self.starts += 1
            child = self._child
        return child.ask(name, args, kwargs, timeout)

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.alive

    def end(self, leave: str) -> None:
        """Have the child run `leave` and end it, and with it everything it has on the cluster. The next call starts another one."""
        with self._lock:
            child, self._child = self._child, None
        if child is not None and child.alive:
            with contextlib.suppress(TraindbgError):
                child.ask(leave, (), {}, LEAVE_S)
            child.kill()


class _Question:
    """One request on its way."""

    def __init__(self, timeout: float) -> None:
        self.due = time.monotonic() + timeout
        self.answered = threading.Event()
        self.value: Callable[[], Any] | None = None
        """What came of it, or raises why nothing did: to be called by whoever asked, whose language errors are in."""

    def settle(self, value: Callable[[], Any]) -> None:
        if not self.answered.is_set():
            self.value = value
            self.answered.set()


class _Child:
    """The process, and the thread that reads what it says.

    That thread starts it as well, and lives as long: the kernel ends a child that wants it so when the *thread* that started it ends.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.alive = True
        self._numbers = itertools.count(1)
        self._open: dict[int, _Question] = {}
        self._lock = threading.Lock()
        self._started = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._requests = self._answers = -1
        self._ended = _has_ended
        threading.Thread(target=self._live, args=(variables,), name="traindbg-broker", daemon=True).start()
        self._started.wait(START_S)

    def ask(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], timeout: float) -> Any:
        question, request = _Question(timeout), wire.request(name, args, kwargs)
        with self._lock:
            if not self.alive:
                return self._ended()
            number = next(self._numbers)
            self._open[number] = question
            try:
                wire.send(self._requests, wire.dumps((number, request)), question.due + GRACE_S)
            except TimeoutError:  # half a request is in the pipe
                self.kill()
            except OSError:
                pass  # it has just ended: whoever reads its answers settles the question
        if not question.answered.wait(timeout + GRACE_S):
            raise DeadlineExceeded(
                text("the Ray cluster did not answer in {timeout:.1f} s", timeout=timeout),
                text("try again: joining it goes on meanwhile"),
            )
        assert question.value is not None
        return question.value()

    def stuck(self) -> bool:
        """Whether it owes an answer for so long that no more is to be expected of it."""
        now = time.monotonic()
        return any(now > question.due + STUCK_S for question in list(self._open.values()))

    def kill(self) -> None:
        self.alive = False
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._process.kill()

    def _live(self, variables: Mapping[str, str]) -> None:
        """On its own thread, for as long as the process is there."""
        with tempfile.TemporaryFile() as said:
            try:
                self._start(variables, said)
                while True:
                    self._settle(wire.receive(self._answers))
            except (EOFError, OSError):
                self._end(partial(_broke, _last_words(said)))
            except BaseException as e:  # noqa: BLE001
                self._end(partial(_unreadable, e))

    def _settle(self, answer: bytes) -> None:
        number, reply = wire.loads(answer)
        self._open.pop(number).settle(partial(wire.answered, reply, "the broker"))

    def _start(self, variables: Mapping[str, str], said: IO[bytes]) -> None:
        theirs_in, self._requests = os.pipe()
        self._answers, theirs_out = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", MODULE, str(theirs_in), str(theirs_out), str(os.getpid())],
                pass_fds=(theirs_in, theirs_out),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=dict(variables),
                cwd="/",
                start_new_session=True,  # an interrupt of the cell is not meant for it
            )
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self._started.set()

    def _end(self, ended: Callable[[], NoReturn]) -> None:
        """Bury the process and leave nobody waiting for it."""
        self.kill()
        self._started.set()
        with self._lock:
            self._ended = ended
            for fd in (self._requests, self._answers):
                if fd >= 0:
                    os.close(fd)
            self._requests = self._answers = -1
            waiting = list(self._open.values())
        for question in waiting:
            question.settle(ended)
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(LEAVE_S)


def environment(ours: Mapping[str, str], address: str, token: str | None) -> dict[str, str]:
    """The variables of a broker: ours, without what they say of us, and with how to behave on the cluster."""
    theirs = {name: value for name, value in ours.items() if name not in _ABOUT_OURSELVES}
    package = str(Path(__file__).parents[3])
    theirs["PYTHONPATH"] = os.pathsep.join(filter(None, [package, ours.get("PYTHONPATH")]))
    theirs["RAY_CLIENT_RECONNECT_GRACE_PERIOD"] = "0"  # over ray://, too, helpers go at once when we are gone
    theirs["RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL"] = "minor"
    if address.partition(":")[0] in ("127.0.0.1", "localhost"):
        theirs["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = (
            "0"  # else Ray takes this machine's outer address instead, where nobody listens
        )
    theirs["RAY_AUTH_MODE"] = "disabled" if token is None else "token"
    if token is not None:
        theirs["RAY_AUTH_TOKEN"] = token
    return theirs


def _last_words(said: IO[bytes]) -> str:
    """The last line that the broker wrote before it ended, which is Ray's reason mostly."""
    said.seek(0, os.SEEK_END)
    said.seek(max(0, said.tell() - 2000))
    lines = [line.strip() for line in said.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


def _has_ended() -> NoReturn:
    raise TargetGone(text("the broker has ended"), text("try again"))


def _broke(last_words: str) -> NoReturn:
    raise TargetGone(
        text("the connection to the Ray cluster broke ({last_words})", last_words=last_words)
        if last_words
        else text("the connection to the Ray cluster broke"),
        text("try again; is the cluster up?"),
    )


def _unreadable(error: BaseException) -> NoReturn:
    raise ProbeFailed(
        text("what the Ray cluster answered could not be read: {kind}: {why}", kind=type(error).__name__, why=error)
    )


_brokers: dict[tuple[str, str | None], Broker] = {}
_making = threading.Lock()


def broker(address: str, token: str | None = None) -> Broker:
    """This process's broker for the cluster at `address` (any text that names it), the same one for everybody who asks here."""
    with _making:
        known = _brokers.get((address, token))
        if known is None:
            known = _brokers[(address, token)] = Broker(address, token)
        return known


os.register_at_fork(after_in_child=_brokers.clear)  # the child has none of the threads that read the answers
