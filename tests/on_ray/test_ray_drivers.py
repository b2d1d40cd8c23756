"""A Ray job asked by one of its processes, its driver or a worker: what is meant is all of it, and what cannot be says how it can."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ray_clusters import RAY_TEST_S, Cluster, Submitted, until
from support import Start

from jupyter_traindbg.attach.base import Part
from jupyter_traindbg.attach.discover import part_of, targets
from jupyter_traindbg.errors import ActionRefused, NoTarget, TraindbgError
from jupyter_traindbg.job import connect
from jupyter_traindbg.ray.job import RayJob

pytestmark = [pytest.mark.timeout(RAY_TEST_S)]
PATIENT_S = 30.0
CLUSTER = re.compile(r"ray:(?:[0-9a-f]{8})?@[0-9.:]+")


@pytest.fixture
def client(ray_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    ray_cluster.use(monkeypatch)
    return ray_cluster


@pytest.fixture
def training(ray_training: tuple[Submitted, Path], client: Cluster) -> Submitted:
    return ray_training[0]


def workers_of(name: str) -> dict[int, int]:
    """The pids of the workers that train, by rank."""
    with connect(name, timeout=PATIENT_S) as job:
        assert isinstance(job, RayJob)
        job.enter(PATIENT_S)
        return {p.member.rank: p.member.pid for p in job._placed if p.member.trainer}


def named_in(error: TraindbgError) -> str:
    """The target that an error names as the way that works."""
    (found,) = CLUSTER.findall(error.next_step)
    return str(found)


def test_the_driver_of_a_training_is_asked_for_the_training(training: Submitted, client: Cluster) -> None:
    pid = training.driver_pid
    whole = f"ray:{training.job_id}@{client.gcs}"
    with connect(pid) as job:
        found = job.diagnose(timeout=PATIENT_S)
    assert (found.state, found.findings) == ("healthy", ()), found
    assert found.why[0] == f"{pid} is the driver of {whole}: all of that job was looked at"
    assert {row.who: row.state for row in found.ranks}["driver"] == "waiting"
    assert [row.state for row in found.ranks].count("stepping") == 2
    assert any(check.topic == "loss" and check.state == "fine" for check in found.checks)


def test_a_worker_asked_by_its_pid_is_the_rank_that_it_is(training: Submitted, client: Cluster) -> None:
    whole = f"ray:{training.job_id}@{client.gcs}"
    for rank, pid in workers_of(whole).items():
        with connect(pid) as job:
            assert [r.rank for r in job.steps(timeout=PATIENT_S).ranks] == [rank]
            assert [r.rank for r in job.stacks(timeout=PATIENT_S).processes if r.pid == pid] == [rank]
            found = job.diagnose(timeout=PATIENT_S)
            assert (found.state, found.findings) == ("healthy", ()), found
            assert found.why[0].startswith(f"{pid} is a process of {whole}")
            assert not any(row.state == "not seen" for row in found.ranks)
            with pytest.raises(ActionRefused, match=f"only rank {rank} of 2") as refused:
                job.set_lr(1e-2, timeout=PATIENT_S)
            assert named_in(refused.value) == whole


def test_what_a_driver_refuses_names_the_way_that_works(training: Submitted, client: Cluster, tmp_path: Path) -> None:
    with connect(training.driver_pid) as job:
        (rank,) = job.ranks
        assert rank.note == f"the driver of ray:{training.job_id}@{client.gcs}"
        asks: list[Any] = [job.steps, job.grads, job.lr, job.collectives, lambda: job.set_lr(1e-3)]
        asks.append(lambda: job.checkpoint(str(tmp_path / "never")))
        names = set()
        for ask in asks:
            with pytest.raises(NoTarget, match="is the driver of a Ray job") as refused:
                ask()
            names.add(named_in(refused.value))
    assert not (tmp_path / "never").exists()
    (name,) = names
    with connect(name) as whole:
        assert [r.rank for r in whole.steps(timeout=PATIENT_S).ranks] == [0, 1]


def test_a_driver_is_listed_with_its_workers_and_its_report_has_them(
    training: Submitted, client: Cluster, tmp_path: Path
) -> None:
    found = {t.pid: t for t in targets()}
    above = found[training.driver_pid].part_of
    assert above is not None
    assert above.startswith("ray:")
    assert above.endswith(f"@{client.gcs}")
    with connect(training.driver_pid) as job:
        report = job.report(str(tmp_path / "r.zip"), timeout=PATIENT_S)
    told = {part.title: part.summary for part in report.parts}
    assert "workers on" in told["Ray"], told
    assert "healthy" in told["Diagnosis"], told


@pytest.mark.parametrize(
    "case",
    [
        ("trains", (), "healthy", None),
        ("trains", ("--lr", "1e30"), "unsound", "lr_implausible"),
        ("waits", (), "healthy", None),
        ("polls", (), "healthy", None),
        ("asleep", (), "not known", None),
    ],
    ids=lambda case: " ".join([case[0], *case[1]]),
)
def test_a_driver_is_judged_by_what_its_job_does(client: Cluster, start: Start, case: tuple[Any, ...]) -> None:
    kind, more, state, code = case
    driver = start("ray_drivers.py", kind, *more, env=client.env, ready="READY", timeout_s=120)
    if kind == "asleep":  # a call that Ray tells of during the look only is one that has just begun
        until(lambda: client.state("tasks", name="Worker.sleep", state="RUNNING"), "Ray to tell of the call")
    with connect(driver.pid) as job:
        found = job.diagnose(timeout=PATIENT_S)
    assert found.state == state, "\n".join(map(repr, (found.state, found.why, *found.ranks, *found.findings)))
    assert [f.code for f in found.findings[:1]] == ([] if code is None else [code]), found
    if kind in ("trains", "waits"):
        assert [row.state for row in found.ranks].count("stepping") == 1, found.ranks
    if kind == "trains":
        with connect(driver.pid) as job:
            assert job.steps(timeout=PATIENT_S).ranks[0].steps, "what trains itself is asked itself"


def test_the_program_at_the_other_end_of_a_client_is_a_driver(
    ray_token_cluster: Cluster, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray_token_cluster.use(monkeypatch)
    words = ("polls", "--address", ray_token_cluster.client)
    driver = start("ray_drivers.py", *words, env=ray_token_cluster.env, ready="READY", timeout_s=120)
    part = part_of(driver.pid)
    assert part is not None
    assert (part.what, part.whole) == ("driver", f"ray:@{ray_token_cluster.gcs}")
    told = subprocess.run(
        [sys.executable, "-m", "jupyter_traindbg.cli", "diagnose", str(driver.pid)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stdout + told.stderr
    assert "The job is healthy" in told.stdout.splitlines()[0]


def test_without_its_cluster_only_the_process_is_looked_at(
    client: Cluster, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = start("ray_drivers.py", "asleep", env=client.env, ready="READY", timeout_s=120)
    with connect(driver.pid) as job:
        (link,) = job._links
        assert link.part is not None
        link.__dict__["part"] = Part("ray:01000000@127.0.0.1:9", link.part.what)  # where nobody answers
        found = job.diagnose(timeout=PATIENT_S)
    assert (found.state, found.findings) == ("not known", ()), found
    assert any("only this process was looked at, and not ray:01000000@127.0.0.1:9" in why for why in found.why)
