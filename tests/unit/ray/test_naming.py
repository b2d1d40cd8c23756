"""How workers are called."""

from __future__ import annotations

from cases import each
from ray_facts import JOB, OTHER_JOB, actor, cluster, creation, job, task

from jupyter_traindbg.model import NotAvailable, RayTrainWorker
from jupyter_traindbg.ray.workers.naming import names, together


def test_actors_of_a_class_are_numbered_in_the_order_of_creation() -> None:
    actors = [actor(i) for i in (7, 3, 5)]
    tasks = [creation(a, asked_s=10 - i) for i, a in enumerate(actors)]
    who = names(cluster(actors, tasks))
    assert [who[a.actor_id] for a in actors] == ["Collector[0]", "Collector[1]", "Collector[2]"]


def test_within_a_millisecond_the_dashboards_order_decides() -> None:
    actors = [actor(i, order=order) for i, order in ((1, 2), (2, 0), (3, 1))]
    who = names(cluster(actors, [creation(a, asked_s=10) for a in actors]))
    assert [who[a.actor_id] for a in actors] == ["Collector[2]", "Collector[0]", "Collector[1]"]


def test_the_dead_keep_their_numbers_and_each_class_has_its_own() -> None:
    first, second = actor(1, "DEAD"), actor(2)
    learner = actor(1, class_name="Learner")
    tasks = [creation(first, asked_s=30), creation(second, asked_s=20), creation(learner, asked_s=10)]
    who = names(cluster([second, learner, first], tasks))
    assert (who["Collector0001"], who["Collector0002"], who["Learner0001"]) == (
        "Collector[0]",
        "Collector[1]",
        "Learner[0]",
    )


def test_a_restart_is_no_new_number() -> None:
    one, two = actor(1), actor(2)
    again = creation(one, asked_s=1, attempt=1)
    who = names(cluster([one, two], [creation(one, asked_s=30), again, creation(two, asked_s=20)]))
    assert who[one.actor_id] == "Collector[0]"


def test_a_name_given_by_the_user_is_the_name() -> None:
    old, new = actor(1, "DEAD", name="store"), actor(2, name="store")
    who = names(cluster([new, old], [creation(old, asked_s=30), creation(new, asked_s=20)]))
    assert who[new.actor_id] == "store"
    assert who[old.actor_id] == "store (Collec)"


def test_jobs_are_told_apart_where_they_run_side_by_side() -> None:
    mine, other, left = (
        actor(1),
        actor(2, job_id=OTHER_JOB),
        actor(3, job_id="01000000", class_name="Store", detached=True),
    )
    jobs = (job(), job(OTHER_JOB), job("01000000", "SUCCEEDED"))
    who = names(cluster([mine, other, left], jobs=jobs))
    assert who[mine.actor_id] == f"Collector[0] of job {JOB}"
    assert who[other.actor_id] == f"Collector[0] of job {OTHER_JOB}"
    assert who[left.actor_id] == "Store[0] of job 01000000"
    assert who[JOB] == f"driver of job {JOB}"
    alone = names(cluster([mine, left], jobs=(job(), job("01000000", "SUCCEEDED"))))
    assert (alone[mine.actor_id], alone[JOB]) == ("Collector[0]", "driver")


def test_the_only_job_that_is_asked_for_needs_no_name() -> None:
    mine, other = actor(1), actor(2, job_id=OTHER_JOB)
    ranks = [actor(n, class_name="RayTrainWorker", job_id=where) for n, where in ((3, JOB), (4, OTHER_JOB))]
    train = tuple(RayTrainWorker(f"run of {a.job_id}", 0, 1, a.pid, a.actor_id, a.node_id, a.job_id) for a in ranks)
    who = names(cluster([mine, other, *ranks], jobs=(job(), job(OTHER_JOB)), train=train), JOB)
    assert (who[mine.actor_id], who[JOB], who[ranks[0].actor_id]) == ("Collector[0]", "driver", "rank 0")
    assert who[other.actor_id] == f"Collector[0] of job {OTHER_JOB}"
    assert who[ranks[1].actor_id] == f"rank 0 of job {OTHER_JOB}"


def test_ray_trains_workers_are_ranks_where_their_rank_is_known() -> None:
    actors = [actor(i, class_name="RayTrainWorker") for i in range(2)]
    train = tuple(RayTrainWorker("run", 1 - i, 2, a.pid, a.actor_id, a.node_id, JOB) for i, a in enumerate(actors))
    who = names(cluster(actors, train=train))
    assert [who[a.actor_id] for a in actors] == ["rank 1", "rank 0"]
    unknown = tuple(RayTrainWorker("", -1, 2, a.pid, a.actor_id, a.node_id, JOB) for a in actors)
    assert names(cluster(actors, train=unknown))["RayTrainWorker0001"] == "RayTrainWorker[1]"


def test_tasks_by_name_and_of_several_by_id_since_those_that_end_would_change_a_number() -> None:
    who = names(cluster(tasks=[task("aa11bb22"), task("cc33dd44"), task("ee55ff66", name="merge")]))
    assert (who["aa11bb22"], who["cc33dd44"], who["ee55ff66"]) == ("work[aa11bb]", "work[cc33dd]", "merge")


def test_a_call_is_called_as_the_actor_that_runs_it() -> None:
    one = actor(1)
    assert (
        names(cluster([one], [creation(one), task("t", kind="ACTOR_TASK", actor_id=one.actor_id)]))["t"]
        == "Collector[0]"
    )


def test_without_tasks_there_are_still_names() -> None:
    who = names(cluster([actor(1, order=1), actor(2, order=0)], tasks=NotAvailable("the dashboard is down")))
    assert (who["Collector0002"], who["Collector0001"]) == ("Collector[0]", "Collector[1]")


@each(
    ("who", "words"),
    [
        ([], ""),
        (["store"], "store"),
        ([f"C[{i}]" for i in range(1000) if i != 7], "C[0-6, 8-999]"),
        (["rank 0", "rank 1", "rank 2", "driver"], "ranks 0-2, driver"),
        (["C[1] of job 02", "C[2] of job 02", "C[4] of job 03"], "C[1, 2] of job 02, C[4] of job 03"),
        ([f"n{i}" for i in range(9)], "n0, n1, n2, n3 and 5 more"),
        ([f"C[{2 * i}]" for i in range(500)], "C[0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, ...]"),
    ],
)
def test_many_in_few_words(who: list[str], words: str) -> None:
    assert together(who) == words


def test_ten_thousand_actors_are_named_in_no_time() -> None:
    actors = [actor(i, order=i) for i in range(10_000)]
    who = names(cluster(actors, [creation(a, asked_s=100 - i / 1000) for i, a in enumerate(actors)]))
    assert who["Collector9999"] == "Collector[9999]"
