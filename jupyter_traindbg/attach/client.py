"""The notebook's end of the line to an agent: JSON-RPC 2.0 over its Unix socket, every wait with a deadline."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
import time
from typing import Any

from ..agent import rendezvous
from ..errors import ActionRefused, AgentRefused, CannotAttach, DeadlineExceeded, ProbeFailed, StepOver, TargetGone
from ..language import later, text
from ..outside import procfs
from ..spoken import heard
from ..tasks import Task
from ..verbose import milliseconds

log = logging.getLogger(__name__)

HELLO_S, HANG_UP_S = 2.0, 2.0
NO_METHOD, PROBE_FAILED, NOT_AUTHORISED, REFUSED = -32601, -32000, -32001, -32002


class AgentClient:
    """One connection. Calls from several threads take turns; each has its own deadline."""

    def __init__(self, directory: str, pid: int, *, token: str | None = None, deadline_s: float = HELLO_S) -> None:
        """Connect to the agent in `directory` and say hello.

        Raises `TargetGone` where nobody listens, `AgentRefused` for a wrong token or another protocol, `DeadlineExceeded` where the
        process accepts but does not answer (its GIL is held).
        """
        self.directory, self.pid = directory, pid
        self._lock = threading.Lock()
        self._closed = False
        self._id = 0
        self._socket: socket.socket | None = None
        self._buffer = b""
        card = rendezvous.card(directory)
        if card is None:
            raise TargetGone(text("process {pid} has no agent", pid=pid))
        if card["protocol"] != rendezvous.PROTOCOL:
            raise AgentRefused(
                text(
                    "the agent in process {pid} speaks protocol {protocol} (version {version}), we speak {ours}",
                    pid=pid,
                    protocol=card["protocol"],
                    version=card["version"],
                    ours=rendezvous.PROTOCOL,
                ),
                text("use the jupyter-traindbg version that started it, or detach it with that version first"),
            )
        self._token = card["token"] if token is None else token
        self._connect(deadline_s)

    def _connect(self, deadline_s: float) -> None:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.settimeout(deadline_s)
        try:
            line.connect(os.path.join(self.directory, rendezvous.SOCKET))
        except (BlockingIOError, TimeoutError) as e:
            line.close()
            # Its queue is full of earlier clients: it is there, and does nothing.
            raise DeadlineExceeded(text("process {pid} has not taken up its earlier clients yet", pid=self.pid)) from e
        except OSError as e:
            line.close()
            raise TargetGone(
                text("the agent of process {pid} does not listen ({why})", pid=self.pid, why=e.strerror or e)
            ) from e
        self._socket, self._buffer = line, b""
        try:
            if self._closed:  # while we connected
                raise TargetGone.line_closed(self.pid)
            self._exchange("hello", {"token": self._token}, deadline_s)
        except BaseException:
            self._drop()
            raise

    def call(self, method: str, params: dict[str, Any] | None = None, deadline_s: float = 10.0) -> Any:
        """The result of probe `method`. Raises `DeadlineExceeded`, `TargetGone`, `ProbeFailed`, `ActionRefused` or `AgentRefused`."""
        ends = time.monotonic() + deadline_s
        if not self._lock.acquire(timeout=deadline_s):
            raise DeadlineExceeded(
                text(
                    "process {pid} is still busy with an earlier request after {deadline_s:g} s",
                    pid=self.pid,
                    deadline_s=deadline_s,
                )
            )
        try:
            if self._closed:
                raise TargetGone.line_closed(self.pid)
            if self._socket is None:
                self._connect(min(HELLO_S, deadline_s))
            return self._exchange(method, params or {}, max(0.05, ends - time.monotonic()))
        finally:
            self._lock.release()
            if self._closed:
                self._drop_if_free()

    def close(self) -> None:
        """Hang up for good, without a word to the agent. A call that is under way in another thread ends at once, with `TargetGone`."""
        self._closed = True
        line = self._socket
        if line is not None:
            with contextlib.suppress(OSError):  # the agent may have hung up first
                line.shutdown(socket.SHUT_RDWR)
        self._drop_if_free()

    @property
    def busy(self) -> bool:
        """Whether a call is under way, in another thread."""
        return self._lock.locked()

    def _drop_if_free(self) -> None:
        """Close the socket where no call uses it: closed under one, its number could be another file's by the time that it is read."""
        if self._lock.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self._lock.release()

    def _drop(self) -> None:
        """Close the line; the next call makes another one."""
        line, self._socket = self._socket, None
        if line is not None:
            line.close()

    def await_hang_up(self, deadline_s: float = HANG_UP_S) -> None:
        """Wait until the agent has closed the line, as it does when it leaves its process."""
        line = self._socket
        if line is not None:
            with contextlib.suppress(OSError):
                line.settimeout(deadline_s)
                while line.recv(4096):
                    pass

    def _exchange(self, method: str, params: dict[str, Any], deadline_s: float) -> Any:
        line = self._socket
        assert line is not None
        self._id += 1
        request = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        began = time.monotonic()
        try:
            line.settimeout(deadline_s)
            line.sendall(json.dumps(request).encode() + b"\n")
            answer = self._line(line, began + deadline_s)
            log.debug("process %d: %s: %d bytes in %s", self.pid, method, len(answer), milliseconds(began))
            reply = heard(answer)
        except TimeoutError as e:
            log.debug("process %d: %s: no answer in %.1f s", self.pid, method, deadline_s)
            self._drop()  # a late answer must not be taken for the next one's
            raise DeadlineExceeded(
                text(
                    "process {pid} did not answer {method!r} in {deadline_s:.1f} s",
                    pid=self.pid,
                    method=method,
                    deadline_s=deadline_s,
                )
            ) from e
        except (OSError, EOFError) as e:
            self._drop()
            raise (TargetGone.line_closed(self.pid) if self._closed else TargetGone(self._why_gone(method))) from e
        except BaseException:
            self._drop()
            raise
        if "error" in reply:
            self._refused(reply["error"])
        return reply["result"]

    def _line(self, line: socket.socket, ends: float) -> bytes:
        while b"\n" not in self._buffer:
            line.settimeout(max(0.001, ends - time.monotonic()))
            chunk = line.recv(1 << 20)
            if not chunk:
                raise EOFError
            self._buffer += chunk
        answer, self._buffer = self._buffer.split(b"\n", 1)
        return answer

    def _why_gone(self, method: str) -> str:
        process = procfs.stat(self.pid)
        gone = process is None or process.state in "ZX"  # one that its parent has not buried yet has ended all the same
        said = (
            later("process {pid} ended during {method!r}")
            if gone
            else later("the agent of process {pid} left during {method!r}")
        )
        return text(said, pid=self.pid, method=method)

    def _refused(self, error: dict[str, Any]) -> None:
        code, message = error.get("code"), str(error.get("message"))
        if code in (PROBE_FAILED, NO_METHOD):
            raise ProbeFailed(text("process {pid}: {what}", pid=self.pid, what=message))
        if code == REFUSED:
            told = error["data"]
            kind = StepOver if told.get("too_late") else ActionRefused
            raise kind(str(told["cause"]), str(told["next_step"]) or None)
        self._drop()
        raise AgentRefused(
            text("the agent of process {pid} refused: {why}", pid=self.pid, why=message),
            text("its token is in agent.json of its directory, readable for the same user only")
            if code == NOT_AUTHORISED
            else None,
        )


def connect(pid: int, deadline_s: float = HELLO_S) -> AgentClient | None:
    """A client of the agent that runs in `pid` already, or None where there is none. Raises what `meeting_place` raises."""
    directory = meeting_place(pid, deadline_s)
    return None if directory is None else AgentClient(directory, pid, deadline_s=deadline_s)


def meeting_place(pid: int, deadline_s: float) -> str | None:
    """The directory of the agent that runs in `pid`; None where there is none, or it is not ours to see. 0.2 ms.

    Raises `TargetGone`, and `CannotAttach` where the file system of that process does not answer in time. The look hangs then, in a thread
    of its own, and whoever asks again waits for that one.
    """
    looking = _late.get(pid)
    if looking is None or looking.wait(0.0):  # what a late one has found by now may be over
        looking = Task(lambda: _meeting_place(pid), f"meet-{pid}")
    if not looking.wait(time.monotonic() + deadline_s):
        kept = _late.setdefault(pid, looking)
        if kept.wait(0.0):
            _late[pid] = looking
        raise CannotAttach(
            text(
                "the file system of process {pid} does not answer: its /tmp, where an agent would be met, cannot be "
                "read",
                pid=pid,
            ),
            text("`%stacks` shows from outside what it does; see what is mounted there (`findmnt`, dmesg)"),
        )
    return looking.result(0.0)


_late: dict[int, Task[str | None]] = {}
"""By pid: looks for an agent that have not come back."""


def _meeting_place(pid: int) -> str | None:
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
        directory = rendezvous.directory(pid, uid, root=f"/proc/{pid}/root")
        return directory if os.path.exists(os.path.join(directory, rendezvous.CARD)) else None
    except FileNotFoundError as e:
        raise TargetGone(text("there is no process {pid}", pid=pid)) from e
    except PermissionError:
        return None
