"""What keeps those that have their resources and no process."""

from __future__ import annotations

from ray_facts import NODE, actor, cluster, creation

from jupyter_traindbg.model import RayBuild, RayComing, RayRuntimeEnv, RayWorker
from jupyter_traindbg.ray.workers import starting, states
from jupyter_traindbg.ray.workers.facts import Facts

ENV = '{"pip": {"packages": ["gym"]}, "_ray_commit": "x"}'


def waiting(runtime_env: str = "", since_s: float = 12, **fields: object) -> tuple[Facts, list[RayWorker]]:
    one = actor(0, "PENDING_CREATION")
    created = creation(one, "PENDING_NODE_ASSIGNMENT", asked_s=since_s, runtime_env=runtime_env)
    facts = Facts(cluster([one], [created], **fields))
    return facts, [row for row in states.rows(facts) if row.kind == "actor"]


def env(built: bool | None, error: str = "") -> RayRuntimeEnv:
    return RayRuntimeEnv('{"_ray_commit": "x", "pip": {"packages": ["gym"]}}', NODE, built, "pip: gym", error)


def test_a_runtime_env_being_built() -> None:
    facts, rows = waiting(ENV, runtime_envs=(env(None),))
    (row,) = starting.with_environments(facts, rows)
    assert (row.state, row.words) == (
        "building runtime_env",
        "waiting for 12 s for its runtime_env to be built: pip: gym",
    )


def test_one_that_is_built_or_is_somebody_elses_keeps_nobody() -> None:
    for written, built in ((ENV, True), ("", None), ('{"pip": {"packages": ["other"]}}', None)):
        facts, rows = waiting(written, runtime_envs=(env(built),))
        assert starting.with_environments(facts, rows) == rows


def test_one_whose_building_fails() -> None:
    facts, rows = waiting(ENV, runtime_envs=(env(False, "no matching distribution"),))
    (row,) = starting.with_environments(facts, rows)
    assert row.words.endswith("has failed and is tried again: no matching distribution")


def test_one_of_which_only_the_node_tells_that_it_is_built() -> None:
    """Ray's agent has not answered, or the dashboard is down."""
    builds = [RayBuild(77, NODE, 5, "virtualenv"), RayBuild(78, NODE, 9, "pip install")]
    facts, rows = waiting(ENV)
    (row,) = starting.with_builds(facts, rows, builds)
    assert (row.state, row.tier) == ("building runtime_env", 1)
    assert row.words.startswith("waiting for 12 s for its runtime_env to be built: `pip install` has been running on ")
    assert row.words.endswith(" for 9 s")
    assert starting.with_builds(facts, rows, []) == rows
    plain, rows = waiting()
    assert starting.with_builds(plain, rows, builds) == rows, "it asks for none"
    told, rows = waiting(ENV, runtime_envs=(env(True),))
    assert starting.with_builds(told, rows, builds) == rows, "Ray has told: it is built"


def coming(*phases: str, age_s: float = 8.0) -> list[RayComing]:
    return [RayComing(100 + i, NODE, age_s + i, phase) for i, phase in enumerate(phases)]  # type: ignore[arg-type]


def test_processes_that_come_up() -> None:
    _, rows = waiting()
    (row,) = starting.with_coming(rows, coming("importing", "importing", "registering"))
    words = "has its resources for 12 s: 3 processes are coming up (2 importing, 1 registering), the oldest for 10 s"
    assert (row.state, row.words, row.tier) == ("starting", words, 1)


def test_processes_that_cannot_register() -> None:
    _, rows = waiting()
    (row,) = starting.with_coming(rows, coming("registering", age_s=9))
    assert (row.state, row.words) == (
        "registering",
        "registering for 12 s: 1 process is up and cannot register with its node, for 9 s",
    )


def test_registering_for_a_moment_is_nothing_to_speak_of() -> None:
    _, rows = waiting()
    (row,) = starting.with_coming(rows, coming("registering", age_s=0.5))
    assert row.state == "starting"


def test_no_process_at_all() -> None:
    _, rows = waiting()
    (row,) = starting.with_coming(rows, [])
    assert row.words == "has its resources for 12 s: no process is being started for it on any node"
    _, fresh = waiting(since_s=1)
    assert starting.with_coming(fresh, []) == fresh
