"""This process's end of the line to somewhere else: a child process that carries requests and answers, for several threads at once."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import subprocess
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import IO, Any, NamedTuple, NoReturn

from ..errors import ProbeFailed, TargetGone, TraindbgError
from ..language import text
from . import wire

__all__ = ["LEAVE_S", "Begun", "Line", "between_pipes"]

GRACE_S = 0.5
"""What an answer may take beside the deadline that the function keeps itself."""
STUCK_S = 20.0
"""Whoever owes an answer for so long is not waited for any more: a line may be bad enough for that to take for ever."""
LEAVE_S = 2.0
AGAIN_S = 1.0
"""Whoever has let somebody wait in vain for a whole deadline, and has not been heard of since, is given so long by the next who asks."""
BACK_S = 3.0
"""So long a connection that broke is given to come back: a host that has just been there is near, or gone."""
LAST_WORDS = 2000
ANYBODY = "jupyter_traindbg.hosts.wire:language"
"""What is asked where it matters only that anybody answers."""


class Begun(NamedTuple):
    """A child that was just started: where requests are written, and answers come from. Both descriptors are the line's to close."""

    process: subprocess.Popen[bytes]
    requests: int
    answers: int


def between_pipes(start: Callable[[int, int], subprocess.Popen[bytes]]) -> Begun:
    """The child that `start` makes of the two ends that are its own: where it reads requests, and where it writes answers."""
    theirs_in, requests = os.pipe()
    answers, theirs_out = os.pipe()
    try:
        return Begun(start(theirs_in, theirs_out), requests, answers)
    except BaseException:
        os.close(requests)
        os.close(answers)
        raise
    finally:
        os.close(theirs_in)
        os.close(theirs_out)


class Line(ABC):
    """One child process, started by the first call, and again where it has ended or is stuck. Each call has its own deadline."""

    by = "the other side"
    """Who answers, as errors say it."""
    retry_s = 0.0
    """How long after a child that never became ready its reason stands, before another one is started."""
    leaves_s = 0.0
    """How long a child that is to end may take to do so by itself, once nobody writes to it any more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self.starts = 0
        """How often a child was started: what was kept in an earlier one is lost."""

    def call(self, name: str, /, *args: Any, deadline_s: float, **kwargs: Any) -> Any:
        """What the function ``"module:function"`` returns or raises, run on the other side, at most `deadline_s` seconds later.

        The function keeps to a deadline itself, where it can. One that is late goes on, so that a slow start serves the next call; only a
        child that is 20 s late is taken for stuck, and replaced by that call. Raises `DeadlineExceeded`, `TargetGone` where the child
        ended meanwhile, `ProbeFailed` for errors that are nobody's intention, and whichever `TraindbgError` the function raised.
        """
        with self._lock:
            if self._child is not None and self._child.stuck():
                self._child.kill()
            if self._child is None or not (self._child.alive or self._child.has_just_failed(self.retry_s)):
                broken = self._child is not None and self._child.was_ready
                self._child = _Child(self, BACK_S if broken else math.inf)
                self.starts += 1
            child = self._child
        return child.ask(name, args, kwargs, deadline_s)

    @property
    def alive(self) -> bool:
        """Whether the child runs."""
        return self._child is not None and self._child.alive

    def end(self, leave: str = "") -> None:
        """End the child, after it has run `leave` where that is a function. The next call starts another one."""
        with self._lock:
            child, self._child = self._child, None
        if child is not None and child.alive:
            if leave:
                with contextlib.suppress(TraindbgError):
                    child.ask(leave, (), {}, LEAVE_S)
            child.kill()

    def ping(self) -> None:
        """Have the other side know that somebody is still here, where there is one."""
        child = self._child
        if child is not None:
            child.ping()

    # --- what differs from line to line -----------------------------------------------------------------------------

    @abstractmethod
    def start(self, said: IO[bytes]) -> Begun:
        """Start a child, whose words on its standard error go to `said`."""

    def greet(self, begun: Begun) -> None:  # noqa: B027 - a child that is ready at once needs no more
        """Have it ready for requests. Raises OSError or EOFError where it ends meanwhile, another error for one that says nonsense."""

    @abstractmethod
    def late(self, timeout: float, last_words: str) -> TraindbgError:
        """Why there is no answer after `timeout` seconds, during which the child wrote `last_words`; nothing, mostly."""

    @abstractmethod
    def broke(self, last_words: str, status: int | None, *, ready: bool) -> TraindbgError:
        """Why the child has ended, by the last lines that it wrote and its exit status; `ready`: after it had been ready."""


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

    def __init__(self, line: Line, patience_s: float) -> None:
        """`patience_s`: how long it may take to be ready."""
        self.alive = True
        self.was_ready = False
        self._line = line
        self._numbers = itertools.count(1)
        self._open: dict[int, _Question] = {}
        self._lock = threading.RLock()
        self._settled = threading.Event()
        """It is ready for requests, or has ended."""
        self._patience_s = patience_s
        self._silent_since: float | None = None
        """When somebody waited in vain for an answer and nothing has been heard since."""
        self._ended_at = 0.0
        self._begun: Begun | None = None
        self._said: IO[bytes] | None = None
        self._ended: Callable[[], NoReturn] = _has_ended
        threading.Thread(target=self._live, name="traindbg-line", daemon=True).start()

    def ask(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], timeout: float) -> Any:
        question, request = _Question(timeout), wire.request(name, args, kwargs)
        self._wait_until_ready(timeout)
        if self._silent_since is not None and name != ANYBODY:
            self.ask(ANYBODY, (), {}, min(timeout, AGAIN_S))
        with self._lock:
            if not self.alive or self._begun is None:
                return self._ended()
            number = next(self._numbers)
            self._open[number] = question
            self._send(wire.dumps((number, request)), max(question.due, time.monotonic()) + GRACE_S)
        if not question.answered.wait(timeout + GRACE_S):
            self._silent_since = self._silent_since or time.monotonic()
            raise self._late(timeout)
        assert question.value is not None
        return question.value()

    def _wait_until_ready(self, timeout: float) -> None:
        """Raises where it is not, within `timeout` seconds or its patience; whoever asks next waits for a moment only."""
        wait_s = min(timeout, self._patience_s)
        if not self._settled.wait(wait_s):
            self._patience_s = AGAIN_S
            raise self._late(wait_s)

    def _late(self, timeout: float) -> TraindbgError:
        return self._line.late(timeout, "" if self._said is None else _last_words(self._said))

    def _send(self, data: bytes, ends: float) -> None:
        """For whoever holds the lock."""
        assert self._begun is not None
        try:
            wire.send(self._begun.requests, data, ends)
        except TimeoutError:  # half a request is in the pipe
            self.kill()
        except OSError:
            pass  # it has just ended: whoever reads its answers settles the question

    def ping(self) -> None:
        if self.was_ready and self._lock.acquire(
            timeout=GRACE_S
        ):  # else a request is being written, which says as much
            try:
                if self.alive and self._begun is not None:
                    self._send(b"", time.monotonic() + GRACE_S)
            finally:
                self._lock.release()

    def has_just_failed(self, within_s: float) -> bool:
        """Whether it has ended without ever having been ready, less than so long ago."""
        return self._settled.is_set() and not self.was_ready and time.monotonic() - self._ended_at < within_s

    def stuck(self) -> bool:
        """Whether it owes an answer for so long that no more is to be expected of it."""
        now = time.monotonic()
        return any(now > question.due + STUCK_S for question in list(self._open.values()))

    def kill(self) -> None:
        """End it: on the spot, or where the line wants it so, some time after nobody writes to it any more."""
        self.alive = False
        if not self._line.leaves_s or not self._lock.acquire(
            timeout=GRACE_S
        ):  # else somebody is writing, and may be stuck
            if (begun := self._begun) is not None:
                _kill(begun.process)
            return
        try:
            if self._begun is not None:
                _hang_up(self._begun.requests)
                later = threading.Timer(self._line.leaves_s, _kill, (self._begun.process,))
                later.daemon = True
                later.start()
        finally:
            self._lock.release()

    def _live(self) -> None:
        """On its own thread, for as long as the process is there."""
        with tempfile.TemporaryFile() as said:
            self._said = said
            try:
                self._begun = begun = self._line.start(said)
            except OSError as e:
                self._end(partial(_raise, partial(self._line.broke, str(e), None, ready=False)))
                return
            try:
                self._line.greet(begun)
                self.was_ready = True
                self._settled.set()
                while True:
                    self._settle(wire.receive(begun.answers))
            except (EOFError, OSError):
                status = self._bury()
                self._end(partial(_raise, partial(self._line.broke, _last_words(said), status, ready=self.was_ready)))
            except BaseException as e:  # noqa: BLE001
                self._bury()
                self._end(partial(_unreadable, self._line.by, e))

    def _settle(self, answer: bytes) -> None:
        self._silent_since = None
        number, reply = wire.loads(answer)
        self._open.pop(number).settle(partial(wire.answered, reply, self._line.by))

    def _bury(self) -> int | None:
        """Have it over with the process; its exit status, where it ended by itself."""
        if self._begun is None:
            return None
        by_itself = self.alive
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._begun.process.wait(max(self._line.leaves_s, GRACE_S if by_itself else 0.0))
        self.alive = False
        _kill(self._begun.process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._begun.process.wait(LEAVE_S)
        return self._begun.process.returncode if by_itself else None

    def _end(self, ended: Callable[[], NoReturn]) -> None:
        """Leave nobody waiting for it."""
        self.alive = False
        self._ended_at = time.monotonic()
        with self._lock:
            self._ended = ended
            begun, self._begun = self._begun, None
            if begun is not None:
                os.close(begun.requests)
                os.close(begun.answers)
            waiting = list(self._open.values())
        self._settled.set()
        for question in waiting:
            question.settle(ended)


def _hang_up(fd: int) -> None:
    """Close the end of a pipe, and keep its number: whoever writes to it from now on writes to nobody."""
    nobody = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(nobody, fd, inheritable=False)
    os.close(nobody)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        process.kill()


def _last_words(said: IO[bytes]) -> str:
    """The last lines that the child has written, which are the reason mostly; nothing where it is gone. It writes on undisturbed."""
    try:
        fd = said.fileno()
        told = os.pread(fd, LAST_WORDS, max(0, os.fstat(fd).st_size - LAST_WORDS))
    except ValueError:
        return ""
    lines = [line.strip() for line in told.decode(errors="replace").splitlines() if line.strip()]
    return "\n".join(lines)


def _raise(why: Callable[[], TraindbgError]) -> NoReturn:
    raise why()


def _has_ended() -> NoReturn:
    raise TargetGone(text("the line was closed"), text("try again"))


def _unreadable(by: str, error: BaseException) -> NoReturn:
    raise ProbeFailed(
        text("what {by} answered could not be read: {kind}: {why}", by=by, kind=type(error).__name__, why=error)
    )
