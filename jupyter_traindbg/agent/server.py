"""JSON-RPC 2.0 over a Unix socket, one JSON document a line, one thread a client.

A client is heard only if its uid is ours or root's and its first request is ``hello`` with the token. Threads are plain blocking ones:
an agent has few clients, and a slow probe of one must not hold up another.
"""

from __future__ import annotations

import hmac
import json
import os
import socket
import struct
import threading
import traceback
from typing import Any, Dict, List, Optional, Protocol, Set

from . import cuda
from .refused import Refused
from .rendezvous import PROTOCOL
from .saying import as_json

TICK_S = 0.5
MAX_HELLO_BYTES, MAX_REQUEST_BYTES = 1 << 16, 1 << 28
"""The plan of a checkpoint of some hundred thousand shards is a long line."""

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, BAD_PARAMS = -32700, -32600, -32601, -32602
PROBE_FAILED, NOT_AUTHORISED, REFUSED = -32000, -32001, -32002


class Host(Protocol):
    """What the server serves: the agent."""

    version: str
    alive: bool
    keep: bool

    def tick(self, clients: int) -> None:
        """Called about every `TICK_S` with the number of clients."""

    def call(self, method: str, params: Dict[str, Any]) -> Any:
        """Answer a question. Raises LookupError where there is no such one."""

    def leave(self, others: int, *, force: bool = False) -> bool:
        """A client says goodbye, `others` remain."""


class Server:
    """Listens at `path`; hands authenticated requests to the agent."""

    def __init__(self, path: str, token: str, agent: Host) -> None:
        self.path, self.token = path, token
        self._agent = agent
        self._clients: List[socket.socket] = []
        self._leaving: Set[socket.socket] = set()
        self._listener: Optional[socket.socket] = None
        self._thread: Optional[threading.Thread] = None
        self._lock = threading.Lock()

    def open(self) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(self.path)
            os.chmod(self.path, 0o600)
            listener.listen(16)
            listener.settimeout(TICK_S)
        except BaseException:
            listener.close()
            raise
        self._listener = listener
        self._thread = threading.Thread(target=self._accept, args=(listener,), name="traindbg-agent", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening and end every connection but the caller's own, which ends when its reply is out."""
        if self._listener is not None:
            try:
                self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept()
            except OSError:
                pass  # not every platform lets a listening socket be shut down; the thread then wakes at its next tick
            self._listener.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(2 * TICK_S)
        with self._lock:
            clients = list(self._clients)
        for client in clients:
            try:
                client.shutdown(socket.SHUT_RD)
            except OSError:
                pass  # it left by itself

    def _accept(self, listener: socket.socket) -> None:
        while self._agent.alive:
            try:
                client = listener.accept()[0]
            except TimeoutError:
                with self._lock:
                    clients = len(self._clients)
                self._agent.tick(clients)
                continue
            except OSError:
                return  # closed by `close`
            if not _trusted(client):
                client.close()
                continue
            with self._lock:
                self._clients.append(client)
            threading.Thread(target=self._serve, args=(client,), name="traindbg-client", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            with client, client.makefile("rb") as lines:
                greeted = False
                while self._agent.alive:
                    line = lines.readline(MAX_REQUEST_BYTES if greeted else MAX_HELLO_BYTES)
                    if not line:
                        return
                    reply = self._answer(client, line, greeted)
                    greeted = greeted or "error" not in reply
                    client.sendall(json.dumps(reply, default=as_json).encode() + b"\n")
                    if not greeted:
                        break
                self._hang_up(client)
        except OSError:
            return  # the client is gone; there is nobody to tell
        finally:
            with self._lock:
                self._clients.remove(client)
                self._leaving.discard(client)

    def _others(self, client: socket.socket) -> int:
        """How many stay when `client` has left. One that said goodbye may not have hung up yet."""
        with self._lock:
            self._leaving.add(client)
            return len(self._clients) - len(self._leaving)

    @staticmethod
    def _hang_up(client: socket.socket) -> None:
        """End the connection for good: a forked child (a DataLoader worker) may hold a copy of its descriptor."""
        try:
            client.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other end has hung up already

    def _answer(self, client: socket.socket, line: bytes, greeted: bool) -> Dict[str, Any]:
        try:
            request = json.loads(line)
        except ValueError:
            return _error(None, PARSE_ERROR, "not JSON")
        if not isinstance(request, dict) or not isinstance(request.get("method"), str):
            return _error(None, INVALID_REQUEST, "not a JSON-RPC request")
        ident, method = request.get("id"), request["method"]
        params = request.get("params") or {}
        if not isinstance(params, dict):
            return _error(ident, BAD_PARAMS, "params must be an object")
        if not greeted:
            if method != "hello" or not hmac.compare_digest(str(params.get("token", "")), self.token):
                return _error(ident, NOT_AUTHORISED, "wrong token")
            return _result(ident, {"protocol": PROTOCOL, "version": self._agent.version, "pid": os.getpid()})
        return self._run(client, ident, method, params)

    def _run(self, client: socket.socket, ident: Any, method: str, params: Dict[str, Any]) -> Dict[str, Any]:
        try:
            if method == "leave":
                stopped = self._agent.leave(self._others(client), force=bool(params.get("force")))
                return _result(ident, {"stopped": stopped})
            if method == "keep":
                self._agent.keep = True
                return _result(ident, {})
            cuda.stand_aside()
            return _result(ident, self._agent.call(method, params))
        except LookupError as e:
            return _error(ident, NO_METHOD, str(e))
        except Refused as e:
            told = {"cause": e.cause, "next_step": e.next_step, "too_late": e.too_late}
            return _error(ident, REFUSED, str(e.cause), told)
        except BaseException as e:
            where = traceback.extract_tb(e.__traceback__)[-1]
            place = f"{os.path.basename(where.filename)}:{where.lineno}"
            return _error(ident, PROBE_FAILED, f"{method}: {type(e).__name__}: {e} ({place})")


def _trusted(client: socket.socket) -> bool:
    """Only our own user and root may speak to us, whatever the modes of the files say."""
    peer = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", peer)[1] in (os.getuid(), 0)


def _result(ident: Any, result: Any) -> Dict[str, Any]:
    return {"jsonrpc": "2.0", "id": ident, "result": result}


def _error(ident: Any, code: int, message: str, data: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    return {"jsonrpc": "2.0", "id": ident, "error": {"code": code, "message": message, "data": data or {}}}
