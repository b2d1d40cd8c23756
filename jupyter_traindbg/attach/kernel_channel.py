"""The way into another running Jupyter kernel, busy in a cell or not: run a short source in it, once.

Through the control channel, whose thread is free while a cell runs, on ipykernel 6 and 7 alike. (The subshells of 7 were tried
and are worse: what threads of the running cell print can get lost, since ipykernel routes it to the newest request before any
code of ours runs; and they were slower.) Only plain blocking ZeroMQ sockets are used, no event loop and no thread, so it works
from inside a notebook too. What is done so that the other kernel's running cell notices nothing is in `_kernel_inside`.
"""

from __future__ import annotations

import ast
import glob
import inspect
import json
import logging
import os
import re
import socket
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import (
    AmbiguousTarget,
    CannotAttach,
    DeadlineExceeded,
    GilHeld,
    NotPermitted,
    ProbeFailed,
    TargetGone,
    TraindbgError,
    UnknownTarget,
)
from ..language import text
from ..model import TargetName, names_to_type, parse_target
from ..notebook import VARIABLE
from ..outside import procfs
from ..verbose import milliseconds
from .notebooks import is_called

__all__ = ["find_connection_file", "kernel_pid", "run_in_kernel"]

log = logging.getLogger(__name__)

Json = dict[str, Any]

_HEARTBEAT_S = 2.0
"""A kernel's heartbeat is C code that needs no GIL: longer than this without one means dead or stopped, not busy."""
_CONTROL_WAIT_S = 0.25
"""The longest that one request of ours keeps the control channel (interrupt, shutdown) waiting."""


# --- which kernel ---------------------------------------------------------------------------------------------------


def find_connection_file(who: str) -> str:
    """The connection file that `who` names: its path; a kernel's id, whole or a prefix that one running kernel has; or the notebook of a
    running kernel, by its name or the end of its path.

    Looks in Jupyter's runtime directory and at the command lines of running kernels. Takes some milliseconds, for a notebook as long as
    `jupyter_traindbg.attach.discover.targets`, at most 2 s for a kernel that is there and gives no heartbeat. Raises `UnknownTarget` (it
    lists the kernels that run), `AmbiguousTarget`, `TargetGone` where the file is there but the kernel is not, `DeadlineExceeded` where its
    process is stopped, `NotPermitted` where the file may not be read.
    """
    path = Path(who).expanduser()
    if path.is_file() and _is_connection_file(path):
        return _answering(str(path.absolute()))
    known = _known_kernels()
    log.debug("%d connection files of kernels are known here", len(known))
    matches = [path for name, path in known.items() if name == who] or [
        path for name, path in known.items() if who and name.startswith(who)
    ]
    running = [path for path in matches if _listens(_read(path))]
    if len(running) > 1:
        candidates = {_name(_id(path)): "" for path in running}
        raise AmbiguousTarget(
            text("{count} kernels start with {who!r}", count=len(running), who=who),
            candidates=candidates,
            instead_of=_name(who),
        )
    if not matches:
        if path.suffix == ".json" and path.is_file():
            raise UnknownTarget(text("{path} is not a kernel's connection file", path=path))
        running = [_of_notebook(who, known)]
    return _answering((running or matches)[0])


def _name(who: str) -> str:
    return str(TargetName("kernel", who))


def _is_connection_file(path: Path) -> bool:
    try:
        return bool(_read(str(path)))
    except UnknownTarget:
        return False  # a notebook may lie here, too


def _of_notebook(who: str, known: Mapping[str, str]) -> str:
    """The connection file of the one running kernel of the notebook called `who`; `known` are those of all kernels, by their ids."""
    from .discover import targets

    seen = [t for t in targets() if t.kind == "kernel"]
    found = [t for t in seen if t.notebook is not None and is_called(t.notebook, who)]
    if len(found) == 1:
        named = parse_target(found[0].name)
        name = "" if named is None else named.id
        return known.get(name, name)
    if found:
        names = names_to_type(seen)
        raise AmbiguousTarget(
            text("{count} kernels are of notebooks called {who!r}", count=len(found), who=who),
            candidates={names[t.name]: t.notebook or "" for t in found},
            instead_of=_name(who),
        )
    if is_called(os.environ.get(VARIABLE, ""), who):
        raise UnknownTarget(text("{who!r} is this notebook itself", who=who), text("its own kernel is `%attach self`"))
    names, own = names_to_type(seen), procfs.command(os.getpid())
    others = [_name(name) for name, path in sorted(known.items()) if path not in own and _listens(_read(path))]
    there = text(", ").join(names.get(name, name) for name in others)
    raise UnknownTarget(
        text("no kernel {who!r} runs here", who=who), text("those that run: {there}", there=there) if there else None
    )


def _answering(path: str) -> str:
    began = time.monotonic()
    with _Client(path, _HEARTBEAT_S + 0.5) as client:
        client.check_heartbeat()
    log.debug("the kernel of %s gives a heartbeat, after %s", path, milliseconds(began))
    return path


def _known_kernels() -> dict[str, str]:
    """Kernel ids and their connection files, of this user's runtime directory and of the processes that can be seen."""
    from jupyter_core.paths import jupyter_runtime_dir

    paths = glob.glob(os.path.join(jupyter_runtime_dir(), "*.json"))
    known = {}
    for path in [*paths, *_on_command_lines()]:
        try:
            _read(path)
        except TraindbgError:
            continue  # a server's file, somebody else's kernel, or gone since
        known[_id(path)] = path
    return known


def _on_command_lines() -> Iterator[str]:
    import psutil

    for process in psutil.process_iter(["cmdline"]):
        for word in process.info["cmdline"] or ():
            path = word.split("=", 1)[-1]
            if not path.endswith(".json"):
                continue
            try:
                path = os.path.join(process.cwd(), path)
            except psutil.Error:
                pass  # a relative path of another user's process: the check below tells
            if os.path.isfile(path):
                yield path


def _id(path: str) -> str:
    return re.sub(r"^kernel-", "", os.path.basename(path).removesuffix(".json"))


def _read(path: str) -> Json:
    """The content of a connection file."""
    try:
        with open(path, encoding="utf-8") as f:
            content = json.load(f)
    except PermissionError as error:
        raise NotPermitted(text("{path} may not be read by this user", path=path)) from error
    except FileNotFoundError as error:
        raise TargetGone(text("{path} is gone, and with it its kernel", path=path)) from error
    except (OSError, ValueError) as error:
        raise UnknownTarget(text("{path} is not a kernel's connection file", path=path)) from error
    wanted = {"shell_port", "control_port", "hb_port", "iopub_port", "ip", "key"}
    if not isinstance(content, dict) or not wanted <= content.keys():
        raise UnknownTarget(text("{path} is not a kernel's connection file", path=path))
    return content


def _listens(info: Json, timeout_s: float = 1.0) -> bool:
    """Does anything listen where the heartbeat should be? A dead kernel is told at once, by a refused connection."""
    ipc = info.get("transport") == "ipc"
    try:
        if ipc:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(timeout_s)
                s.connect(f"{info['ip']}-{info['hb_port']}")
        else:
            socket.create_connection((_host(info), info["hb_port"]), timeout_s).close()
    except OSError:
        return False
    return True


def _host(info: Json) -> str:
    return "127.0.0.1" if info["ip"] in ("0.0.0.0", "*", "") else str(info["ip"])


class _NoReply(DeadlineExceeded):
    """The kernel has got the request and is silent: what it was doing with it is not known."""


# --- one conversation -----------------------------------------------------------------------------------------------


class _Client:
    """The sockets of one conversation with a kernel; everything ends `deadline_s` seconds after its making."""

    def __init__(self, connection_file: str, deadline_s: float) -> None:
        import zmq
        from jupyter_client.session import Session

        self.file = connection_file
        self.info = _read(connection_file)
        self.deadline_s = deadline_s
        self.end = time.monotonic() + deadline_s
        if not _listens(self.info):
            raise TargetGone(text("the kernel of {file} does not run any more", file=connection_file))
        self.session = Session(
            key=self.info["key"].encode(), signature_scheme=self.info.get("signature_scheme", "hmac-sha256")
        )
        self.context = zmq.Context()
        self.sockets: dict[str, Any] = {}

    def __enter__(self) -> _Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.context.destroy(linger=0)

    def left_s(self) -> float:
        return max(0.0, self.end - time.monotonic())

    def socket(self, channel: str) -> Any:
        """The socket of `channel`, connected on first use."""
        import zmq

        if channel not in self.sockets:
            made = self.context.socket({"hb": zmq.REQ, "iopub": zmq.SUB}.get(channel, zmq.DEALER))
            made.linger = 0
            if "curve_publickey" in self.info:  # ipykernel >= 7.4 can encrypt
                made.curve_secretkey = self.info["curve_secretkey"].encode()
                made.curve_publickey = made.curve_serverkey = self.info["curve_publickey"].encode()
            port = self.info[f"{channel}_port"]
            if self.info.get("transport") == "ipc":
                made.connect(f"ipc://{self.info['ip']}-{port}")
            else:
                made.connect(f"tcp://{_host(self.info)}:{port}")
            self.sockets[channel] = made
        return self.sockets[channel]

    def check_heartbeat(self) -> None:
        """Raises where the kernel's process is gone, stopped, or never was at this address. Needs no GIL over there."""
        beat = self.socket("hb")
        beat.send(b"traindbg")
        if not beat.poll(1000 * max(0.1, min(_HEARTBEAT_S, self.left_s()))):
            self.close("hb")  # a REQ socket without its reply is of no more use
            raise _not_beating(self.file)
        beat.recv()

    def close(self, channel: str) -> None:
        self.sockets.pop(channel).close(linger=0)

    def kernel_info(self) -> Json:
        """`kernel_info` over control, while looking for a wrong key: a kernel answers that with silence."""
        import zmq

        watch = self.socket("iopub")
        watch.subscribe(f"traindbg-{uuid.uuid4()}")  # the welcome of ipykernel >= 7 then comes to us alone
        asked = self.send("kernel_info_request", {})
        poller = zmq.Poller()
        poller.register(self.socket("control"), zmq.POLLIN)
        poller.register(watch, zmq.POLLIN)
        listen_to_all = time.monotonic() + 0.5
        beaten = False
        while self.left_s() > 0:
            ready = dict(poller.poll(int(min(200, 1000 * self.left_s()))))
            if watch in ready:
                self.check_key(watch.recv_multipart())
            if self.socket("control") in ready:
                reply = self.receive(asked)
                if reply is not None:
                    log.debug("%s: it is %s", self.file, reply.get("implementation"))
                    return reply
            if time.monotonic() > listen_to_all and not beaten:
                beaten = True
                watch.subscribe("")
                self.check_heartbeat()
        raise GilHeld(
            text(
                "the kernel of {file} lives but ran no Python for {deadline_s:g} s: C code holds its GIL (or the key "
                "in the connection file is not the kernel's)",
                file=self.file,
                deadline_s=self.deadline_s,
            )
        )

    def check_key(self, frames: list[bytes]) -> None:
        """`frames` come from the kernel: is it our key that they are signed with?"""
        _, rest = self.session.feed_identities(frames)
        if self.session.auth is not None and rest[0] != self.session.sign(rest[1:5]):
            raise NotPermitted(
                text("the kernel does not accept the key in {file}", file=self.file),
                text("use the connection file that the kernel was started with; `traindbg targets` lists the kernels"),
            )

    def send(self, kind: str, content: Json) -> str:
        """Send a request on the control channel; its message id."""
        message = self.session.msg(kind, content)
        self.session.send(self.socket("control"), message)
        return str(message["header"]["msg_id"])

    def receive(self, asked: str) -> Json | None:
        """The content of the reply to `asked` where that is what has come, else None."""
        _, message = self.session.recv(self.socket("control"))
        if message is None or message["parent_header"].get("msg_id") != asked:
            return None
        content: Json = message["content"]
        return content

    def request(self, kind: str, content: Json, *, until: float | None = None) -> Json:
        """Send a request and wait for its reply. Notices within 0.5 s when the kernel dies."""
        asked, began = self.send(kind, content), time.monotonic()
        until = self.end if until is None else until
        while (left_s := until - time.monotonic()) > 0:
            if self.socket("control").poll(1000 * min(0.5, left_s)):
                reply = self.receive(asked)
                if reply is not None:
                    log.debug("%s: its control channel answered %s in %s", self.file, kind, milliseconds(began))
                    return reply
            elif not _listens(self.info):
                raise TargetGone(text("the kernel of {file} died during the request", file=self.file))
        log.debug("%s: no reply to %s on its control channel in %s", self.file, kind, milliseconds(began))
        raise _NoReply(
            text(
                "the kernel of {file} lives but did not answer {kind} in {deadline_s:g} s; C code may hold its GIL",
                file=self.file,
                kind=kind,
                deadline_s=self.deadline_s,
            )
        )


def _not_beating(path: str) -> TraindbgError:
    """Why no heartbeat comes though something listens: the process is stopped, or another one has the port now."""
    import psutil

    for process in psutil.process_iter(["cmdline", "status"]):
        if any(path in word for word in process.info["cmdline"] or ()):
            if process.info["status"] in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP):
                return DeadlineExceeded(
                    text("the kernel's process {pid} is stopped", pid=process.pid),
                    text("let it go on with `kill -CONT {pid}`", pid=process.pid),
                )
            return DeadlineExceeded(
                text(
                    "the kernel's process {pid} gave no heartbeat in {seconds:g} s",
                    pid=process.pid,
                    seconds=_HEARTBEAT_S,
                )
            )
    return TargetGone(
        text("the kernel of {path} does not answer, and no process of that kernel is seen on this host", path=path)
    )


# --- running a source -----------------------------------------------------------------------------------------------


def run_in_kernel(connection_file: str, source: str, deadline_s: float = 10.0) -> Json:
    """Run `source` once in the kernel, whatever its main thread does, and return the dict that it left in ``result``.

    The source runs in a thread of its own and in a fresh namespace; nothing is assigned in the notebook's. It must not
    print: that would land in the running cell. The cell's output, figures, ``input()``, history and counters stay as
    they are, and interrupts work. Costs two round trips: about 8 ms where the main thread is in C code or asleep, 40 ms where it
    runs pure Python.

    Raises `TargetGone` (in under 3 s), `NotPermitted` for a wrong key (ipykernel 6 gives no sign of it: `GilHeld`),
    `GilHeld` when no Python ran in the kernel for `deadline_s`, `DeadlineExceeded` when the source did not end by then
    (it goes on in its thread) or the process is stopped, `ProbeFailed` with the last line of the traceback when the
    source raised, `CannotAttach` for a kernel that is not ipykernel.
    """
    with _Client(connection_file, deadline_s) as client:
        _check_implementation(client)
        return _Errand(client, source).run()


def kernel_pid(connection_file: str, deadline_s: float = 10.0) -> int:
    """The kernel's process id as the kernel sees it. One or two round trips. Raises as `run_in_kernel` does."""
    with _Client(connection_file, deadline_s) as client:
        _check_implementation(client)
        try:
            usage = client.request("usage_request", {}, until=time.monotonic() + client.left_s() / 2)
        except _NoReply:
            usage = {}  # an old ipykernel that does not know the request, or psutil failed over there
        left_s = client.left_s()
    if "pid" in usage:
        return int(usage["pid"])
    return int(run_in_kernel(connection_file, "import os; result = {'pid': os.getpid()}", left_s)["pid"])


def _check_implementation(client: _Client) -> None:
    info = client.kernel_info()
    if info.get("implementation") != "ipython":
        raise CannotAttach(
            text("this is a kernel of {program}, not of ipykernel", program=info.get("implementation")),
            text("attach by its pid instead"),
        )


class _Errand:
    """One source on its way: send it once, then ask until its result is there."""

    def __init__(self, client: _Client, source: str) -> None:
        self.client, self.source = client, source
        self.token = f"traindbg-{uuid.uuid4().hex[:12]}"

    def run(self) -> Json:
        reply = self.execute(self.source)
        # The last question leaves time for its answer: behind a pure Python loop one takes up to 0.3 s.
        while reply.get("pending") and self.client.left_s() > min(0.5, 0.2 * self.client.deadline_s):
            time.sleep(0.05)  # control is free for an interrupt meanwhile
            reply = self.execute(None)
        if reply.get("pending"):
            raise DeadlineExceeded(
                text(
                    "the source did not end in {deadline_s:g} s; it goes on in its own thread in the kernel",
                    deadline_s=self.client.deadline_s,
                )
            )
        if "trouble" in reply:
            raise ProbeFailed(text("the kernel is not as expected: {why}", why=reply["trouble"]))
        if "error" in reply:
            raise ProbeFailed(text("the source raised in the kernel: {error}", error=reply["error"]))
        result = reply["result"]
        if not isinstance(result, dict):
            raise ProbeFailed(text("the source left a {kind} in `result`, not a dict", kind=type(result).__name__))
        return result

    def execute(self, source: str | None) -> Json:
        """One silent execute: `_kernel_inside.prepare` is its cell, `_kernel_inside.answer` its user expression."""
        from . import _kernel_inside

        left_s = self.client.left_s()
        wait_s = min(_CONTROL_WAIT_S, left_s / 2) if source is not None else 0.0
        program = f"{inspect.getsource(_kernel_inside)}\nprepare()"
        state = f"__import__('threading').current_thread().__dict__[{_kernel_inside.STATE!r}]"
        content = {
            "code": f"__import__('builtins').exec({program!r}, {{'__name__': 'traindbg_inside'}})",
            "silent": True,
            "store_history": False,
            "stop_on_error": False,
            # As notebooks send it: input() in the running cell works on until `prepare` puts back the truth.
            "allow_stdin": True,
            "user_expressions": {"answer": f"{state}['answer']({source!r}, {self.token!r}, {wait_s}, {left_s + 1})"},
        }
        return _answer_in(self.client.request("execute_request", content))


def _answer_in(reply: Json) -> Json:
    """The JSON that came back as the repr of a string."""
    said = reply.get("user_expressions", {}).get("answer", {})
    if reply.get("status") != "ok" or said.get("status") != "ok":
        why = said if said.get("status") == "error" else reply
        raise ProbeFailed(
            text("the kernel could not run our request: {kind}: {why}", kind=why.get("ename"), why=why.get("evalue"))
        )
    try:
        answer = json.loads(ast.literal_eval(said["data"]["text/plain"]))
    except (KeyError, ValueError, SyntaxError) as error:
        raise ProbeFailed(text("the kernel's answer cannot be read: {error}", error=error)) from error
    if not isinstance(answer, dict):
        raise ProbeFailed(text("the kernel's answer is not an object"))
    return answer
