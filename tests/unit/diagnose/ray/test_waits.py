"""Where the waits of a Ray job lead in which nobody moves, and calls that failed while others wait in theirs. From hand-made evidence."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from cases import each
from partner_evidence import IN_A_BROADCAST, partner, stands, tcp
from ray_evidence import CODE, DRIVER_PID, GET, MAIN_LOOP, NODE, NOW_S, Scene, died, task

from jupyter_traindbg.diagnose import ray
from jupyter_traindbg.gather.called import with_calls
from jupyter_traindbg.model import Beside, Channels, Diagnosis, Frame, JobEvidence, JobProcess, Partner, Wait

ROLLOUT, REWARD = 1000, 1001
SCORE = Frame(CODE, 12, "Reward.score")


def scene(*waits: Wait) -> Scene:
    """A driver that waits for a rollout actor, and that for the first of the reward actors, which wait so."""
    found = Scene()
    found.driver(waits_for=("Rollout[0]",))
    rollout = found.actor(0, "running", class_name="Rollout", since_s=50.0, waits_for=("Reward[1]",))
    found.in_get(rollout, 26, "Rollout.run")
    for n, wait in enumerate(waits, 1):
        found.still(found.actor(n, "running", class_name="Reward", since_s=49.0), 12, "Reward.score", wait)
    return found


def led(found: Scene, *partners: Partner, calls: Mapping[int, Sequence[int]] | None = None) -> Scene:
    """With the evidence of where the waits lead; `calls`: by pid, whose results it waits for."""
    waits = calls or {DRIVER_PID: [ROLLOUT], ROLLOUT: [REWARD]}
    rows = {row.pid: row.who for row in found.rows}
    known = {
        (NODE, pid): JobProcess(who, [(NODE, one) for one in waits.get(pid, ())], drives=pid == DRIVER_PID)
        for pid, who in rows.items()
    }
    asking = [
        dataclasses.replace(seen, rank=n, host=NODE, who=rows[seen.pid])
        for n, seen in enumerate(one for one in found.seen if one.pid in waits)
    ]
    evidence = JobEvidence("ray:02", asking, len(asking), beside={NODE: Beside({}, {p.pid: p for p in partners})})
    found.led = with_calls(evidence, known)
    return found


def judged(found: Scene) -> Diagnosis:
    return ray.diagnose(found.case())


def reward(wait: Wait, **more: Any) -> Partner:
    return partner(REWARD, stands((SCORE,), wait), **more)


@each(
    "wait, severity, confidence, state",
    [
        (Wait("network", "read"), "critical", "medium", "stuck"),
        (Wait("file", "read"), "critical", "medium", "stuck"),
        (Wait("queue"), "warning", "low", "not known"),
        (Wait("thread"), "warning", "low", "not known"),
    ],
)
def test_whoever_is_asked_by_a_worker_and_does_not_answer_is_named(
    wait: Wait, severity: str, confidence: str, state: str
) -> None:
    told = judged(led(scene(wait), reward(wait)))
    (found,) = told.findings
    assert (found.code, found.severity, found.who, told.state) == ("ray_worker_stuck", severity, ("Reward[1]",), state)
    assert (found.where, found.confidence) == (f"{CODE}:12 Reward.score", confidence)
    assert found.title.endswith("at collector.py:12 Reward.score, and driver waits for it")
    assert [line.partition(";")[0] for line in found.evidence] == [
        f"driver waits for Rollout[0] (process {ROLLOUT})",
        f"Rollout[0] waits for Reward[1] (process {REWARD})",
    ]
    assert "`traindbg ray-rescue ray:02 --interrupt Reward[1]`" in found.next_steps[1]


def alone(wait: Wait) -> Scene:
    """The driver waits for the only actor that runs something."""
    found = Scene()
    found.driver(waits_for=("Server[1]",))
    found.still(found.actor(1, "running", class_name="Server", since_s=49.0), 12, "Server.run", wait)
    server = partner(REWARD, stands((Frame(CODE, 12, "Server.run"),), wait))
    return led(found, server, calls={DRIVER_PID: [REWARD]})


@pytest.mark.parametrize("wait", [Wait("queue"), Wait("network", "read"), Wait("thread")], ids=str)
def test_a_server_that_its_driver_waits_for_may_have_nothing_to_do(wait: Wait) -> None:
    told = judged(alone(wait))
    assert (told.state, told.findings) == ("not known", ())
    leads = f"driver waits, in the end, for Server[1], which waits for {wait} at collector.py:12 Server.run"
    assert leads in told.why


def test_no_server_waits_for_a_lock() -> None:
    (found,) = judged(alone(Wait("lock"))).findings
    assert (found.code, found.severity, found.who) == ("ray_worker_stuck", "critical", ("Server[1]",))


def test_one_that_sleeps_at_the_end_is_told_and_no_finding() -> None:
    told = judged(led(scene(Wait("sleep")), reward(Wait("sleep"))))
    assert told.findings == ()
    assert "driver waits, in the end, for Reward[1], which sleeps at collector.py:12 Reward.score" in told.why


def test_a_ring_of_calls_and_connections_is_named() -> None:
    """The rollout waits for the reward actor, and that at a socket for the rollout."""
    wait, over = Wait("network", "read"), tcp(40001, 50001, ROLLOUT)
    told = judged(led(scene(wait), reward(wait, has=Channels((over,), {REWARD: (over.key,)}))))
    (found,) = told.findings
    assert (found.code, set(found.who), told.state) == ("process_deadlock", {"Rollout[0]", "Reward[1]"}, "stuck")
    assert "wait for each other" in found.title


def test_one_that_waits_for_other_ranks_is_not_to_blame() -> None:
    frames, wait = IN_A_BROADCAST
    assert judged(led(scene(wait), partner(REWARD, stands(frames, wait), trains=True))).findings == ()


def test_where_anybody_moves_nothing_is_said() -> None:
    found = led(scene(Wait("queue")), reward(Wait("queue")))
    found.busy(found.actor(5, "running", class_name="Player", since_s=3.0))
    assert (judged(found).state, judged(found).findings) == ("healthy", ())


def test_who_asks_is_known_and_drivers_come_first() -> None:
    found = scene(Wait("queue"))
    found.rows.reverse()
    assert ray.asking(found.case()) == ["driver", "Rollout[0]"]


# --- a call that failed on one of several ----------------------------------------------------------------------------------

ALL_REDUCE = (
    Frame(
        "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 9, "all_reduce", library=True
    ),
    SCORE,
)


def failed(at_s: float = 40.0, name: str = "Trainer.run", **more: Any) -> Scene:
    """Trainer 0 waits in a collective, in a call of a minute; the same call has failed on trainer 1 so long ago."""
    found = Scene()
    found.driver(waits_for=("Trainer[0]",))
    waits = found.actor(0, "running", class_name="Trainer", since_s=60.0)
    found.look(waits.pid, more.pop("frames", ALL_REDUCE), more.pop("wait", Wait("collective", "all_reduce")))
    row = found.actor(1, more.pop("state", "idle"), class_name="Trainer")
    found.look(row.pid, (MAIN_LOOP,), Wait("idle", "calls"))
    end = {"RUNNING": NOW_S - at_s - 20, "FAILED": NOW_S - at_s}
    died_at = died("exited", "ValueError: no such sample", where=f"{CODE}:77 Trainer.load", error_type="ValueError")
    found.tasks.append(task("t1", name, state="FAILED", actor_id=row.actor_id, times=end, death=died_at))
    return found


def test_a_call_that_failed_on_one_while_the_others_wait_in_theirs() -> None:
    told = judged(failed())
    (found,) = told.findings
    assert (found.code, found.who, found.where) == ("ray_call_failed", ("Trainer[1]",), f"{CODE}:77 Trainer.load")
    assert found.title == (
        "Trainer.run has failed on Trainer[1]: ValueError: no such sample; Trainer[0] waits for that in a collective"
    )
    assert told.state == "stuck"


@each(
    "what, found",
    [
        ("it failed before the others began", failed(at_s=90.0)),
        ("it was another call", failed(name="Trainer.save")),
        ("it runs another one by now", failed(state="running")),
        ("the other one waits for a result", failed(frames=(GET, SCORE), wait=Wait("ray"))),
    ],
)
def test_no_failure_is_blamed_for_what_it_does_not_hold_up(what: str, found: Scene) -> None:
    assert "ray_call_failed" not in {f.code for f in judged(found).findings}, what
