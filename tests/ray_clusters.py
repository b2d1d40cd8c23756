"""Real Ray clusters for tests, on 127.0.0.1 and of processes that we know.

What tests share of them: ray_shared.py. By hand, or in a benchmark::

    with start_cluster(num_cpus=4, nodes=[2, 2], token=True, dashboard=True, client=False, log_monitor=False, **words) as cluster: ...

``nodes`` are the CPUs of further simulated nodes; ``words`` are for the head and go to Ray's RayParams (``resources={"extra": 2}``,
``memory=``, ``num_gpus=``, ``_system_config=``); ``env`` is added to the environment of all of the cluster's processes; ``before`` are
words in front of the command of those of its nodes that share this machine's process numbers.

    cluster.gcs           "127.0.0.1:PORT"                cluster.dashboard  "http://127.0.0.1:PORT" or ""
    cluster.client        "ray://127.0.0.1:PORT" or ""    cluster.token      "" without authentication
    cluster.env           what a client's environment needs: RAY_ADDRESS, the token; give it to programs, `use` sets it here
    cluster.use(monkeypatch)                              this process as a client; and no other cluster is found
    cluster.session_dir   cluster.nodes[0].pids["raylet"|"gcs_server"|"dashboard"], cluster.nodes[1].node_id
    cluster.add_host(num_cpus=1, **words) -> Node         a node with process numbers of its own
    cluster.add_node(num_cpus=1, **words) -> Node         cluster.kill_node(node)      cluster.kill_dashboard()
    cluster.submit("ray_collector.py", "--workers", "8", ready="Collecting", env={}, runtime_env={}) -> Submitted
    cluster.drive("ray_troubles.py", "died", ready="READY") -> Driven     the same without a submission
    cluster.get("/api/v0/actors?detail=1&limit=10000")    the dashboard's JSON answer
    cluster.state("actors", job_id=...)                   the rows of the state API
    cluster.processes()   {pid: command line} of everything that runs for it, workers and clients included
    cluster.stop()        ends all by pid and raises AssertionError where a process or a directory is left

    job.id  "raysubmit_..." (of a driven one "02000000")   job.output()   job.wait_for(text, timeout_s)   job.status()   job.stop()
    job.wait(timeout_s) -> status   job.said("stuck")  the words of the line that begins so: ["stuck", "6", "4711"]
    submitted.job_id  "02000000"   submitted.driver_pid

    until(condition, what, timeout_s)   waits for anything else      line_of("ray_collector.py", "DEADLOCK")   the line with that comment

Scenes: programs/ray_collector.py, ray_train_two.py, ray_async.py; their docstrings say what they print and their options.
"""

from __future__ import annotations

import abc
import contextlib
import importlib.util
import json
import os
import random
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from support import PROGRAMS, need

from jupyter_traindbg.outside import procfs

T = TypeVar("T")
LOOPBACK = "127.0.0.1"
ONLY_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Without this Ray takes 127.0.0.1 for this machine's outer address, and listens to the world, on Linux."""
OBJECT_STORE_BYTES = 80_000_000
START_S = 150
"""How long a node may take to come up, on a machine that may be busy; Ray's own limits are shorter."""
QUICK_IMPORT = str(PROGRAMS / "quick_import")
"""On the PYTHONPATH of everything that imports ray: see there."""
PATIENCE = {
    "RAY_raylet_start_wait_time_s": str(START_S),
    "RAY_agent_register_timeout_ms": f"{START_S}000",
    "RAY_worker_register_timeout_seconds": "180",
    "RAY_DASHBOARD_STARTUP_TIMEOUT_S": str(START_S),
    "RAY_worker_niceness": "0",  # workers, which Ray makes nice, get their share
}
NEWS = {"NODE_STATS_UPDATE_INTERVAL_SECONDS": "3"}
"""How often nodes are asked what their workers have done: every 15 s otherwise, for which tests would wait."""
QUICK_DEATHS = {"RAY_health_check_initial_delay_ms": "1000", "RAY_health_check_period_ms": "1000"}
"""For the `env` of a cluster that is to lose a node: the others know of it after seconds."""
AGENT_PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port", "runtime_env_agent_port")
"""Given to every node: see ray_nodes.py."""
RAY_TEST_S = 300
"""The limit of a test, with the start of what it shares."""
HAVE_RAY = importlib.util.find_spec("ray") is not None


def need_ray() -> None:
    need("Ray (pip install 'ray[default,train]')", HAVE_RAY)


def living_helpers(cluster: Cluster) -> list[dict[str, Any]]:
    """Our helper actors as Ray tells of them, which is some time after their processes' end."""
    return [a for a in cluster.state("actors") if a["class_name"] == "TraindbgHelper" and a["state"] != "DEAD"]


def line_of(program: str, mark: str) -> int:
    """The number of the line of tests/programs/PROGRAM that ends with the comment ``# MARK``."""
    lines = (PROGRAMS / program).read_text().splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {mark}")]
    return found


def until(condition: Callable[[], T], what: str, timeout_s: float = 30.0) -> T:
    """What `condition` returns, once that is true."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not in {timeout_s} s: {what}")
        time.sleep(0.05)
    return found


def answers(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex((LOOPBACK, port)) == 0


def free_ports(count: int) -> list[int]:
    """Ports on loopback that nobody used a moment ago, all different. Not of those that the kernel gives to whoever wants any: by the
    time they are bound one of them may be taken, were it by our own asking whether they answer.
    """
    found: set[int] = set()
    while len(found) < count:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind((LOOPBACK, port))
            found.add(port)
    return list(found)


@dataclass(frozen=True)
class Node:
    """A simulated node: its id and the pids of its processes by Ray's names for them."""

    node_id: str
    pids: Mapping[str, int]


class Job(abc.ABC):
    """A program that runs on a cluster."""

    def __init__(self, cluster: Cluster, log: Path) -> None:
        self.cluster, self.log = cluster, log

    @property
    @abc.abstractmethod
    def id(self) -> str:
        """What it goes by in ``ray:ID@ADDRESS``."""

    @abc.abstractmethod
    def status(self) -> str:
        """In Ray's words: ``RUNNING``, ``SUCCEEDED`` ..."""

    @abc.abstractmethod
    def stop(self, timeout_s: float = 60.0) -> None:
        """End it, and wait for that."""

    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def wait_for(self, text: str, timeout_s: float = 90.0) -> None:
        """Wait until the job's driver has printed `text`."""
        deadline = time.monotonic() + timeout_s
        ended = False
        while text not in self.output():
            if ended or time.monotonic() > deadline:
                raise AssertionError(f"no {text!r}; the job is {self.status()}:\n{self.output()}")
            ended = self.status() in ("SUCCEEDED", "FAILED", "STOPPED")
            time.sleep(0.1)

    def said(self, first: str) -> list[str]:
        """The words of the line of its output that begins with `first`."""
        (found,) = [line.split() for line in self.output().splitlines() if line.startswith(first + " ")]
        return found

    def wait(self, timeout_s: float = 60.0) -> str:
        """Wait for the job's end; its status."""
        until(lambda: self.status() in ("SUCCEEDED", "FAILED", "STOPPED"), f"the end of {self.id}", timeout_s)
        return self.status()


AnyJob = TypeVar("AnyJob", bound=Job)


class Submitted(Job):
    """A job that was submitted to a cluster."""

    def __init__(self, cluster: Cluster, submission_id: str) -> None:
        super().__init__(cluster, cluster.session_dir / "logs" / f"job-driver-{submission_id}.log")
        self._id = submission_id

    @property
    def id(self) -> str:
        return self._id

    def about(self) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.get(f"/api/jobs/{self.id}")
        return found

    def status(self) -> str:
        return str(self.about()["status"])

    @property
    def job_id(self) -> str:
        return str(until(lambda: self.about()["job_id"], "a job id"))

    @property
    def driver_pid(self) -> int:
        return int(until(lambda: self.about()["driver_info"], "a driver")["pid"])

    def stop(self, timeout_s: float = 60.0) -> None:
        self.cluster.get(f"/api/jobs/{self.id}/stop", data={})
        self.wait(timeout_s)


class Driven(Job):
    """A program that connects to a cluster by itself, without the supervisor of a submission, which costs 2 s of a core."""

    def __init__(self, cluster: Cluster, command: Sequence[str]) -> None:
        super().__init__(cluster, cluster.session_dir / "logs" / f"driven-{secrets.token_hex(4)}.log")
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**inherited, **cluster.env}
            )

    @property
    def id(self) -> str:
        return str(until(self._told, "the cluster to tell of the driver")["job_id"])

    def _told(self) -> dict[str, Any] | None:
        jobs = [job for job in self.cluster.get("/api/jobs/") if job["type"] == "DRIVER"]
        return next((job for job in jobs if int(job["driver_info"]["pid"]) == self._process.pid), None)

    def status(self) -> str:
        ended = self._process.poll()
        return "RUNNING" if ended is None else "FAILED" if ended else "SUCCEEDED"

    def stop(self, timeout_s: float = 60.0) -> None:
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        self._process.kill()
        self._process.wait(timeout_s)


class Cluster:
    """A running cluster; the module's docstring lists what it can do. Use `start_cluster`."""

    def __init__(
        self,
        *,
        dashboard: bool,
        client: bool,
        token: bool,
        env: Mapping[str, str],
        before: Sequence[str],
        words: dict[str, Any],
    ):
        self.directory = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))  # short: it holds Unix sockets
        port, client_port = free_ports(2)
        self.dashboard = f"http://{LOOPBACK}:{port}" if dashboard else ""
        self.client = f"ray://{LOOPBACK}:{client_port}" if client else ""
        self.token = secrets.token_hex(32) if token else ""
        auth = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token} if token else {}
        self.nodes: list[Node] = []
        self.stopped = False
        python_path = [QUICK_IMPORT, env.get("PYTHONPATH"), os.environ.get("PYTHONPATH")]
        quick = {"PYTHONPATH": os.pathsep.join(filter(None, python_path))}
        self._environment = {**auth, **env, **quick}
        self._keepers: list[subprocess.Popen[str]] = []
        try:
            self._keep(*before)
            self._words = {"node_ip_address": LOOPBACK, "temp_dir": str(self.directory), "num_gpus": 0}
            self._words |= {"object_store_memory": OBJECT_STORE_BYTES, "include_log_monitor": False}
            ports = {"dashboard_port": port, "ray_client_server_port": client_port if client else None}
            told = self._start({"include_dashboard": dashboard, "dashboard_host": LOOPBACK, **ports, **words})
        except BaseException:
            self.stop()
            raise
        self.gcs: str = told["gcs"]
        self.session_dir = Path(told["session_dir"])
        self.env = {"RAY_ADDRESS": self.gcs, "RAY_TMPDIR": str(self.directory), **ONLY_LOOPBACK, **auth, **quick}

    def _keep(self, *before: str) -> None:
        """Start a keeper of nodes; `before` are words in front of its command."""
        ours = {
            **ONLY_LOOPBACK,
            "RAY_TMPDIR": str(self.directory),  # inherited by all: `processes` knows them by it
            "RAY_USAGE_STATS_ENABLED": "0",
            **PATIENCE,
            **NEWS,
            "OMP_NUM_THREADS": "1",
        }
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
        with (self.directory / "keeper.log").open("ab") as log:
            keeper = subprocess.Popen(
                [*before, sys.executable, "-u", str(PROGRAMS / "ray_nodes.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**inherited, **ours, **self._environment},
                start_new_session=True,
            )
        self._keepers.append(keeper)

    def _start(self, words: Mapping[str, Any]) -> dict[str, Any]:
        keeper = self._keepers[-1]
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        ports = dict(zip(AGENT_PORTS, free_ports(len(AGENT_PORTS)), strict=True))
        keeper.stdin.write(json.dumps({"start": {**self._words, **ports, **words}}) + "\n")
        keeper.stdin.flush()
        line = keeper.stdout.readline()
        if not line:
            logs = [self.directory / "keeper.log", *self.directory.glob("session_2*/logs/raylet*.*")]
            said = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
            raise AssertionError(
                "\n".join(["the node did not start", *(line for line in said if "Error" in line or " C " in line)])
            )
        told: dict[str, Any] = json.loads(line)
        self.nodes.append(Node(told["node_id"], told["pids"]))
        until(lambda: all(answers(port) for port in ports.values()), "the node's agents", START_S)
        return told

    # --- talking to it ---------------------------------------------------------------------------------------------

    def use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make this process a client of this cluster, and of no other."""
        for name in [name for name in os.environ if name.startswith("RAY_")]:
            monkeypatch.delenv(name)
        for name, value in self.env.items():
            monkeypatch.setenv(name, value)

    def get(self, path: str, data: Mapping[str, Any] | None = None, timeout_s: float = 30.0) -> Any:
        """The dashboard's answer, decoded; with `data` it is a POST."""
        headers = {"Content-Type": "application/json"} | (
            {"Authorization": f"Bearer {self.token}"} if self.token else {}
        )
        body = None if data is None else json.dumps(data).encode()
        request = urllib.request.Request(self.dashboard + path, data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.code} {error.read().decode(errors='replace')[:1000]}") from None

    def state(self, kind: str, **filters: str) -> list[dict[str, Any]]:
        """The rows of ``/api/v0/KIND``, with all their details."""
        words = "".join(f"&filter_keys={k}&filter_predicates=%3D&filter_values={v}" for k, v in filters.items())
        answer = self.get(f"/api/v0/{kind}?detail=1&limit=10000{words}")
        rows: list[dict[str, Any]] = answer["data"]["result"]["result"]
        return rows

    def submit(
        self,
        program: str,
        *args: str,
        ready: str | None = None,
        env: Mapping[str, str] | None = None,
        runtime_env: Mapping[str, Any] | None = None,
        timeout_s: float = 90.0,
    ) -> Submitted:
        """Submit tests/programs/PROGRAM as a job; with `ready`, wait until it has printed that.

        ``env`` is for its driver alone: with environment variables in the ``runtime_env`` every worker would have to be started anew.
        """
        words = [
            "env",
            *(f"{k}={v}" for k, v in (env or {}).items()),
            sys.executable,
            "-u",
            str(PROGRAMS / program),
            *args,
        ]
        asked = {"entrypoint": shlex.join(words), "runtime_env": dict(runtime_env or {})}
        return _once(ready, Submitted(self, self._submitted(asked, time.monotonic() + timeout_s)), timeout_s)

    def drive(self, program: str, *args: str, ready: str | None = None, timeout_s: float = 90.0) -> Driven:
        """Run tests/programs/PROGRAM as a driver of its own, for tests to which it is all the same; otherwise as `submit`."""
        return _once(ready, Driven(self, [sys.executable, "-u", str(PROGRAMS / program), *args]), timeout_s)

    def _submitted(self, asked: Mapping[str, Any], ends: float) -> str:
        while True:
            try:
                return str(self.get("/api/jobs/", data=asked, timeout_s=ends - time.monotonic())["submission_id"])
            except AssertionError as refused:  # the dashboard hears of a new node's agent a little late
                if "No available agent" not in str(refused) or time.monotonic() > ends - 1:
                    raise
                time.sleep(0.5)

    # --- changing it -----------------------------------------------------------------------------------------------

    def add_node(self, num_cpus: int = 1, **words: Any) -> Node:
        self._start({"num_cpus": num_cpus, **words})
        return self.nodes[-1]

    def add_host(self, num_cpus: int = 1, **words: Any) -> Node:
        """A node whose processes have numbers of their own, as in a container or on another machine; further nodes are there, too.

        Its pids are as it sees them. Needs root.
        """
        self._keep("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "--")
        self._start({"num_cpus": num_cpus, "gcs_address": self.gcs, **words})
        return self.nodes[-1]

    def kill_node(self, node: Node) -> None:
        """As if the machine had lost its power: all of the node's processes at once."""
        kill([node.pids["raylet"], *(p.pid for p in procfs.descendants(node.pids["raylet"]))])

    def kill_dashboard(self) -> None:
        """End the dashboard with everything it started; the cluster goes on."""
        pid = self.nodes[0].pids["dashboard"]
        kill([pid, *(p.pid for p in procfs.descendants(pid))])

    def processes(self) -> dict[int, str]:
        """Command lines of everything that carries this cluster's directory in its environment, but for the caller."""
        mark = f"RAY_TMPDIR={self.directory}\0".encode()
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes() + b"\0" and int(folder.name) != os.getpid():
                    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    found[int(folder.name)] = command.strip()
        return found

    def stop(self, timeout_s: float = 30.0) -> None:
        """End everything. Raises AssertionError where something would be left."""
        if self.stopped:
            return
        self.stopped = True
        started = {p for keeper in self._keepers for p in procfs.descendants(keeper.pid)}
        kill([keeper.pid for keeper in self._keepers])
        for keeper in self._keepers:
            for pipe in (keeper.stdin, keeper.stdout):
                assert pipe is not None
                with contextlib.suppress(OSError):
                    pipe.close()
            keeper.wait(timeout_s)
        deadline = time.monotonic() + timeout_s
        while left := {**self.processes(), **_alive(started)}:
            assert time.monotonic() < deadline, f"processes are left: {left}"
            kill(list(left))
            time.sleep(0.05)
        shutil.rmtree(self.directory)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _once(ready: str | None, job: AnyJob, timeout_s: float) -> AnyJob:
    """The job, once it has printed `ready`. One that does not is ended: it would keep its resources from the tests that follow."""
    if ready is not None:
        try:
            job.wait_for(ready, timeout_s)
        except BaseException:
            job.stop()
            raise
    return job


def _alive(started: Iterable[procfs.Process]) -> dict[int, str]:
    """Those that still run: an agent's title is written over its environment, by which `processes` would know it."""
    now = ((old, procfs.stat(old.pid)) for old in started)
    return {p.pid: p.comm for old, p in now if p and p.start_ticks == old.start_ticks and p.state not in "ZX"}


def kill(pids: Sequence[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def start_cluster(
    num_cpus: int = 4,
    *,
    nodes: Sequence[int] = (),
    dashboard: bool = True,
    client: bool = False,
    token: bool = False,
    env: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
    **words: Any,
) -> Cluster:
    """Start a cluster; the caller stops it, best by ``with``."""
    cluster = Cluster(
        dashboard=dashboard,
        client=client,
        token=token,
        env=env or {},
        before=before,
        words={"num_cpus": num_cpus, **words},
    )
    try:
        for cpus in nodes:
            cluster.add_node(cpus)
    except BaseException:
        cluster.stop()
        raise
    return cluster
