"""Whose kernel is this: as its environment, a server or nobody says. Servers are played, also those that answer nonsense or nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from cases import each

from jupyter_traindbg.attach import notebooks as module
from jupyter_traindbg.attach.notebooks import Kernel, is_called, notebooks
from jupyter_traindbg.outside import procfs

OURS = procfs.stat(os.getpid())
assert OURS is not None
TABLE = {
    pid: dataclasses.replace(OURS, pid=pid, parent=parent) for pid, parent in [(10, 1), (11, 1), (12, 10), (13, 12)]
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with a notebook, and a runtime directory beside it."""
    (tmp_path / "train.ipynb").write_text("{}")
    (tmp_path / "runtime").mkdir()
    return tmp_path


def kernel(folder: Path, pid: int, told: str, kernel_id: str = "") -> Kernel:
    return Kernel(pid, str(folder / "runtime" / f"kernel-{kernel_id or pid}.json"), told)


Serve = Callable[..., list[str]]


@pytest.fixture
def serve(folder: Path) -> Iterator[Serve]:
    """``serve(answer)`` plays a server that answers so, whose directory is `folder`; what it is asked is in the list."""
    with contextlib.ExitStack() as running:
        yield lambda answer, **told: running.enter_context(played(folder, answer, told))


@contextlib.contextmanager
def played(folder: Path, answer: bytes, told: dict[str, Any]) -> Iterator[list[str]]:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers['Authorization']}")
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *words: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        write(folder, server.server_port, **told)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield asked
        finally:
            server.shutdown()
            thread.join()


def write(folder: Path, port: int, **told: Any) -> None:
    known = {
        "pid": os.getpid(),
        "port": port,
        "secure": False,
        "base_url": "/",
        "token": "t",
        "root_dir": str(folder),
        **told,
    }
    (folder / "runtime" / f"jpserver-{port}.json").write_text(json.dumps(known))


def forget(folder: Path) -> None:
    """What servers have written: the cases of one test share their `folder`."""
    for file in (folder / "runtime").glob("jpserver-*.json"):
        file.unlink()


def sessions(**paths: str) -> bytes:
    return json.dumps([{"path": path, "kernel": {"id": kernel_id}} for kernel_id, path in paths.items()]).encode()


def test_a_notebook_that_is_there_is_believed_and_no_server_asked(folder: Path, serve: Serve) -> None:
    asked = serve(sessions(k="other.ipynb"))
    path = str(folder / "train.ipynb")
    assert notebooks([kernel(folder, 10, path, "k")], TABLE) == {10: path}
    assert asked == []


def test_one_that_was_renamed_is_what_its_server_says(folder: Path, serve: Serve) -> None:
    asked = serve(sessions(k="sub/new.ipynb", another="x.ipynb"), base_url="/user/ada/", token="s3cret")
    serve(sessions(another="y.ipynb"))
    assert notebooks([kernel(folder, 10, str(folder / "old.ipynb"), "k")], TABLE) == {10: str(folder / "sub/new.ipynb")}
    assert asked == ["/user/ada/api/sessions?no_track_activity=1 token s3cret"]


def test_where_two_say_the_same_one_of_them_was_renamed(folder: Path, serve: Serve) -> None:
    serve(sessions(a="train.ipynb", b="before.ipynb"))
    path = str(folder / "train.ipynb")
    seen = [kernel(folder, 10, path, "a"), kernel(folder, 11, path, "b")]
    assert notebooks(seen, TABLE) == {10: path, 11: str(folder / "before.ipynb")}


def test_a_name_that_only_the_server_can_place(folder: Path, serve: Serve) -> None:
    serve(sessions(k="RTC:train.ipynb"))
    assert notebooks([kernel(folder, 10, "RTC:train.ipynb", "k")], TABLE) == {10: str(folder / "train.ipynb")}
    together = kernel(folder, 11, f"{folder}/RTC:train.ipynb")
    assert notebooks([together], TABLE) == {11: str(folder / "train.ipynb")}


def test_what_a_kernel_has_inherited_from_another_one_is_not_its_own(folder: Path) -> None:
    path = str(folder / "train.ipynb")
    seen = [kernel(folder, 10, path), kernel(folder, 13, path), kernel(folder, 11, "")]
    assert notebooks(seen, TABLE) == {10: path}


def test_nor_what_it_has_inherited_from_the_notebook_that_looks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(folder / "train.ipynb")
    ours = {**TABLE, 14: dataclasses.replace(OURS, pid=14, parent=os.getpid())}
    assert notebooks([kernel(folder, 14, path)], ours) == {14: path}
    monkeypatch.setenv("JPY_SESSION_NAME", path)
    assert notebooks([kernel(folder, 14, path)], ours) == {}


@each("told", ["", "console-1-7f3a21b0", "/home/ada/console-2-7f3a"])
def test_consoles_and_kernels_that_nobody_told_have_none(folder: Path, told: str) -> None:
    assert notebooks([kernel(folder, 10, told)], TABLE) == {}


@each(
    "answer",
    [
        b"",
        b"{",
        b"[1]",
        b"[]",
        b"null",
        b'{"message": "Forbidden"}',
        b'[{"path": 3, "kernel": null}]',
        b"[{}]",
        b"\xff" * 99,
        b"[" * 99999,
    ],
    ids=["nothing", "broken", "numbers", "none", "null", "refused", "wrong kinds", "empty", "bytes", "deep"],
)
def test_a_server_that_does_not_help_leaves_the_name_that_it_had(folder: Path, answer: bytes) -> None:
    forget(folder)
    with played(folder, answer, {}):
        assert notebooks([kernel(folder, 10, "/gone/old.ipynb")], TABLE) == {10: "/gone/old.ipynb"}


@each(
    "told",
    [
        {"port": 1},
        {"port": "x"},
        {"port": 99999},
        {"pid": 2**22 + 1},
        {"pid": "?"},
        {"secure": True},
        {"root_dir": None},
    ],
)
def test_neither_does_one_that_is_gone_or_has_written_nonsense(folder: Path, told: dict[str, Any]) -> None:
    forget(folder)
    with played(folder, sessions(k="new.ipynb"), {}):
        (file,) = (folder / "runtime").glob("jpserver-*.json")
        file.write_text(json.dumps({**json.loads(file.read_text()), **told}))
        (folder / "runtime" / "jpserver-0.json").write_text("{")
        assert notebooks([kernel(folder, 10, "/gone/old.ipynb", "k")], TABLE) == {10: "/gone/old.ipynb"}


def test_servers_that_do_not_answer_are_left_behind_all_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIMIT_S", 0.2)
    with contextlib.ExitStack() as silent, played(folder, sessions(k="new.ipynb"), {}):
        for _ in range(20):
            listener = silent.enter_context(socket.create_server(("127.0.0.1", 0)))
            write(folder, listener.getsockname()[1])
        assert notebooks([kernel(folder, 10, "/gone/old.ipynb", "k")], TABLE) == {10: str(folder / "new.ipynb")}


def test_a_file_system_that_does_not_answer_is_left_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIMIT_S", 0.1)
    released = threading.Event()
    monkeypatch.setattr(module, "_missing", lambda paths: {*paths} if released.wait(30) else set())
    try:
        assert notebooks([kernel(folder, 10, "/nfs/train.ipynb")], TABLE) == {10: "/nfs/train.ipynb"}
    finally:
        released.set()


@each(
    ("path", "name", "called"),
    [
        ("/home/ada/llm/train.ipynb", "train.ipynb", True),
        ("/home/ada/llm/train.ipynb", "llm/train.ipynb", True),
        ("/home/ada/llm/train.ipynb", "./train.ipynb", True),
        ("/home/ada/llm/train.ipynb", "/home/ada/llm/train.ipynb", True),
        ("/home/ada/llm/train.ipynb", "/llm/train.ipynb", False),
        ("/home/ada/llm/train.ipynb", "rain.ipynb", False),
        ("/home/ada/llm/train.ipynb", "train", False),
        ("/home/ada/llm/train.ipynb", "", False),
        ("", "train.ipynb", False),
    ],
)
def test_a_notebook_is_called_by_the_end_of_its_path(path: str, name: str, called: bool) -> None:
    assert is_called(path, name) is called


def test_a_notebook_below_the_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert is_called("/home/ada/train.ipynb", "~/train.ipynb")
