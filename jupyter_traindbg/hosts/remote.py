"""Hosts on which a program of the person's starts a shell for us, ``ssh`` or ``srun``: the helper at its other end, and who shares it.

The shell looks for a Python, which reads our helper from its standard input (`jupyter_traindbg.hosts.helper`). Nothing has to be installed
there, nothing listens, and nothing stays: the helper ends with the connection, and its directory with the helper.
"""

from __future__ import annotations

import inspect
import os
import shlex
import subprocess
import threading
import time
import zlib
from abc import abstractmethod
from collections.abc import Mapping
from typing import IO, Any

from ..errors import DeadlineExceeded, MissingPiece, TargetGone, TraindbgError
from ..language import text
from . import helper, shipping, wire
from .base import LINGER_S, Hosts
from .lines import Begun, Line, between_pipes

__all__ = ["RemoteHosts", "RemoteLine", "hang_up", "shell_words"]

MEET = "import os;exec(bytes().join(iter(lambda:os.read(0,1)or bytes(1),bytes(1))))"
"""Runs what comes through the standard input up to a byte of zero, and reads no further. Has no quotes: it stands within two others."""
FIND = (
    'for p in {pythons} $(ls -l /proc/[0-9]*/exe 2>/dev/null | sed -n "s/.* -> //p" | grep /python | sort -u); '
    'do "$p" -c "import sys;sys.exit(sys.version_info<(3,10))" </dev/null >/dev/null 2>&1 && exec "$p" -u -c "{meet}"; '
    "done; exit {none}"
)
"""For any POSIX shell: the first Python that is new enough becomes our helper; that of a training that runs there is one, too."""
NO_PYTHON = 97
PYTHONS = ("python3", *(f"python3.{minor}" for minor in range(14, 9, -1)))
MOST_NOISE = 1 << 20
"""Bytes that a shell's start-up files may print."""
PING_S = 60.0
RETRY_S = 5.0
"""So long after a connection has failed no other one is tried: who asks ten times a second must not look like an attack."""


def shell_words(python: str | None) -> list[str]:
    """The words that have a shell find a Python and run our helper in it: `python`, where it is given."""
    pythons = " ".join(map(shlex.quote, [python] if python else PYTHONS))
    return ["/bin/sh", "-c", FIND.format(pythons=pythons, meet=MEET, none=NO_PYTHON)]


class RemoteLine(Line):
    """The connection to one host: a program of ours here, and the helper at its other end."""

    retry_s = RETRY_S
    python_variable = ""
    """Names the Python to take there, in place of the first that will do."""

    def __init__(self, host: str) -> None:
        super().__init__()
        self.host = self.by = host

    @abstractmethod
    def command(self, variables: Mapping[str, str]) -> list[str]:
        """The words of a program that connects, and runs `shell_words` there; `variables` are those of this process."""

    def environment(self) -> dict[str, str]:
        """What that program is to see of this process's variables."""
        return dict(os.environ)

    @abstractmethod
    def not_reached(self, said: str) -> TraindbgError:
        """Why there is no connection, by the words of the program."""

    @property
    @abstractmethod
    def by_hand(self) -> str:
        """The command by which a person connects to that host."""

    def start(self, said: IO[bytes]) -> Begun:
        """See `Line.start`."""
        return between_pipes(
            lambda theirs_in, theirs_out: subprocess.Popen(
                self.command(os.environ),
                stdin=theirs_in,
                stdout=theirs_out,
                stderr=said,
                env=self.environment(),
                start_new_session=True,  # an interrupt of the cell is not meant for it, and there is no terminal to ask at
            )
        )

    def greet(self, begun: Begun) -> None:
        """See `Line.greet`: the helper, the package, and a py-spy where the host has none."""
        started = f"{inspect.getsource(helper)}\nmain({shipping.PACKAGE!r})\n"
        _write(begun.requests, started.encode() + bytes(1))
        wire.send(begun.requests, shipping.archive())
        _skip_until(helper.READY, begun.answers)
        about: dict[str, Any] = wire.loads(wire.receive(begun.answers))
        tool = None if about["py_spy"] else shipping.py_spy(about["machine"])
        wire.send(begun.requests, zlib.compress(tool, 1) if tool else b"")
        threading.Thread(target=self._stay_in_touch, args=(begun,), name="traindbg-ping", daemon=True).start()

    def _stay_in_touch(self, begun: Begun) -> None:
        """As long as this connection is there: the next one has a thread of its own."""
        while begun.process.poll() is None:
            self.ping()
            time.sleep(PING_S)

    def late(self, timeout: float, last_words: str) -> TraindbgError:
        """See `Line.late`."""
        return DeadlineExceeded(
            text("{host} did not answer in {timeout:.1f} s", host=self.host, timeout=timeout),
            text(
                "try again: connecting to it goes on meanwhile; `{command}` by hand shows how long it takes",
                command=self.by_hand,
            ),
        )

    def broke(self, last_words: str, status: int | None, *, ready: bool) -> TraindbgError:
        """See `Line.broke`; what the program says is the reason mostly."""
        last = last_words.rpartition("\n")[2][:200]
        if ready:
            return TargetGone(
                text("the connection to {host} broke ({last_words})", host=self.host, last_words=last)
                if last
                else text("the connection to {host} broke", host=self.host),
                text("try again; is the host up?"),
            )
        if status == NO_PYTHON:
            return MissingPiece(
                text("{host} has no Python 3.10 or newer on PATH, and runs none", host=self.host),
                text("set {variable} to the path of one there", variable=self.python_variable),
            )
        return self.not_reached(last_words)


class RemoteHosts(Hosts):
    """Hosts by their names, each with a line to it. A connection is made by the first call, shared by all who ask that host in the same
    way, and kept for two minutes after the last of them has closed."""

    def __init__(self, lines: Mapping[str, RemoteLine]) -> None:
        """`lines`: by the name of the host; another that leads there in the same way, and is open already, is taken in its place."""
        self._open = {name: _keep(line) for name, line in lines.items()}
        self._closed = False

    def is_here(self, name: str) -> bool:
        """See `Hosts.is_here`."""
        return False

    def answering(self, name: str) -> bool:
        """See `Hosts.answering`."""
        return self._open[name].line.alive

    def run(self, name: str, function: str, /, *args: Any, deadline_s: float, **kwargs: Any) -> Any:
        """See `Hosts.run`. Connecting takes what the program takes and half a second, once; then a call takes a round trip and its own
        time.

        Raises also `NotPermitted` and `CannotAttach`, with the words of the program, and `MissingPiece` for a host without a Python.
        """
        return self._open[name].line.call(function, *args, deadline_s=deadline_s, **kwargs)

    def close(self) -> None:
        """See `Hosts.close`."""
        kept, self._closed = ([] if self._closed else list(self._open.values())), True
        for one in kept:
            one.give_back()


class _Kept:
    """The line to one host, and how many have it open."""

    def __init__(self, line: RemoteLine) -> None:
        self.line = line
        self.users = 0
        self._linger: threading.Timer | None = None

    def take(self) -> _Kept:
        self.users += 1
        if self._linger is not None:
            self._linger.cancel()
        return self

    def give_back(self) -> None:
        with _making:
            self.users -= 1
            if self.users == 0 and self.line.alive:
                self._linger = threading.Timer(LINGER_S, self._end_if_unused)
                self._linger.daemon = True
                self._linger.start()

    def _end_if_unused(self) -> None:
        if self.users == 0:
            self.line.end()


_lines: dict[str, _Kept] = {}
"""By the command that leads there."""
_making = threading.Lock()


def hang_up() -> None:
    """End all connections of this process now, which would be kept for a while."""
    with _making:
        kept = list(_lines.values())
        _lines.clear()
    for one in kept:
        one.line.end()


def _keep(line: RemoteLine) -> _Kept:
    with _making:
        return _lines.setdefault(line.by_hand, _Kept(line)).take()


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _skip_until(mark: bytes, fd: int) -> None:
    """Read up to the end of `mark`, a byte at a time at the end so as to read no further. Raises EOFError, OSError for endless noise."""
    seen = bytearray()
    while not seen.endswith(mark):
        byte = os.read(fd, 1)
        if not byte:
            raise EOFError
        seen += byte
        if len(seen) > MOST_NOISE:
            raise OSError("a shell's start-up files print without end")
