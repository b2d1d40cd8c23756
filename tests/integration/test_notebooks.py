"""Kernels by the names of their notebooks, at a real Jupyter server in a process of its own."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import jupyter_server, until

import traindbg
from jupyter_traindbg.attach import discover
from jupyter_traindbg.attach.kernel_channel import find_connection_file, run_in_kernel
from jupyter_traindbg.errors import AmbiguousTarget, TraindbgError, UnknownTarget
from jupyter_traindbg.model import Target, names_to_type

EMPTY = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@dataclass
class Server:
    """A running Jupyter server: notebooks are opened, renamed and closed in it as JupyterLab does."""

    url: str
    token: str
    root: Path

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            f"{self.url}api/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.loads(reply.read() or b"null")

    def open(self, path: str) -> dict[str, Any]:
        """The session of a new notebook, whose kernel is told its name."""
        (self.root / path).parent.mkdir(exist_ok=True)
        (self.root / path).write_text(EMPTY)
        asked = {"path": path, "name": Path(path).name, "type": "notebook", "kernel": {"name": "python3"}}
        session: dict[str, Any] = self.ask("POST", "sessions", asked)
        until(lambda: answers(session["kernel"]["id"]), "the kernel is there")
        return session

    def rename(self, session: dict[str, Any], path: str) -> None:
        self.ask("PATCH", f"contents/{session['path']}", {"path": path})
        self.ask("PATCH", f"sessions/{session['id']}", {"path": path, "name": Path(path).name})

    def target(self, session: dict[str, Any]) -> Target | None:
        name = f"kernel:{session['kernel']['id']}"
        return next((t for t in discover.targets() if t.name == name), None)

    def notebook(self, session: dict[str, Any]) -> str | None:
        found = self.target(session)
        return None if found is None or found.notebook is None else os.path.relpath(found.notebook, self.root)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("server")
    root, token = directory / "root", secrets.token_hex(16)
    root.mkdir()
    homes = {f"JUPYTER_{name.upper()}_DIR": str(directory / name) for name in ("config", "data", "runtime")}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "JPY"))}
    command = [
        *(sys.executable, "-m", "jupyter_server", "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", "--no-browser"),
        *(f"--ServerApp.root_dir={root}", f"--IdentityProvider.token={token}", "--ServerApp.allow_root=True"),
    ]
    own = {**homes, "IPYTHONDIR": str(directory / "ipython"), "JUPYTER_PREFER_ENV_PATH": "1"}
    with jupyter_server(command, directory, {**inherited, **own}) as (url, _):
        yield Server(url, token, root)


def answers(kernel: str) -> bool:
    try:
        return bool(find_connection_file(kernel))
    except TraindbgError:
        return False


def name() -> str:
    """Of a notebook that nobody else has."""
    return f"train-{secrets.token_hex(4)}.ipynb"


def test_a_kernel_is_listed_with_its_notebook_and_attached_to_by_its_name(server: Server) -> None:
    path = name()
    session = server.open(path)
    found = server.target(session)
    assert found is not None
    assert found.notebook == str(server.root / path)
    assert names_to_type(discover.targets())[found.name] == f"kernel:{path}"
    for target in (f"kernel:{path}", f"kernel:root/{path}", f"kernel:{server.root / path}"):
        with traindbg.attach(target) as job:
            assert [(rank.pid, rank.way) for rank in job.ranks] == [(found.pid, "kernel")]


def test_from_the_directory_of_the_notebook_its_file_is_in_nobodys_way(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = name()
    session = server.open(path)
    monkeypatch.chdir(server.root)
    assert session["kernel"]["id"] in find_connection_file(path)
    assert session["kernel"]["id"] in find_connection_file(f"./{path}")
    (server.root / "other.ipynb").write_text(EMPTY)
    with pytest.raises(UnknownTarget, match=rf"no kernel 'other\.ipynb'.*kernel:{re.escape(path)}"):
        find_connection_file("other.ipynb")


def test_a_renamed_notebook_has_its_new_name(server: Server) -> None:
    before, after = name(), name()
    session = server.open(before)
    server.rename(session, after)
    assert server.notebook(session) == after
    assert session["kernel"]["id"] in find_connection_file(after)
    with pytest.raises(UnknownTarget):
        find_connection_file(before)
    again = server.open(before)
    assert (server.notebook(session), server.notebook(again)) == (after, before), "another one has the old name now"


def test_two_of_a_name_are_told_apart_by_their_ids(server: Server) -> None:
    path = name()
    one, two = server.open(f"a/{path}"), server.open(f"b/{path}")
    with pytest.raises(AmbiguousTarget) as ambiguous:
        traindbg.attach(f"kernel:{path}")
    for session, folder in ((one, "a"), (two, "b")):
        kernel_id = session["kernel"]["id"]
        assert f"kernel:{kernel_id[:8]}" in str(ambiguous.value)
        assert f"{folder}/{path}" in str(ambiguous.value)
        assert kernel_id in find_connection_file(f"{folder}/{path}")
        assert kernel_id in find_connection_file(kernel_id[:8])


def test_a_kernel_that_a_notebook_has_started_is_not_the_notebooks(server: Server) -> None:
    path = name()
    session = server.open(path)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", str(server.root / "kernel-of-its-own.json")]
    start = f"import subprocess\nresult = {{'pid': subprocess.Popen({command!r}, stdin=subprocess.DEVNULL).pid}}"
    started = run_in_kernel(find_connection_file(path), start)["pid"]
    try:
        until(lambda: any(t.pid == started for t in discover.targets()), "it is a target")
        assert b"JPY_SESSION_NAME=" in Path(f"/proc/{started}/environ").read_bytes(), "as its parent has it"
        assert [t.notebook for t in discover.targets() if t.pid == started] == [None]
        assert session["kernel"]["id"] in find_connection_file(path)
    finally:
        os.kill(started, signal.SIGKILL)


def test_this_notebook_is_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/ada/mine.ipynb")
    with pytest.raises(UnknownTarget, match="attach self"):
        find_connection_file("mine.ipynb")
