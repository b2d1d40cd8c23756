"""A Ray Train job of two gloo workers on a real cluster, attached to as a job: from here, and through helpers as on other machines."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ray_clusters import RAY_TEST_S, Cluster, Submitted, line_of, living_helpers, until
from support import Start, need

from jupyter_traindbg.attach.ray import hosts as hosts_module
from jupyter_traindbg.attach.ray.hosts import HELPERS, open_hosts
from jupyter_traindbg.checkpoints import verify
from jupyter_traindbg.errors import CannotAttach, NotPermitted, TargetGone, UsageError
from jupyter_traindbg.job import attach, connect
from jupyter_traindbg.model import available
from jupyter_traindbg.outside import procfs
from jupyter_traindbg.outside.raystate import read, resolve
from jupyter_traindbg.ray.job import RayJob
from jupyter_traindbg.verbose import telling

pytestmark = [pytest.mark.timeout(RAY_TEST_S)]
PROGRAM = "ray_train_two.py"
HELPER = "ray::TraindbgHelper"
PATIENT_S = 60.0
LONG_S = 600.0
"""The deadline of a call that is to come back long before: longer than its test may take."""
"""On a busy machine the first helper takes its time."""


@pytest.fixture
def client(ray_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    ray_cluster.use(monkeypatch)
    return ray_cluster


@pytest.fixture
def training(ray_training: tuple[Submitted, Path], client: Cluster) -> Submitted:
    """Trains on after the test."""
    return ray_training[0]


@pytest.fixture
def out(ray_training: tuple[Submitted, Path]) -> Path:
    return ray_training[1]


@pytest.fixture(autouse=True)
def no_hosts_kept() -> Iterator[None]:
    """What this process keeps from one call to the next would be taken for another one's helpers."""
    yield
    for hosts in list(hosts_module._known.values()):
        hosts.end()


@pytest.fixture(params=["from here", "through helpers"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "through helpers":
        monkeypatch.setenv(HELPERS, "always")
    return str(request.param)


def target(cluster: Cluster, job: Submitted) -> str:
    return f"ray:{job.id}@{cluster.gcs}"


def written(out: Path, rank: int) -> list[list[str]]:
    """What the worker has written: step, loss, learning rate."""
    lines = (out / f"rank-{rank}").read_text().splitlines()
    return [line.split() for line in lines if line.count(" ") == 2]


def goes_on(out: Path) -> bool:
    before = [len(written(out, rank)) for rank in (0, 1)]
    until(lambda: all(len(written(out, rank)) > b + 2 for rank, b in enumerate(before)), "further steps", PATIENT_S)
    return True


def helpers(cluster: Cluster) -> list[int]:
    return [pid for pid, command in cluster.processes().items() if command.startswith(HELPER)]


@pytest.mark.flaky(reruns=0)  # after a first try the training is another one
def test_a_visit_changes_nothing_and_a_change_comes_at_the_same_step_of_both(
    client: Cluster, training: Submitted, out: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what the training itself computes: attached through helpers, asked, left, and given another learning rate from the command
    line, its losses are bit-identical to those of a run without Ray and without us, whose own code changes the rate at that step.

    Of the tests that change the training this one comes first: the others change it for good.
    """
    with monkeypatch.context() as patch:
        patch.setenv(HELPERS, "always")
        with attach(target(client, training), timeout=PATIENT_S) as visited:
            visited.grads(timeout=PATIENT_S)
            visited.lr(timeout=PATIENT_S)
            visited.memory(timeout=PATIENT_S)
            visited.stacks(timeout=PATIENT_S)
            visited.threads(timeout=PATIENT_S)
            assert [rank.steps for rank in visited.profile(steps=3, timeout=PATIENT_S).ranks] == [3, 3]
    assert goes_on(out)

    command = [sys.executable, "-m", "jupyter_traindbg.cli", "lr", target(client, training), "--timeout", "30"]
    done = subprocess.run([*command, "--json", "0.001"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    ranks = json.loads(done.stdout)["ranks"]
    assert [r["rank"] for r in ranks] == [0, 1]
    (step,) = {r["optimizer_step"] for r in ranks}
    steps = step + 20
    until(lambda: len(written(out, 0)) > steps < len(written(out, 1)), "steps after the change", PATIENT_S)
    subprocess.run([*command, "--release"], timeout=120, check=True)

    alone = client.session_dir / "alone"
    alone.mkdir()
    words = ["--alone", "--steps", str(steps), "--sleep", "0", "--lr-at", str(step), "0.001"]
    assert start(PROGRAM, "--out", str(alone), *words, ready=None).wait(PATIENT_S) == 0
    for rank in (0, 1):
        assert [line[:2] for line in written(out, rank)[:steps]] == [line[:2] for line in written(alone, rank)]


def test_what_is_done_in_the_cluster_is_told_here(
    client: Cluster, training: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HELPERS, "always")
    lines: list[str] = []
    with telling(lines.append), attach(target(client, training), timeout=PATIENT_S):
        pass
    for part in (
        "the broker: .* joined the cluster",
        "the broker: .* the helper on node .* is up",
        r"node .*: .* entered \(",
    ):
        assert [line for line in lines if re.search(part, line)], part


def test_every_question_and_change_works(
    client: Cluster, training: Submitted, out: Path, way: str, tmp_path: Path
) -> None:
    with connect(target(client, training), timeout=PATIENT_S) as job:
        assert isinstance(job, RayJob)
        assert [job.who[0], job.who[1], job.who[2]] == ["rank 0", "rank 1", "driver"]

        stacks = job.stacks(timeout=PATIENT_S)
        lines = {f.line for p in stacks.processes for t in p.threads for f in t.frames if f.file.endswith(PROGRAM)}
        assert line_of(PROGRAM, "PAUSE") in lines or lines
        assert {p.rank for p in stacks.processes} >= set(job.who)
        threads = job.threads(timeout=PATIENT_S)
        assert {p.rank: p.worker for p in threads.processes if p.role == "rank"} == job.who
        assert all(any(thread.python for thread in p.threads) for p in threads.processes if p.role == "rank")

        job.enter(PATIENT_S)
        assert [(r.rank, r.world_size, r.agent) for r in job.ranks[:2]] == [(0, 2, True), (1, 2, True)]
        rates = job.lr(timeout=PATIENT_S)
        assert [r.rank for r in rates.ranks] == [0, 1]
        assert rates.ranks[0].optimizers[0].groups[0].lr == 1e-2
        assert [len(r.grads) for r in job.grads(timeout=PATIENT_S).ranks] == [4, 4]
        until(lambda: all(r.steps for r in job.steps(timeout=PATIENT_S).ranks), "recorded steps")
        memory = job.memory(timeout=PATIENT_S)
        assert [r.rank for r in memory.ranks] == [0, 1]
        assert all(r.rss_bytes > 1e8 for r in memory.ranks)
        collectives = job.collectives(timeout=PATIENT_S)
        assert (collectives.world_size, tuple(collectives.missing), collectives.findings) == (2, (), ())
        assert job.environ(timeout=PATIENT_S).ranks == (0, 1)
        assert job.gpu(timeout=PATIENT_S).devices is not None

        changed = job.set_lr(1e-3, timeout=PATIENT_S)
        assert changed.same_step
        assert {r.state for r in changed.ranks} == {"verified"}
        (step,) = {r.optimizer_step for r in changed.ranks}
        assert available(step)
        assert job.set_weight_decay(0.5, timeout=PATIENT_S).same_step
        assert job.clip(1.0, timeout=PATIENT_S).same_step
        assert job.release(timeout=PATIENT_S).same_step

        saved = tmp_path / "saved"
        made = job.checkpoint(str(saved), timeout=PATIENT_S)
        assert (made.world_size, list(made.missing_ranks)) == (2, [])
        assert saved.is_dir()
        assert any("written on node" in note for note in made.notes) == (way == "through helpers")
        assert goes_on(out)
        pids = [pid for there in job._everywhere(job._placed, "entered", PATIENT_S).values() for pid in there]
        assert {job.ranks[0].pid, job.ranks[1].pid} <= set(pids), "and whoever an earlier test has entered"
        assert job.detach(force=True) == len(pids)
    assert goes_on(out)


NOTEBOOK = """
import sys, time
from jupyter_traindbg.job import attach
job = attach(sys.argv[1], timeout=60)
print("attached", len(job.ranks), flush=True)
time.sleep(600)
"""


def test_after_sigkill_of_the_notebook_no_helper_is_left_and_the_job_goes_on(
    client: Cluster, training: Submitted, out: Path
) -> None:
    environment = {**os.environ, HELPERS: "always"}
    command = [sys.executable, "-c", NOTEBOOK, target(client, training)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as notebook:
        assert notebook.stdout is not None
        assert notebook.stdout.readline().startswith("attached")
        assert helpers(client)
        (broker,) = [p.pid for p in procfs.descendants(notebook.pid)]
        (ours, *_) = [
            a for a in client.state("actors") if a["class_name"] == "TraindbgHelper" and a["state"] == "ALIVE"
        ]
        assert not ours["required_resources"]
        notebook.kill()
    until(lambda: not helpers(client), "the end of the helpers", 10)
    until(lambda: (p := procfs.stat(broker)) is None or p.state in "ZX", "the end of the broker", 10)
    until(lambda: not list(client.session_dir.glob("traindbg-helper-*")), "the end of what they had on disk", 10)
    until(
        lambda: not living_helpers(client), "Ray's word that they are dead, which comes after their processes' end", 10
    )
    assert [t for t in client.state("tasks") if "Traindbg" in str(t["name"])] == []
    assert goes_on(out)
    assert training.status() == "RUNNING"


def test_relative_paths_are_refused_where_the_node_is_another_machine(
    client: Cluster, training: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HELPERS, "always")
    with connect(target(client, training), timeout=PATIENT_S) as job, pytest.raises(UsageError, match="is relative"):
        job.checkpoint("saved", timeout=PATIENT_S)


def test_trainers_on_several_hosts_change_at_the_same_step(
    ray_start: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They agree at the store of their process group. A checkpoint is of all of them where they share a directory, else of rank 0 alone."""
    need("root and unshare, for a host of its own", os.geteuid() == 0 and shutil.which("unshare") is not None)
    cluster = ray_start(num_cpus=1)
    cluster.add_host(1)
    cluster.use(monkeypatch)
    out = cluster.session_dir / "losses"
    out.mkdir()
    training = cluster.submit(PROGRAM, "--out", str(out), ready="READY", timeout_s=150)
    with connect(target(cluster, training), timeout=PATIENT_S) as job:
        assert isinstance(job, RayJob)
        job.enter(PATIENT_S)
        changed = job.set_lr(1e-3, timeout=PATIENT_S)
        assert {r.state for r in changed.ranks} == {"verified"}
        (step,) = {r.optimizer_step for r in changed.ranks}
        assert available(step)
        for rank in job.steps(timeout=PATIENT_S).ranks:
            used = {s.optimizer_step: s.lr[0] for s in rank.steps}
            assert (used[step - 1], used[step]) == (1e-2, 1e-3)
        assert len(set(job._host_of)) == 2
        check_checkpoints(cluster, job, out)
        assert goes_on(out)
        gone = job.detached(timeout=PATIENT_S)
        assert (gone.processes, [r.setting for r in gone.released], gone.note) == (2, ["lr"], "")
    assert goes_on(out)
    it_ends_although_somebody_is_attached(training, monkeypatch)


def it_ends_although_somebody_is_attached(training: Submitted, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv(HELPERS, "always")
        with attach(target(training.cluster, training), timeout=PATIENT_S) as attached:
            training.stop()
            with pytest.raises(TargetGone):
                attached.lr(timeout=PATIENT_S)


def check_checkpoints(cluster: Cluster, job: RayJob, out: Path) -> None:
    with pytest.raises(UsageError, match="written on 2 hosts"):
        job.checkpoint("saved", timeout=PATIENT_S)
    planned = job.checkpoint_plan(str(out / "shared"), timeout=PATIENT_S)
    assert (planned.there, planned.ranks) == ("nothing", (0, 1))
    assert available(planned.free_bytes)
    made = job.checkpoint(str(out / "shared"), timeout=PATIENT_S)
    assert (made.missing_ranks, [r.rank for r in made.ranks]) == ((), [0, 1])
    assert len({r.steps for r in made.ranks}) == 1
    assert verify(out / "shared").good

    private = out / "private"  # on one host this name is another disk
    private.mkdir()
    ours = procfs.pid_namespace(os.getpid())
    other = next(pid for pid in cluster.processes() if procfs.pid_namespace(pid) != ours)
    mount = ["mount", "-t", "tmpfs", "none", str(private)]
    subprocess.run(["nsenter", "--target", str(other), "--mount", *mount], check=True, timeout=30)
    alone = job.checkpoint(str(private / "saved"), timeout=PATIENT_S)
    assert (alone.missing_ranks, [r.rank for r in alone.ranks], alone.exact) == ((1,), [0], False)
    assert any("rank 1 on another host sees there" in note for note in alone.notes)
    assert not list(private.glob(".*"))


# --- the relay itself ----------------------------------------------------------------------------------------------


def test_with_a_token_the_relay_works_and_another_is_told_and_not_waited_for(
    ray_token_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray_token_cluster.use(monkeypatch)
    monkeypatch.setenv(HELPERS, "always")
    address = resolve(ray_token_cluster.gcs, PATIENT_S)
    assert address.token == ray_token_cluster.token
    (node,) = read(address, None, PATIENT_S).nodes
    hosts = open_hosts(address, [node])
    try:
        assert hosts.run(node.node_id, "jupyter_traindbg.spread.part:host", deadline_s=60)
    finally:
        hosts.end()
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
    with pytest.raises(NotPermitted):
        connect(f"ray:@{ray_token_cluster.gcs}", timeout=LONG_S)


@pytest.mark.usefixtures("client")
def test_a_cluster_that_is_not_there_is_told() -> None:
    with pytest.raises(CannotAttach):
        connect("ray:@127.0.0.1:9", timeout=5)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL  # ray has not been here
    assert "ray" not in sys.modules or "ray._raylet" not in sys.modules


def test_all_trainers_record_the_same_steps_in_one_trace(
    training: Submitted, client: Cluster, way: str, tmp_path: Path
) -> None:
    with attach(target(client, training), timeout=PATIENT_S) as job:
        seen = job.profile(steps=3, trace=str(tmp_path / "run.json"), timeout=PATIENT_S)
    assert [(rank.rank, rank.steps, rank.clock_ahead_s) for rank in seen.ranks] == [(0, 3, 0.0), (1, 3, 0.0)], seen
    assert len({str(rank.first_step and rank.first_step.own) for rank in seen.ranks}) == 1
    assert all(rank.worker and rank.lines and rank.operators for rank in seen.ranks)
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    steps = {event["pid"]: event["ts"] for event in events if event.get("cat") == "step"}
    first, second = steps.values()
    assert abs(first - second) < 1e6


def test_sql_has_all_ranks_in_one_table(training: Submitted, client: Cluster, way: str) -> None:
    with attach(target(client, training), timeout=PATIENT_S) as job:
        until(lambda: min(len(rank.steps) for rank in job.steps(last=5).ranks) >= 3, "steps", PATIENT_S)
        counted = job.sql(
            "select rank, count(*) > 2 as enough from steps group by rank order by rank", timeout=PATIENT_S
        )
        assert counted.rows == ((0, True), (1, True))
        everybody = job.sql("select rank, worker, answers from ranks order by rank", timeout=PATIENT_S)
        assert [row[0] for row in everybody.rows] == [rank.rank for rank in job.ranks]
        assert [row[2] for row in everybody.rows[:2]] == [True, True]
        assert "driver" in [row[1] for row in everybody.rows]
        for table in (
            "stacks",
            "threads",
            "processes",
            "parameters",
            "param_groups",
            "memory",
            "gc",
            "environ",
            "groups",
        ):
            answer = job.sql(f"select distinct rank from {table}", timeout=PATIENT_S)
            assert {0, 1} <= {row[0] for row in answer.rows}, (table, answer.notes, answer.silent)
        rows = {
            table: job.sql(f"from {table}", timeout=PATIENT_S) for table in ("modules", "objects", "batches", "events")
        }
        assert {row[0] for row in rows["modules"].rows} == {row[0] for row in rows["objects"].rows} == {0, 1}
