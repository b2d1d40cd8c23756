"""The requests of the side panel, at a real Jupyter server in a process of its own: who is let in, what is refused, what never blocks."""

from __future__ import annotations

import contextlib
import http.cookiejar
import json
import os
import secrets
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from kernels import Kernel
from support import Program, Start, jupyter_server

from jupyter_traindbg.agent import rendezvous
from jupyter_traindbg.checkpoints import verify

pytestmark = pytest.mark.timeout(300)
LIMIT_S = 60.0


@dataclass
class Server:
    """A running Jupyter server, and whoever asks it."""

    url: str
    token: str
    root: Path
    headers: dict[str, str] = field(default_factory=dict)

    def ask(self, path: str, body: Any = None, *, token: bool = True, **headers: str) -> tuple[int, dict[str, Any]]:
        """Status and answer of a GET, or of a POST where there is a body."""
        request = urllib.request.Request(
            f"{self.url}jupyter-traindbg/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={**({"Authorization": f"token {self.token}"} if token else {}), **headers},
        )
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S) as reply:
                return reply.status, json.loads(reply.read() or b"{}")
        except urllib.error.HTTPError as e:
            with contextlib.suppress(ValueError):
                return e.code, json.loads(e.read())
            return e.code, {}

    def jobs(self) -> dict[str, dict[str, Any]]:
        status, answer = self.ask("jobs")
        assert status == 200, answer
        return {job["name"]: job for job in answer["jobs"]}

    def until(self, what: Callable[[dict[str, dict[str, Any]]], Any]) -> Any:
        """The first true `what` of the list of jobs."""
        deadline = time.monotonic() + LIMIT_S
        while not (found := what(jobs := self.jobs())):
            assert time.monotonic() < deadline, jobs
            time.sleep(0.3)
        return found


@contextlib.contextmanager
def running(directory: Path, *options: str) -> Iterator[Server]:
    root, token = directory / "root", secrets.token_hex(16)
    root.mkdir(parents=True)
    homes = {f"JUPYTER_{name.upper()}_DIR": str(directory / name) for name in ("config", "data", "runtime")}
    command = [
        *(sys.executable, "-m", "jupyter_server", "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", "--no-browser"),
        *(f"--ServerApp.root_dir={root}", f"--IdentityProvider.token={token}", "--ServerApp.allow_root=True"),
        "--ServerApp.jpserver_extensions={'jupyter_traindbg.server': True}",
        *options,
    ]
    with jupyter_server(command, directory, {**os.environ, **homes, "JUPYTER_PREFER_ENV_PATH": "1"}) as (url, _):
        yield Server(url, token, root)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """As it is installed: nobody changes jobs."""
    with running(tmp_path_factory.mktemp("read-only")) as one:
        yield one


@pytest.fixture(scope="module")
def acting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that allows actions."""
    with running(tmp_path_factory.mktemp("acting"), "--TraindbgServer.allow_actions=True") as one:
        yield one


@pytest.fixture
def training(start: Start) -> Program:
    return start("train.py", "--sleep", "0.02")


def has_agent(program: Program) -> bool:
    return rendezvous.card(rendezvous.directory(program.pid, os.getuid())) is not None


POSTS = ["follow", "unfollow", "stacks", "diagnose", "report", "checkpoint/plan", "checkpoint"]


# --- who is let in --------------------------------------------------------------------------------------------------


def test_nobody_looks_without_the_token(server: Server) -> None:
    for path in ("jobs", "tasks/abc"):
        assert server.ask(path, token=False)[0] == 403, path


def test_nobody_asks_without_the_token(server: Server, training: Program) -> None:
    for path in POSTS:
        assert server.ask(path, {"target": str(training.pid)}, token=False)[0] == 403, path
        assert not has_agent(training), path


def test_a_cookie_alone_is_not_enough(server: Server, training: Program) -> None:
    """What another site could make a logged-in browser send: the cookie, without the XSRF token."""
    jar = http.cookiejar.CookieJar()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    browser.open(f"{server.url}api/status?token={server.token}", timeout=LIMIT_S).close()
    browser.open(f"{server.url}jupyter-traindbg/jobs", timeout=LIMIT_S).close()  # the cookie lets it look
    body = json.dumps({"target": str(training.pid), "directory": "x"}).encode()
    for path in POSTS:
        with pytest.raises(urllib.error.HTTPError) as refused:
            browser.open(urllib.request.Request(f"{server.url}jupyter-traindbg/{path}", data=body), timeout=LIMIT_S)
        refused.value.close()
        assert refused.value.code == 403, path
        assert not has_agent(training), path


def test_get_does_nothing_but_look(server: Server) -> None:
    assert {path: server.ask(path)[0] for path in POSTS} == dict.fromkeys(POSTS, 405)


# --- the list -------------------------------------------------------------------------------------------------------


def test_looking_brings_nothing_into_a_process(server: Server, training: Program) -> None:
    for _ in range(5):
        job = server.jobs()[str(training.pid)]
        time.sleep(0.9)
    assert not has_agent(training)
    assert (job["agent"], job["step"], job["loss"], job["followed"]) == (False, None, [], False)
    assert job["kind"] == "process"
    assert job["rss_bytes"] > 50 << 20
    assert "train.py" in job["command"]


def test_an_agent_that_is_there_is_read(server: Server, start: Start) -> None:
    program = start("train.py", "--sleep", "0.02", env={"TRAINDBG": "1"})
    job = server.until(lambda jobs: (j := jobs.get(str(program.pid))) and (j["step"] or 0) > 10 and j)
    assert job["state"]["code"] == "training"
    assert len(job["loss"]) >= 10
    assert all(isinstance(v, float) for v in job["loss"])
    assert (job["agent"], job["followed"]) == (True, False)


def test_followed_goes_on_and_its_end_is_seen(server: Server, training: Program) -> None:
    name = str(training.pid)
    assert server.ask("follow", {"target": name}) == (200, {})
    first = server.until(lambda jobs: jobs[name]["followed"] and jobs[name]["step"])
    server.until(lambda jobs: jobs[name]["step"] > first)
    training.stop()
    end = server.until(lambda jobs: jobs[name]["gone"] and jobs[name])
    assert end["step"] >= first
    server.until(lambda jobs: jobs[name]["state"]["code"] in ("finished", "lost", "detached"))
    assert server.ask("unfollow", {"target": name}) == (200, {})
    assert name not in server.jobs()


def test_letting_go_takes_the_agent_out(server: Server, training: Program) -> None:
    name = str(training.pid)
    server.ask("follow", {"target": name})
    assert has_agent(training)
    server.ask("unfollow", {"target": name})
    deadline = time.monotonic() + LIMIT_S
    while has_agent(training):
        assert time.monotonic() < deadline
        time.sleep(0.1)


# --- questions ------------------------------------------------------------------------------------------------------


def test_stacks_and_diagnosis(server: Server, start: Start) -> None:
    hung = start("hung_after_steps.py")
    status, stacks = server.ask("stacks", {"target": str(hung.pid)})
    assert status == 200
    assert "hung_after_steps.py" in stacks["text"]
    assert not has_agent(hung)
    status, found = server.ask("diagnose", {"target": str(hung.pid)})
    assert status == 200
    assert found["findings"][0]["next_steps"]


def test_the_server_answers_while_it_diagnoses(server: Server, training: Program) -> None:
    answers: list[tuple[int, dict[str, Any]]] = []
    diagnosis = threading.Thread(target=lambda: answers.append(server.ask("diagnose", {"target": str(training.pid)})))
    diagnosis.start()
    meanwhile = 0
    while diagnosis.is_alive():
        request = urllib.request.Request(f"{server.url}api/status", headers={"Authorization": f"token {server.token}"})
        urllib.request.urlopen(request, timeout=LIMIT_S).close()
        meanwhile += diagnosis.is_alive()
        time.sleep(0.02)
    assert [status for status, _ in answers] == [200]
    assert meanwhile > 2, "other requests had to wait for the diagnosis"  # it may begin after the second one


def test_a_report_lies_in_the_servers_directory(server: Server, training: Program) -> None:
    status, report = server.ask("report", {"target": str(training.pid)})
    assert status == 200, report
    assert (server.root / report["path"]).stat().st_size > 1000
    assert (server.root / report["index"]).read_text().startswith("<!DOCTYPE html>")


# --- what a link opens ----------------------------------------------------------------------------------------------


def opened(server: Server, what: str, **of: str) -> tuple[int, dict[str, Any]]:
    return server.ask(f"{what}?{urllib.parse.urlencode(of)}")


def test_a_file_of_the_servers_directory_is_opened_as_one_and_a_source_elsewhere_is_read(
    server: Server, tmp_path: Path
) -> None:
    own = server.root / "my project" / "train.py"
    own.parent.mkdir(exist_ok=True)
    own.write_text("x = 1\n")
    link = tmp_path / "link.py"
    link.symlink_to(own)
    for name in (own, link):
        assert opened(server, "place", file=str(name)) == (200, {"opens": "file", "path": "my project/train.py"})
    status, source = opened(server, "place", file=threading.__file__)
    assert (status, source["opens"], source["name"]) == (200, "text", "threading.py")
    assert "class Condition" in source["text"]
    hidden = server.root / ".hidden.py"
    hidden.write_text("y = 2\n")
    assert opened(server, "place", file=str(hidden))[1]["opens"] == "text", "the server does not serve hidden files"


@pytest.mark.parametrize("told", ["{root}/cells.ipynb", "cells.ipynb"])
def test_the_notebook_of_a_cell_is_found_by_its_kernel(server: Server, tmp_path: Path, told: str) -> None:
    (server.root / "cells.ipynb").write_text("{}")
    environment = {"JPY_SESSION_NAME": told.format(root=server.root)}
    with contextlib.closing(Kernel(sys.executable, tmp_path, secrets.token_hex(8), environment)) as kernel:
        file = kernel.value("import sys; print(sys._getframe().f_code.co_filename)").strip()
        assert opened(server, "place", file=file) == (200, {"opens": "notebook", "path": "cells.ipynb"})
    status, refusal = opened(server, "place", file=file.replace(str(kernel.pid), "999999999"))
    assert status == 404
    assert "999999999" in refusal["message"]


def test_what_is_no_source_is_not_read(server: Server, tmp_path: Path) -> None:
    secret, pipe, folder = tmp_path / "id_ed25519", tmp_path / "pipe.py", tmp_path / "folder.py"
    secret.write_text("PRIVATE KEY")
    os.mkfifo(pipe)
    folder.mkdir()
    cases = [
        (str(secret), 400),
        ("/etc/passwd", 400),
        (f"{server.root}/../id_ed25519", 400),
        (str(pipe), 404),
        (str(folder), 404),
        (str(tmp_path / "not_here.py"), 404),
        ("/tmp/a\0b.py", 404),
        ("train.py", 400),
        ("", 400),
    ]
    for file, expected in cases:
        status, refusal = opened(server, "place", file=file)
        assert (status, sorted(refusal)) == (expected, ["error", "message", "next_step"]), file
    assert server.ask("place?file=/etc/hostname.py", token=False)[0] == 403


def test_a_page_of_the_docs_is_shown_by_its_section(server: Server) -> None:
    status, page = opened(server, "page", reference="docs/failures.md#cuda_oom")
    assert (status, page["title"]) == (200, "cuda_oom")
    assert page["markdown"].startswith("## cuda_oom")
    for reference in ("docs/no_such.md", "docs/../pyproject.toml", "https://pytorch.org", ""):
        assert opened(server, "page", reference=reference)[0] == 404, reference


def test_what_is_no_job_of_the_list_is_refused(server: Server) -> None:
    cases: list[tuple[Any, int]] = [
        ({"target": "999999999"}, 404),
        ({"target": "/etc/passwd"}, 404),
        ({"target": "ray:auto"}, 404),
        ({"target": 5}, 400),
        ({"target": ""}, 400),
        ({"target": "x" * 5000}, 400),
        (["target"], 400),
        ({}, 400),
    ]
    for body, status in cases:
        got, answer = server.ask("follow", body)
        assert got == status, str(body)[:99]
        assert answer["message"], str(body)[:99]
        assert answer["next_step"], str(body)[:99]


# --- actions --------------------------------------------------------------------------------------------------------


def test_read_only_refuses_a_checkpoint_and_says_how_to_allow_it(server: Server, training: Program) -> None:
    status, answer = server.ask("checkpoint", {"target": str(training.pid), "directory": "saved"})
    assert status == 403
    assert "TraindbgServer.allow_actions" in answer["next_step"]
    assert server.ask("jobs")[1]["actions"]["allowed"] is False
    assert list(server.root.glob("saved*")) == []
    assert server.ask("checkpoint/plan", {"target": str(training.pid)})[0] == 200


def test_a_checkpoint_where_it_is_allowed(acting: Server, training: Program, tmp_path: Path) -> None:
    name, place = str(training.pid), tmp_path / "saved"
    assert acting.ask("jobs")[1]["actions"] == {"allowed": True}
    status, plan = acting.ask("checkpoint/plan", {"target": name, "directory": str(place)})
    assert status == 200, plan
    assert plan["directory"] == str(place)
    assert plan["free_bytes"] > plan["bytes"] > 0
    assert not place.exists()
    status, begun = acting.ask("checkpoint", {"target": name, "directory": str(place)})
    assert status == 200, begun
    done = _ended(acting, begun["task"])
    assert done["state"] == "done", done
    assert done["result"]["verified"] is True
    assert verify(str(place)).findings == ()
    again = _ended(acting, acting.ask("checkpoint", {"target": name, "directory": str(place)})[1]["task"])
    assert again["state"] == "failed", "an older checkpoint was overwritten"
    assert again["error"]["next_step"]
    assert acting.ask("tasks/unknown")[0] == 404


def _ended(server: Server, task: str) -> dict[str, Any]:
    deadline = time.monotonic() + LIMIT_S
    while (now := server.ask(f"tasks/{task}")[1])["state"] == "running":
        assert time.monotonic() < deadline, now
        time.sleep(0.1)
    return now


# --- what it costs where nobody asks ----------------------------------------------------------------------------------------


def test_a_server_that_starts_loads_nothing_heavy_for_us() -> None:
    """The extension's own part of a server's start: no numpy, no torch, no IPython before the first request."""
    code = (
        "import jupyter_server.serverapp, sys; before = set(sys.modules)\n"
        "import jupyter_traindbg.server; jupyter_traindbg.server._jupyter_server_extension_points()\n"
        "print(sorted({m.split('.')[0] for m in set(sys.modules) - before} & "
        "{'numpy', 'torch', 'ray', 'IPython', 'matplotlib', 'anywidget', 'ipywidgets'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
