"""What is said of a job as a whole: its state, its rows, and one diagnosis with that of its trainers as ranks."""

from __future__ import annotations

import dataclasses
import re

import pytest
from ray_evidence import CODE, Scene, died

from jupyter_traindbg.diagnose import ray
from jupyter_traindbg.diagnose.ray import order
from jupyter_traindbg.diagnose.ray.merged import alone, asked_of, with_driver, with_ranks
from jupyter_traindbg.model import Diagnosis, Finding, RankState, Wait

RANKS = Diagnosis(
    "two",
    "stuck",
    ("rank 1: at the same place at every look",),
    (RankState(0, 1000, "waiting", "waits in all_reduce #7"), RankState(1, 1001, "waiting", "waits for the network")),
    (Finding("io_wait", "critical", "Rank 1 waits for the network", ("rank 1",)),),
)


def trainers() -> Scene:
    scene = Scene()
    scene.driver()
    for n in range(2):
        scene.still(scene.actor(n, "running", since_s=60.0), 9, "train")
    return scene


def test_what_ranks_know_is_put_into_the_rows_of_their_processes() -> None:
    judged = with_ranks(ray.diagnose(trainers().case()), RANKS)
    assert (judged.state, [f.code for f in judged.findings]) == ("stuck", ["io_wait"])
    by_who = {r.who: r for r in judged.ranks}
    assert by_who["Collector[1]"].doing == "waits for the network"
    assert by_who["driver"].doing == "waits for results"


def test_what_is_wrong_with_workers_comes_before_what_ranks_wait_for() -> None:
    scene = trainers()
    scene.actor(2, "dead", death=died("in __init__", "ValueError: no"))
    judged = with_ranks(ray.diagnose(scene.case()), RANKS)
    assert [f.code for f in judged.findings] == ["ray_died_in_init", "io_wait"]


def test_without_ranks_nothing_changes() -> None:
    judged = ray.diagnose(trainers().case())
    assert with_ranks(judged, None) is judged


def of_driver(state: str, row: str, *findings: Finding) -> Diagnosis:
    return Diagnosis("4711", state, ("rank 0: ...",), (RankState(0, 500, row, "sleeps"),), findings)  # type: ignore[arg-type]


SLEEPS = Finding("python_wait", "critical", "Rank 0 sleeps", ("rank 0",))
NAN = Finding("loss_not_finite", "critical", "The loss is NaN", ("rank 0",))


def test_a_driver_that_waits_is_not_stuck_as_long_as_its_workers_get_on() -> None:
    scene = trainers()
    scene.busy(scene.actor(3, "running", since_s=3.0))
    judged = ray.diagnose(scene.case())
    assert judged.state == "healthy"
    assert with_driver(judged, of_driver("stuck", "waiting", SLEEPS)) is judged
    assert with_driver(judged, None) is judged


def test_what_holds_a_driver_counts_where_nobody_else_moves_and_nothing_else_is_wrong() -> None:
    at_rest = ray.diagnose(trainers().case())
    both = with_driver(at_rest, of_driver("stuck", "waiting", SLEEPS))
    assert (both.state, both.findings) == ("stuck", (SLEEPS,))
    assert with_driver(at_rest, of_driver("not known", "waiting")) is at_rest
    wrong = dataclasses.replace(at_rest, state="stuck", verdict=RANKS.verdict)
    assert with_driver(wrong, of_driver("stuck", "waiting", SLEEPS)) is wrong


def test_a_driver_that_trains_is_judged_by_its_steps() -> None:
    scene = trainers()
    scene.busy(scene.actor(3, "running", since_s=3.0))
    judged = ray.diagnose(scene.case())
    both = with_driver(judged, of_driver("unsound", "stepping", NAN))
    assert (both.state, both.findings) == ("unsound", (NAN,))
    assert {row.who: row.state for row in both.ranks}["driver"] == "stepping"


def test_who_has_asked_one_process_is_told_that_all_of_its_job_was_looked_at() -> None:
    judged = ray.diagnose(trainers().case())
    of_one = asked_of(judged, "4711", "ray:01000000@h:1", driver=True)
    assert of_one.target == "4711"
    assert of_one.why[0] == "4711 is the driver of ray:01000000@h:1: all of that job was looked at"
    assert asked_of(judged, "4711", "ray:@h:1", driver=False).why[0].startswith("4711 is a process of ray:@h:1")
    assert (
        alone(judged, "ray:@h:1", "no GCS answers").why[-1]
        == "only this process was looked at, and not ray:@h:1: no GCS answers"
    )


def test_a_job_is_called_what_it_is() -> None:
    scene = Scene()
    scene.busy(scene.actor(0, "running", since_s=3.0))
    assert ray.diagnose(scene.case()).state == "healthy"
    at_rest = ray.diagnose(trainers().case())
    assert (at_rest.state, at_rest.findings) == ("not known", ()), (
        "all wait, nobody is to blame, and nobody was seen to get on"
    )
    assert "nobody was seen to get on" in at_rest.why[-1]
    assert ray.diagnose(Scene().case()).state == "not known"


def test_a_row_says_what_its_worker_does() -> None:
    scene = Scene()
    scene.driver(waits_for=("Collector[0]",))
    scene.still(scene.actor(0, "running", since_s=60.0, executed=4), 9, "Collector.fetch", Wait("network", "read"))
    scene.actor(1, "idle")
    scene.actor(2, "infeasible")
    driver, fetches, idle, never = ray.diagnose(scene.case()).ranks
    assert (driver.state, driver.doing) == ("waiting", "waits for results of Collector[0]")
    assert (fetches.state, fetches.doing, fetches.steps) == ("waiting", "runs run, waits for data from a socket", 4)
    assert fetches.where == f"{CODE}:9 Collector.fetch"
    assert (idle.state, never.state) == ("idle", "starting")


def test_every_code_has_its_place_and_every_symptom_its_roots() -> None:
    rules = {m for rule in ray.rules() for m in [rule.__module__]}
    assert len(rules) >= 18
    assert set(order.SYMPTOMS) <= set(order.ROOT_FIRST)
    assert {root for roots in order.SYMPTOMS.values() for root in roots} <= set(order.ROOT_FIRST)


def test_everything_is_said_in_chinese_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    scene = trainers()
    scene.calls = {"Collector.run": (0.5, 1.0)}
    scene.actor(2, "dead", death=died("crashed", "SIGSEGV"))
    scene.actor(3, "infeasible", required={"CPU": 99.0})
    judged = ray.diagnose(scene.case())
    assert len(judged.findings) >= 2
    chinese = re.compile(r"[\u4e00-\u9fff]")
    for finding in judged.findings:
        assert all(chinese.search(words) for words in (finding.title, finding.cause, *finding.next_steps)), finding


def test_a_thousand_workers_are_judged_at_once() -> None:
    scene = Scene(calls={"Collector.run": (0.5, 1.0)})
    scene.driver()
    for n in range(1000):
        row = scene.actor(n, "running", since_s=60.0 if n == 17 else 0.5, executed=3)
        if n == 17:
            scene.still(row, 20, "Engine.step", Wait("network", "read"))
        elif n < 100:
            scene.busy(row)
    (found,) = ray.findings(scene.case())
    assert (found.code, found.who) == ("ray_worker_stuck", ("Collector[17]",))


def test_who_is_looked_at_more_closely() -> None:
    scene = trainers()
    scene.actor(5, "idle")
    scene.actor(6, "in __init__", since_s=90.0)
    scene.actor(7, "infeasible")
    case = scene.case()
    (pids,) = ray.wanted(case.cluster, case.workers).values()
    assert list(pids) == [500, 1006, 1000, 1001]
    assert list(ray.methods(case.cluster, case.workers)) == ["Collector.run"]
    few = dataclasses.replace(case.workers, workers=())
    assert ray.wanted(case.cluster, few) == {}


def test_what_ranks_wait_for_goes_into_what_is_wrong_with_that_worker() -> None:
    """Rank 1 is `Collector[1]`; the other finding leads to a worker of which nothing is wrong."""
    scene = trainers()
    scene.actor(2, "dead", death=died("in __init__", "ValueError: no"))
    on_dead = Finding(
        "python_wait", "critical", "Rank 0 waits for Collector[2]", ("rank 0", "Collector[2]"), evidence=("so",)
    )
    other = Finding("python_wait", "critical", "Rank 0 waits for Judge[0]", ("rank 0", "Judge[0]"))
    judged = with_ranks(ray.diagnose(scene.case()), dataclasses.replace(RANKS, verdict=(on_dead, other)))
    assert [f.title for f in judged.findings][1:] == ["Rank 0 waits for Judge[0]"]
    assert judged.findings[0].evidence[-2:] == ("so", "so: Rank 0 waits for Collector[2]")


def test_ranks_without_a_call_say_nothing_of_the_job() -> None:
    """The driver may wait for another actor meanwhile."""
    idle = dataclasses.replace(RANKS, state="idle", verdict=())
    judged = ray.diagnose(trainers().case())
    assert with_ranks(judged, idle).state == judged.state
