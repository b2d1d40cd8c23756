"""The HTTP of a Ray dashboard's head: one GET at a time, each with a deadline, a limit on its size and, where it is asked for, the token.

Only the standard library. A proxy is used for a host's name where the environment names one, never for an address or ``localhost``.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import logging
import socket
import ssl
import time
import urllib.request
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from ...errors import CannotAttach, DeadlineExceeded, NotPermitted
from ...language import text
from ...verbose import milliseconds
from . import token as tokens

__all__ = ["Answer", "Dashboard"]

log = logging.getLogger(__name__)

LARGEST_BYTES = 256 << 20
CHUNK_BYTES = 1 << 20
CONNECT_S = 2.5
"""For a connection alone: a host that drops packets is told well before the caller's deadline."""

Answer = dict[str, Any]


class Refused(Exception):
    """The dashboard answered with an HTTP status that is no success."""

    def __init__(self, status: int, words: str) -> None:
        self.status, self.words = status, words
        super().__init__(f"HTTP {status}: {words}" if words else f"HTTP {status}")


class Dashboard:
    """Whom to ask at `url`. Safe to use from several threads: every request has its own connection."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url
        self.token = token
        parts = urlsplit(url)
        self.secure = parts.scheme == "https"
        self.host = parts.hostname or ""
        self.port = parts.port or (443 if self.secure else 80)
        self.prefix = parts.path.rstrip("/")

    def get(self, path: str, until: float, /, **query: str | list[str]) -> Any:
        """The JSON at `path`. Raises `Refused` for another status than success, `NotPermitted` for the token's sake, `CannotAttach`
        where nobody answers there and `DeadlineExceeded` after `until` (of `time.monotonic`).
        """
        full = self.prefix + quote(path) + (f"?{urlencode(query, doseq=True)}" if query else "")
        return self._answer(*self._fetch(full, until))

    def _answer(self, status: int, body: bytes) -> Any:
        if status in (401, 403):
            raise self._not_permitted(status)
        if status != 200:
            raise Refused(status, _first_line(body))
        try:
            return json.loads(body)
        except ValueError:
            raise CannotAttach(
                text("{url} answers, but not as a Ray dashboard does", url=self.url),
                text("name the dashboard of a Ray cluster, usually http://HOST:8265"),
            ) from None

    def post(self, path: str, until: float) -> Any:
        """The JSON that a POST without a body brings: how the job API is told to do something. Raises as `get` does."""
        return self._answer(*self._fetch(self.prefix + quote(path), until, "POST"))

    def admit(self, until: float) -> Answer:
        """Find out whether it is a Ray dashboard and wants a token: ``/api/version``. The token is sent only where it is asked for."""
        try:
            return self._version(until)
        except NotPermitted:
            found, _ = tokens.find()
            if self.token is not None or found is None:
                raise
            self.token = found
            return self._version(until)

    def _version(self, until: float) -> Answer:
        try:
            answer = self.get("/api/version", until)
        except Refused as e:
            raise CannotAttach(
                text("{url} answers {what}, which is not what a Ray dashboard says", url=self.url, what=e),
                text("name the dashboard, usually http://HOST:8265"),
            ) from None
        if not isinstance(answer, dict) or "ray_version" not in answer:
            raise CannotAttach(
                text("what answers at {url} is no Ray dashboard", url=self.url),
                text("name the dashboard, usually http://HOST:8265"),
            )
        return answer

    def gcs_of_head(self, until: float) -> tuple[str, str]:
        """The address of the GCS and the session directory, as the head's raylet was told them; empty where it is not known."""
        try:
            nodes = self.get("/nodes", until, view="summary", nocache="1")["data"]["summary"]
        except (Refused, KeyError, TypeError):
            return "", ""
        nodes.sort(key=lambda node: not node.get("raylet", {}).get("isHeadNode"))
        for node in nodes:
            told = dict(
                word[2:].split("=", 1) for word in node.get("cmdline") or () if word.startswith("--") and "=" in word
            )
            if told.get("gcs-address"):
                return told["gcs-address"], told.get("session_dir", "")
        return "", ""

    # --- one exchange ---

    def _fetch(self, path: str, until: float, method: str = "GET") -> tuple[int, bytes]:
        connection, origin = self._connection(until)
        headers = {"Accept": "application/json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        began = time.monotonic()
        try:
            connection.request(method, origin + path, headers=headers)
            self._set_timeout(connection, until)
            response = connection.getresponse()
            body = self._body(connection, response, until)
            log.debug(
                "%s:%d %s %s: %d, %d bytes in %s",
                *(self.host, self.port, method, path, response.status, len(body), milliseconds(began)),
            )
            return response.status, body
        except ssl.SSLError as e:
            raise CannotAttach(
                text("no TLS with {url} ({why})", url=self.url, why=e.reason or e),
                text("SSL_CERT_FILE names the certificates to trust; a plain dashboard is http://"),
            ) from None
        except TimeoutError:
            raise self._too_late(until) from None
        except (OSError, http.client.HTTPException) as e:
            why = (e.strerror if isinstance(e, OSError) else None) or str(e) or type(e).__name__
            raise CannotAttach(
                text("no dashboard answers at {url} ({why})", url=self.url, why=why),
                text("is the cluster up, and is this its dashboard's address?"),
            ) from None
        finally:
            connection.close()

    def _connection(self, until: float) -> tuple[http.client.HTTPConnection, str]:
        """A connection that is not open yet, and what a path begins with on it: a proxy of plain HTTP wants the whole URL."""
        left = max(0.05, min(CONNECT_S, until - time.monotonic()))
        proxy = self._proxy()
        host, port = proxy or (self.host, self.port)
        if not self.secure:
            return http.client.HTTPConnection(
                host, port, timeout=left
            ), f"http://{self.host}:{self.port}" if proxy else ""
        secure = http.client.HTTPSConnection(host, port, timeout=left)
        if proxy:
            secure.set_tunnel(self.host, self.port)
        return secure, ""

    def _proxy(self) -> tuple[str, int] | None:
        if self.host == "localhost" or _is_address(self.host) or urllib.request.proxy_bypass(self.host):
            return None
        named = urllib.request.getproxies().get("https" if self.secure else "http")
        parts = urlsplit(named) if named else None
        return (parts.hostname, parts.port or 80) if parts is not None and parts.hostname else None

    def _body(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse, until: float) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while True:
            self._set_timeout(connection, until)
            chunk = response.read1(CHUNK_BYTES)
            if not chunk:
                return b"".join(chunks)
            chunks.append(chunk)
            size += len(chunk)
            if size > LARGEST_BYTES:
                raise CannotAttach(
                    text(
                        "{url} sends more than {most} MiB in one answer",
                        url=self.url,
                        most=LARGEST_BYTES >> 20,
                    ),
                    text("name one job: ray:JOB@ADDRESS"),
                )

    def _set_timeout(self, connection: http.client.HTTPConnection, until: float) -> None:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if isinstance(connection.sock, socket.socket):
            connection.sock.settimeout(left)

    # --- words ---

    def _too_late(self, until: float) -> Exception:
        if time.monotonic() < until:
            return CannotAttach(
                text("no connection to {url} within {seconds} s", url=self.url, seconds=CONNECT_S),
                text("is it the dashboard's address, and open to this machine?"),
            )
        return DeadlineExceeded(
            text("the dashboard at {url} has not answered in time", url=self.url),
            text("give a longer --timeout; its head may be overloaded"),
        )

    def _not_permitted(self, status: int) -> NotPermitted:
        found, where = tokens.find()
        if self.token is None and found is None:
            return NotPermitted(
                text(
                    "the cluster at {url} wants a token (HTTP {status}), and there is none: {where}",
                    url=self.url,
                    status=status,
                    where=where,
                ),
                text(tokens.SET_IT),
            )
        if self.token is None:
            return NotPermitted(
                text("the cluster at {url} wants a token (HTTP {status})", url=self.url, status=status),
                text(tokens.SET_IT),
            )
        return NotPermitted(
            text(
                "the cluster at {url} refuses the token (HTTP {status}); it came from {where}",
                url=self.url,
                status=status,
                where=where,
            ),
            text(tokens.SET_IT),
        )


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _first_line(body: bytes) -> str:
    words = body[:4096].decode(errors="replace").strip()
    try:
        words = str(json.loads(body).get("msg", words))
    except (ValueError, AttributeError):
        pass
    return words.splitlines()[0][:300] if words else ""
