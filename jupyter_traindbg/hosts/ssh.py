"""Hosts that the person reaches by ``ssh``: their own program, with their configuration, keys, agent and jump hosts, and never a question.

On each host a shell looks for a Python, which reads our helper from its standard input (`jupyter_traindbg.hosts.helper`). Nothing has to
be installed there, nothing listens, and nothing stays: the helper ends with the connection, and its directory with the helper.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from ..errors import CannotAttach, DeadlineExceeded, MissingPiece, NotPermitted, TargetGone, TraindbgError
from ..language import text
from . import helper, shipping, wire
from .base import LINGER_S, Hosts
from .lines import Begun, Line, between_pipes

__all__ = ["SshHosts", "SshLine", "named_in", "open_hosts"]

COMMAND, PYTHON = "TRAINDBG_SSH", "TRAINDBG_SSH_PYTHON"
"""Variables: the program in place of ``ssh``, with its options; and the Python to take on the hosts, in place of the first that will do."""
OPTIONS: Mapping[str, str] = {
    "BatchMode": "yes",  # a question would wait for ever
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "ServerAliveCountMax": "3",
    "ServerAliveInterval": "5",
}
"""What the person's configuration may say otherwise, and must not here."""
CONNECT_S = 10
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


class SshLine(Line):
    """The connection to one host: an ``ssh`` of ours, and the helper at its other end."""

    retry_s = RETRY_S

    def __init__(self, host: str) -> None:
        super().__init__()
        self.host = self.by = host

    def start(self, said: IO[bytes]) -> Begun:
        """See `Line.start`."""
        return between_pipes(
            lambda theirs_in, theirs_out: subprocess.Popen(
                command(self.host, os.environ),
                stdin=theirs_in,
                stdout=theirs_out,
                stderr=said,
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

    def late(self, timeout: float) -> TraindbgError:
        """See `Line.late`."""
        return DeadlineExceeded(
            text("{host} did not answer in {timeout:.1f} s", host=self.host, timeout=timeout),
            text(
                "try again: connecting to it goes on meanwhile; `ssh {host}` by hand shows how long it takes",
                host=self.host,
            ),
        )

    def broke(self, last_words: str, status: int | None, *, ready: bool) -> TraindbgError:
        """See `Line.broke`; what ssh says is the reason mostly."""
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
                text("set {variable} to the path of one there", variable=PYTHON),
            )
        return not_reached(self.host, last_words)


def command(host: str, variables: Mapping[str, str]) -> list[str]:
    """The words of a program that connects to `host` and runs our helper there; `variables` may name another program, and a Python."""
    options = [word for name, value in OPTIONS.items() for word in ("-o", f"{name}={value}")]
    pythons = " ".join(map(shlex.quote, [variables[PYTHON]] if variables.get(PYTHON) else PYTHONS))
    script = FIND.format(pythons=pythons, meet=MEET, none=NO_PYTHON)
    program = shlex.split(variables.get(COMMAND) or "ssh")
    return [*program, *options, "-o", f"ConnectTimeout={CONNECT_S}", "--", host, f"exec sh -c {shlex.quote(script)}"]


def named_in(config: Path) -> list[str]:
    """The hosts that a configuration of ssh has a part for, patterns left out; none where there is no such file."""
    try:
        lines = config.read_text(errors="replace").splitlines()
    except OSError:
        return []
    told = (line.replace("=", " ", 1).split() for line in lines)
    names = [name for words in told if words and words[0].lower() == "host" for name in words[1:]]
    return [name for name in dict.fromkeys(names) if not set("*?!") & set(name)]


def not_reached(host: str, said: str) -> TraindbgError:
    """Why there is no connection, by the words of ssh."""
    last = said.rpartition("\n")[2][:200]
    by_hand = text("`ssh {host}` must get in without a question first", host=host)
    why = text("{host} cannot be reached: {why}", host=host, why=last or text("ssh said nothing"))
    if re.search(r"Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED", said):
        return NotPermitted(
            text("{host} cannot be reached: its key is not known here, or has changed", host=host),
            text("run `ssh {host}` once by hand, and look at the key that it shows", host=host),
        )
    if re.search(r"Permission denied|Too many authentication failures", said):
        return NotPermitted(why, text("{by_hand}: by a key that needs no passphrase, or by ssh-agent", by_hand=by_hand))
    if re.search(r"Could not resolve hostname|Name or service not known", said):
        return CannotAttach(why, text("name it as `ssh` does: a name of ~/.ssh/config, HOST, or USER@HOST"))
    return CannotAttach(why, by_hand)


class SshHosts(Hosts):
    """Hosts by the names that ssh knows them by. A connection is made by the first call, shared by all who ask that host, and kept for
    two minutes after the last of them has closed."""

    def __init__(self, names: Sequence[str]) -> None:
        self._kept = [_keep(name) for name in dict.fromkeys(names)]

    def is_here(self, name: str) -> bool:
        """See `Hosts.is_here`."""
        return False

    def answering(self, name: str) -> bool:
        """See `Hosts.answering`."""
        return _of(name).line.alive

    def run(self, name: str, function: str, /, *args: Any, deadline_s: float, **kwargs: Any) -> Any:
        """See `Hosts.run`. Connecting takes what ``ssh`` takes and half a second, once; then a call takes a round trip and its own time.

        Raises also `NotPermitted` and `CannotAttach`, with the words of ssh, and `MissingPiece` for a host without a Python.
        """
        return _of(name).line.call(function, *args, deadline_s=deadline_s, **kwargs)

    def close(self) -> None:
        """See `Hosts.close`."""
        kept, self._kept = self._kept, []
        for one in kept:
            one.give_back()


def open_hosts(names: Sequence[str]) -> SshHosts:
    """The hosts that ssh reaches by these names, as places to run functions. Starts nothing yet."""
    return SshHosts(names)


class _Kept:
    """The line to one host, and how many have it open."""

    def __init__(self, name: str) -> None:
        self.line = SshLine(name)
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
_making = threading.Lock()


def _of(name: str) -> _Kept:
    with _making:
        return _lines.setdefault(name, _Kept(name))


def _keep(name: str) -> _Kept:
    with _making:
        return _lines.setdefault(name, _Kept(name)).take()


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
