"""The HTTP client against real servers that are not what one hoped for."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from jupyter_traindbg.errors import CannotAttach, DeadlineExceeded, NotPermitted, TraindbgError
from jupyter_traindbg.outside.raystate import dashboard, read, reading
from jupyter_traindbg.outside.raystate.addresses import ClusterAddress
from jupyter_traindbg.outside.raystate.asking import Questions, Unanswered
from jupyter_traindbg.outside.raystate.dashboard import Dashboard

VERSION = json.dumps({"version": "4", "ray_version": "2.60.0", "session_name": "s"}).encode()
Serve = Callable[..., str]


class Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that hung up is what some of the tests are about."""


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a server that answers with what a function of the path and the headers says; its URL."""
    servers: list[ThreadingHTTPServer] = []

    def start(answer: Callable[[str, dict[str, str]], tuple[int, bytes]]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = answer(self.path, {k.lower(): v for k, v in self.headers.items()})
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "https://sso.example.org")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        server = Server(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def soon() -> float:
    return time.monotonic() + 5


def with_token(token: str) -> Callable[[str, dict[str, str]], tuple[int, bytes]]:
    def answer(_: str, headers: dict[str, str]) -> tuple[int, bytes]:
        given = headers.get("authorization")
        if given is None:
            return 401, b"Unauthorized: Missing authentication token"
        return (200, VERSION) if given == f"Bearer {token}" else (403, b"Forbidden: Invalid authentication token")

    return answer


@pytest.fixture(autouse=True)
def _no_token_of_this_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_a_missing_token_is_told_with_where_it_was_looked_for(serve: Serve) -> None:
    with pytest.raises(NotPermitted) as caught:
        Dashboard(serve(with_token("secret"))).admit(soon())
    assert "wants a token (HTTP 401), and there is none: neither RAY_AUTH_TOKEN nor RAY_AUTH_TOKEN_PATH is set" in str(
        caught.value
    )
    assert "ray get-auth-token" in caught.value.next_step


def test_a_wrong_token_is_told_with_where_it_came_from(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = serve(with_token("secret"))
    monkeypatch.setenv("RAY_AUTH_TOKEN", "guess")
    with pytest.raises(NotPermitted, match=r"refuses the token \(HTTP 403\); it came from RAY_AUTH_TOKEN") as caught:
        Dashboard(url).admit(soon())
    assert "guess" not in str(caught.value)
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "nothing"))
    with pytest.raises(NotPermitted, match=r"nothing that RAY_AUTH_TOKEN_PATH names cannot be read \(No such file"):
        Dashboard(url).admit(soon())


@pytest.mark.parametrize("where", ["variable", "path", "home"])
def test_the_token_is_found_where_ray_finds_it(
    where: str, serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = serve(with_token("secret"))
    if where == "variable":
        monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    elif where == "path":
        (tmp_path / "token").write_text("secret\n")
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))
    else:
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text("secret")
    one = Dashboard(url)
    assert one.admit(soon())["ray_version"] == "2.60.0"
    assert one.token == "secret"


def test_the_token_goes_only_to_who_asks_for_it(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    seen: list[dict[str, str]] = []

    def answer(_: str, headers: dict[str, str]) -> tuple[int, bytes]:
        seen.append(headers)
        return 200, VERSION

    Dashboard(serve(answer)).admit(soon())
    assert [headers for headers in seen if "authorization" in headers] == []
    assert "secret" not in repr(ClusterAddress("a:1", "http://a", "secret"))


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (200, b"<html>hello</html>", "answers, but not as a Ray dashboard does"),
        (200, b"[1, 2]", "is no Ray dashboard"),
        (200, b"\xff\xfe", "answers, but not as a Ray dashboard does"),
        (302, b"", "HTTP 302"),
        (404, b"404: Not Found", "HTTP 404: 404: Not Found"),
        (500, json.dumps({"msg": "GCS is down\nat all"}).encode(), "HTTP 500: GCS is down"),
    ],
)
def test_what_is_no_dashboard_is_told_as_that(status: int, body: bytes, words: str, serve: Serve) -> None:
    with pytest.raises(CannotAttach, match=words):
        Dashboard(serve(lambda *_: (status, body))).admit(soon())


def test_tls_where_there_is_none_is_told(serve: Serve) -> None:
    with pytest.raises(CannotAttach, match="no TLS with https://"):
        Dashboard(serve(lambda *_: (200, VERSION)).replace("http:", "https:")).admit(soon())


def test_an_answer_without_end_is_cut_off(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard, "LARGEST_BYTES", 1 << 20)
    with pytest.raises(CannotAttach, match="more than 1 MiB in one answer"):
        Dashboard(serve(lambda *_: (200, b"x" * (3 << 20)))).get("/x", soon())


@pytest.mark.timeout(30)
def test_a_slow_answer_costs_the_deadline(serve: Serve) -> None:
    released = threading.Event()

    def never(*_: object) -> tuple[int, bytes]:
        released.wait()
        return 200, VERSION

    try:
        with pytest.raises(DeadlineExceeded, match="has not answered in time"):
            Dashboard(serve(never)).admit(time.monotonic() + 0.3)
    finally:
        released.set()


def test_one_question_that_fails_is_a_note_and_the_others_go_on(serve: Serve) -> None:
    def answer(path: str, _: dict[str, str]) -> tuple[int, bytes]:
        return (200, b'{"n": 1}') if path == "/good" else (500, b"boom") if path == "/bad" else (200, b"[]")

    ask = Questions(Dashboard(serve(answer)), soon())
    answers = ask.together(
        {"good": lambda: ask.get("/good"), "bad": lambda: ask.get("/bad"), "odd": lambda: ask.get("/odd")["data"]}
    )
    assert answers["good"] == {"n": 1}
    assert isinstance(answers["bad"], Unanswered)
    assert ask.had(answers, "bad", "nothing") == "nothing"
    assert ask.notes == ["no bad: HTTP 500: boom"]
    assert "an answer of unknown form" in answers["odd"].why


def test_a_dashboard_without_nodes_is_an_error_and_not_an_empty_cluster(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading.brokered, "cluster", lambda *_: None)
    url = serve(lambda path, _: (200, VERSION) if path == "/api/version" else (500, b"boom"))
    with pytest.raises(TraindbgError, match="answers HTTP 500: boom"):
        read(ClusterAddress("", url))


def test_lists_that_are_cut_off_say_so() -> None:
    ask = Questions(Dashboard("http://127.0.0.1:1"), 0.0)
    rows = [{}] * 3
    ask._note_what_is_missing("tasks", {"result": rows, "num_filtered": 7, "total": 7, "num_after_truncation": 7}, 3)
    ask._note_what_is_missing("tasks", {"result": rows, "num_filtered": 3, "total": 12, "num_after_truncation": 3}, 100)
    ask._note_what_is_missing(
        "workers", {"result": rows, "num_filtered": 3, "total": 12, "num_after_truncation": 3}, 100
    )
    ask._note_what_is_missing(
        "actors", {"result": rows, "num_filtered": 3, "total": 3, "partial_failure_warning": "a node is away"}, 9
    )
    assert ask.notes == [
        "3 of 7 tasks were read, of which Ray lists 3 at most: name one job to see all of it",
        "9 tasks are no longer in Ray's list: it keeps the last ones only",
        "actors: a node is away",
    ]
