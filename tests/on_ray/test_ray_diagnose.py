"""`traindbg diagnose ray:...` on real clusters: each kind of trouble made for real and named, and a job in which nothing is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ray_clusters import RAY_TEST_S, Cluster, Job, Submitted, line_of, until
from ray_shared import share

from jupyter_traindbg.model import Diagnosis, Finding
from jupyter_traindbg.ray import diagnosing as ray_diagnosing

pytestmark = pytest.mark.timeout(RAY_TEST_S)
TIMEOUT_S = 20.0
"""These tests run on machines that are busy; that ten seconds will do is for the benchmarks to show."""
HARMLESS = {"ray_too_many_for_cores", "ray_startup_slow"}
"""What may be true of the machine that a test runs on."""


AT_ONCE = {
    "several": ("ray_troubles.py", "ring", "unanswered", "infeasible"),
    "died": ("ray_troubles.py", "died"),
    "restarted": ("ray_troubles.py", "crashed", "again"),
    "at peace": ("ray_at_peace.py",),
}
"""Jobs that keep out of each other's way: they come up, and trouble becomes old enough to be told, while another one is looked at."""


@pytest.fixture
def at_once(ray_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Job]:
    """The job of that name, ready; the test stops it when it has seen it."""
    ray_cluster.use(monkeypatch)
    jobs = share("at_once", lambda: {name: ray_cluster.drive(*words) for name, words in AT_ONCE.items()})

    def ready(name: str) -> Job:
        job: Job = jobs[name]
        job.wait_for("READY", 150)
        return job

    return ready


@pytest.fixture
def troubles(ray_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Runs scenes of ray_troubles.py as one job, which ends with the test."""
    ray_cluster.use(monkeypatch)
    jobs: list[Job] = []

    def start(*scenes: str, submit: bool = False) -> Job:
        run = ray_cluster.submit if submit else ray_cluster.drive
        jobs.append(run("ray_troubles.py", *scenes, ready=None if submit else "READY", timeout_s=150))
        return jobs[-1]

    yield start
    for job in jobs:
        if job.status() in ("RUNNING", "PENDING"):
            job.stop()


def diagnosed(job: Job) -> Diagnosis:
    return ray_diagnosing.diagnose(f"ray:{job.id}@{job.cluster.gcs}", TIMEOUT_S)


def found(result: Diagnosis, code: str) -> Finding:
    (one,) = [f for f in result.findings if f.code == code]
    return one


def blamed(result: Diagnosis) -> set[str]:
    return {who for f in result.findings if f.code not in HARMLESS for who in f.who}


def at(program: str, mark: str, finding: Finding) -> bool:
    assert finding.where is not None, finding.title
    return f"{program}:{line_of(program, mark)} " in finding.where


def test_the_collector_scene_names_both_bad_workers_and_no_healthy_one(ray_collector: Submitted) -> None:
    """As a person does it: from the command line, cold."""
    cluster = ray_collector.cluster
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "jupyter_traindbg.cli",
            "diagnose",
            f"ray:{ray_collector.id}",
            "--json",
            "--timeout",
            "20",
        ],
        env={**os.environ, **cluster.env, "TRAINDBG_LANG": "en"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    by_code = {f["code"]: f for f in told["findings"] if f["code"] not in HARMLESS}
    assert set(by_code) == {"ray_worker_deadlock", "ray_stuck_in_init"}
    deadlocked, stuck = (f"SelfPlayWorker[{ray_collector.said(word)[1]}]" for word in ("deadlocked", "stuck"))
    assert by_code["ray_worker_deadlock"]["who"] == [deadlocked]
    assert f"ray_collector.py:{line_of('ray_collector.py', 'DEADLOCK')} " in by_code["ray_worker_deadlock"]["where"]
    assert "stats" in by_code["ray_worker_deadlock"]["title"]
    assert by_code["ray_stuck_in_init"]["who"] == [stuck]
    assert f"ray_collector.py:{line_of('ray_collector.py', 'STUCK')} " in by_code["ray_stuck_in_init"]["where"]
    assert told["state"] == "stuck"


def test_many_troubles_in_one_job_are_told_apart(at_once: Callable[[str], Job]) -> None:
    job = at_once("several")
    until(lambda: "ray_worker_stuck" in {f.code for f in diagnosed(job).findings}, "too long for a call", 60)
    result = diagnosed(job)
    assert result.state == "stuck"
    ring = found(result, "ray_actor_deadlock")
    assert set(ring.who) == {"Peer[0]", "Peer[1]"}
    assert at("ray_troubles.py", "RING", ring)
    late = found(result, "ray_worker_stuck")
    assert late.who == ("Player[2]",)
    assert at("ray_troubles.py", "UNANSWERED", late)
    assert found(result, "ray_infeasible").who == ("Huge[0]",)
    assert blamed(result) == {"Peer[0]", "Peer[1]", "Player[2]", "Huge[0]"}
    job.stop()


def test_one_that_died_in_init_is_the_root_of_its_peers_wait(at_once: Callable[[str], Job]) -> None:
    job = at_once("died")
    until(lambda: "wait for ever" in str([f.title for f in diagnosed(job).findings]), "the others", 90)
    result = diagnosed(job)
    (one,) = [f for f in result.findings if f.code not in HARMLESS]
    assert (one.code, one.severity, one.who) == ("ray_died_in_init", "critical", ("Member[1]",))
    assert at("ray_troubles.py", "DIED", one)
    assert "no such game: go9x9" in one.title
    assert "Member[0, 2] wait" in one.title
    job.stop()


def test_actors_that_crash_or_come_back_for_ever(at_once: Callable[[str], Job]) -> None:
    job = at_once("restarted")
    until(lambda: len(blamed(diagnosed(job))) >= 2, "three restarts", 60)
    result = diagnosed(job)
    dead = [f for f in result.findings if f.code == "ray_worker_died"]
    assert {who for f in dead for who in f.who} == {"Producer[0]", "Fragile[0]"} == blamed(result)
    (crash,) = [f for f in dead if f.who == ("Producer[0]",)]
    assert any("waits" in line for line in crash.evidence)
    job.stop()


def test_a_job_in_which_nothing_is_wrong_has_no_finding(at_once: Callable[[str], Job]) -> None:
    job = at_once("at peace")
    for _ in range(3):
        result = diagnosed(job)
        assert [f.title for f in result.findings if f.code not in HARMLESS] == []
        assert result.state in ("healthy", "slow")
    job.stop()


def test_who_holds_what_others_wait_for_and_what_a_dead_job_left(troubles: Any) -> None:
    left = troubles("left")
    left.wait()
    job = troubles("crowded")
    until(lambda: blamed(diagnosed(job)), "the wait to be too long", 60)

    def wanted() -> Diagnosis | None:
        """On a busy machine Ray leaves out at times who waits."""
        seen = diagnosed(job)
        return seen if ("ray_leftovers", "warning") in {(f.code, f.severity) for f in seen.findings} else None

    result = until(wanted, "an older end", 60)
    (one,) = [f for f in result.findings if f.code not in HARMLESS]
    assert one.who[0].startswith("keeper")
    assert any("for extra, held by" in line for line in one.evidence)
    kill_keeper(job.cluster)
    until(lambda: "ray_leftovers" not in {f.code for f in diagnosed(job).findings}, "its end", 60)


def kill_keeper(cluster: Cluster) -> None:
    """As a person would who has read the verdict."""
    script = "import ray; ray.init(namespace='left', log_to_driver=False); ray.kill(ray.get_actor('keeper'))"
    subprocess.run([sys.executable, "-c", script], env={**os.environ, **cluster.env}, timeout=60, check=True)


def test_an_object_store_that_is_full_of_what_is_still_wanted(troubles: Any) -> None:
    job = troubles("store")
    one = until(
        lambda: [f for f in diagnosed(job).findings if f.code.startswith(("ray_object", "ray_spill"))], "it", 60
    )[0]
    assert "spill" in one.title or "full" in one.title


def test_jobs_that_are_over(troubles: Any) -> None:
    job = troubles("nosuchscene", submit=True)
    assert job.wait() == "FAILED"
    result = diagnosed(job)
    assert result.state == "failed"
    (one,) = result.findings
    assert (one.code, one.who) == ("ray_job_failed", (f"job {job.id}",))
    assert any("KeyError: 'nosuchscene'" in line for line in one.evidence)
