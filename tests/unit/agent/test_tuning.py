"""What is in force, what was, what is refused; the values themselves are in test_tuning_schedulers.py and test_tuning_steps.py."""

from __future__ import annotations

import gc
import json
import math
import threading
import weakref
from typing import Any

import pytest
import torch
from cases import each
from torch import nn

from jupyter_traindbg.agent.carrying import WAIT_STEPS
from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.refused import Refused

CLIP = {"setting": "clip_norm", "mode": "hold", "value": 1.0}


class Job:
    """Two groups with gradients of one; `used` are the learning rates that each step used."""

    def __init__(self, lr: Any = 0.1, second: Any = 0.2, **more: Any) -> None:
        self.parameters = [nn.Parameter(torch.ones(3)) for _ in range(2)]
        groups = [{"params": [p], "lr": g} for p, g in zip(self.parameters, (lr, second), strict=True)]
        self.optimizer = torch.optim.SGD(groups, lr=0.1, **more)
        self.used: list[list[float]] = []
        self.optimizer.register_step_post_hook(lambda o, *_: self.used.append([float(g["lr"]) for g in o.param_groups]))

    def step(self) -> None:
        for parameter in self.parameters:
            parameter.grad = torch.ones(3)
        self.optimizer.step()

    def scheduled(self) -> list[float]:
        return [float(g["lr"]) for g in self.optimizer.param_groups]


@pytest.fixture
def job() -> Job:
    return Job()


def no_hook_is_left(agent: Agent, job: Job) -> bool:
    hooks = agent.safepoints.before + agent.safepoints.after + agent.safepoints.at_boundary
    ours = [h for h in hooks if getattr(h, "__self__", None) is agent.tuning]
    on_it = [job.optimizer._optimizer_state_dict_post_hooks, vars(job.optimizer).get("step")]
    return not ours and agent.safepoints.wrap_closure is None and not any(on_it)


# --- in force ---------------------------------------------------------------------------------------------------------


def test_a_change_is_effective_at_the_next_step_and_the_schedule_does_not_see_it(agent: Agent, job: Job) -> None:
    job.step()
    (first, second) = agent.tuning.apply({"mode": "scale", "value": 0.5})
    assert first == {
        "optimizer": 0,
        "class": "SGD",
        "group": 0,
        "setting": "lr",
        "note": "",
        "scheduled": 0.1,
        "before": 0.1,
        "after": 0.05,
        "action": "scale 0.5",
    }
    assert (second["group"], second["before"], second["after"]) == (1, 0.2, 0.1)
    assert job.scheduled() == [0.1, 0.2]
    job.step()
    assert job.used == [[0.1, 0.2], [0.05, 0.1]]
    assert job.scheduled() == [0.1, 0.2]
    job.optimizer.param_groups[0]["lr"] = 0.08  # a schedule
    job.step()
    assert job.used[-1] == [0.04, 0.1]
    assert agent.recorder.last is not None
    assert agent.recorder.last[7] == [0.04, 0.1], "a step's record shows what it used"


def test_a_new_action_replaces_the_older_one_and_undo_restores_it(agent: Agent, job: Job) -> None:
    tuning = agent.tuning
    tuning.apply({"mode": "scale", "value": 0.5})
    tuning.apply({"mode": "hold", "value": 0.03, "groups": [1]})
    job.step()
    rows = tuning.apply({"mode": "undo"})
    assert [(r["group"], r["before"], r["after"], r["action"]) for r in rows] == [(1, 0.03, 0.1, "scale 0.5")]
    job.step()
    assert tuning.apply({"mode": "undo"})[0]["action"] == "released"
    job.step()
    assert job.used == [[0.05, 0.03], [0.05, 0.1], [0.1, 0.2]]
    with pytest.raises(Refused, match="nothing to undo"):
        tuning.apply({"mode": "undo"})
    assert not tuning.active
    assert no_hook_is_left(agent, job)


def test_undo_of_a_release_puts_it_back(agent: Agent, job: Job) -> None:
    agent.tuning.apply({"mode": "hold", "value": 0.03})
    agent.tuning.apply({"mode": "release", "setting": None})
    agent.tuning.apply({"mode": "undo"})
    job.step()
    assert job.used == [[0.03, 0.03]]


def test_hold_without_a_value_pins_what_is_effective_now(agent: Agent) -> None:
    job = Job(torch.tensor(0.1), 0.2)
    agent.tuning.apply({"mode": "scale", "value": 0.3})
    agent.tuning.apply({"mode": "hold"})
    job.optimizer.param_groups[0]["lr"].fill_(0.5)
    job.optimizer.param_groups[1]["lr"] = 0.5
    job.step()
    assert job.used == [[float(torch.tensor(0.1) * 0.3), 0.2 * 0.3]]
    assert [r["action"] for r in agent.tuning.report()["in_force"]] == ["hold 0.03", "hold 0.06"]


def test_release_of_one_group(agent: Agent, job: Job) -> None:
    agent.tuning.apply({"mode": "scale", "value": 0.5})
    rows = agent.tuning.apply({"mode": "release", "groups": [0]})
    assert [(r["group"], r["after"], r["action"]) for r in rows] == [(0, 0.1, "released")]
    job.step()
    assert job.used == [[0.1, 0.1]]
    assert agent.tuning.active


def test_to_release_where_nothing_is_in_force_does_nothing(agent: Agent, job: Job) -> None:
    assert agent.tuning.apply({"mode": "release", "setting": None}) == []
    assert agent.tuning.report() == {"in_force": [], "log": []}
    assert no_hook_is_left(agent, job)


def test_the_log_has_step_numbers(agent: Agent, job: Job) -> None:
    for _ in range(3):
        job.step()
    agent.tuning.apply({"mode": "scale", "value": 0.5})
    job.step()
    agent.tuning.apply({"mode": "release"})
    log = agent.tuning.report()["log"]
    assert [(entry["step"], entry["change"]["mode"]) for entry in log] == [(4, "scale"), (5, "release")]
    assert [r["after"] for r in log[1]["rows"]] == [0.1, 0.2]
    json.dumps(log)


def test_the_log_and_the_lr_probe_have_the_optimizers_own_count(agent: Agent) -> None:
    parameter = nn.Parameter(torch.ones(4))
    optimizer = torch.optim.AdamW([parameter], lr=0.1)
    parameter.grad = torch.ones(4)
    optimizer.state[parameter] = {"step": torch.tensor(100.0), "exp_avg": torch.zeros(4), "exp_avg_sq": torch.zeros(4)}
    agent.tuning.apply({"mode": "scale", "value": 0.5})
    assert agent.tuning.report()["log"][0]["optimizer_step"] is None, "before its first step it is not known"
    for _ in range(3):
        optimizer.step()
    agent.tuning.apply({"mode": "release"})
    log = agent.tuning.report()["log"]
    assert [(entry["step"], entry["optimizer_step"]) for entry in log] == [(1, 101), (4, 104)]
    (told,) = [o for o in agent.call("lr", {})["optimizers"] if o["optimizer"] == "AdamW"]
    assert (told["step"], told["optimizer_step"]) == (3, 103)


def test_groups_added_later_are_under_what_was_meant_for_all(agent: Agent, job: Job) -> None:
    agent.tuning.apply({"mode": "scale", "value": 0.5})
    for lr in (1.0, 2.0):
        late = nn.Parameter(torch.ones(2))
        late.grad = torch.ones(2)
        job.optimizer.add_param_group({"params": [late], "lr": lr})
        job.step()
    assert job.used == [[0.05, 0.1, 0.5], [0.05, 0.1, 0.5, 1.0]]
    agent.tuning.apply({"mode": "release", "groups": [2]})
    job.step()
    assert job.used[-1] == [0.05, 0.1, 1.0, 1.0]
    assert job.scheduled() == [0.1, 0.2, 1.0, 2.0]


def test_a_group_added_under_an_action_on_one_group_is_left_alone(agent: Agent, job: Job) -> None:
    agent.tuning.apply({"mode": "scale", "value": 0.5, "groups": [0]})
    job.optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))], "lr": 1.0})
    job.step()
    assert job.used == [[0.05, 0.2, 1.0]]


def test_one_of_two_optimizers(agent: Agent) -> None:
    generator, critic = Job(), Job()
    for job in (generator, critic):
        job.step()
    rows = agent.tuning.apply({"mode": "scale", "value": 0.5, "optimizers": [1]})
    assert {r["optimizer"] for r in rows} == {1}
    for job in (generator, critic):
        job.step()
    assert generator.used[-1] == [0.1, 0.2]
    assert critic.used[-1] == [0.05, 0.1]
    assert no_hook_is_left(agent, generator) is False
    assert "step" not in vars(generator.optimizer)
    agent.tuning.apply({"mode": "scale", "value": 0.1, "optimizers": [0]})
    assert [r["optimizer"] for r in agent.tuning.report()["in_force"]] == [1, 1, 0, 0]
    agent.tuning.apply({"mode": "release", "setting": None})
    assert no_hook_is_left(agent, generator)
    assert no_hook_is_left(agent, critic)


def test_weight_decay(agent: Agent) -> None:
    for cls in (torch.optim.SGD, torch.optim.AdamW, torch.optim.Adam):
        results = []
        for live in (False, True):  # in force until released: also on one that takes its place
            torch.manual_seed(1)
            parameter = nn.Parameter(torch.randn(5))
            optimizer = cls([parameter], lr=0.1, weight_decay=0.1)  # type: ignore[operator]
            for step in range(4):
                parameter.grad = torch.randn(5)
                if step == 2 and live:
                    alive = agent.objects.find().optimizers()
                    index = next(i for i, o in enumerate(alive) if o is optimizer)
                    change = {"setting": "weight_decay", "mode": "hold", "value": 0.02, "optimizers": [index]}
                    assert agent.tuning.apply(change)[0]["before"] == 0.1
                if step == 2 and not live:
                    optimizer.param_groups[0]["weight_decay"] = 0.02
                optimizer.step()
            results.append(parameter.detach().numpy().tobytes())
            if live:
                assert optimizer.param_groups[0]["weight_decay"] == 0.1
        assert results[0] == results[1]


def test_export_and_adopt(agent: Agent, job: Job) -> None:
    agent.tuning.apply({"mode": "scale", "value": 0.5})
    agent.tuning.apply({"mode": "hold", "groups": [1]})
    agent.tuning.apply(CLIP)
    exported = json.loads(json.dumps(agent.tuning.export()))
    assert {"optimizer": 0, "class": "SGD", "group": 1, "setting": "lr", "mode": "hold", "value": 0.1} in exported
    agent.tuning.apply({"mode": "release", "setting": None})
    agent.tuning.adopt(exported)
    job.optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))], "lr": 1.0})
    job.step()
    assert job.used == [[0.05, 0.1, 0.5]]
    assert float(torch.cat([p.grad for p in job.parameters if p.grad is not None]).norm()) == pytest.approx(1.0)
    assert sorted(map(str, agent.tuning.export())) == sorted(map(str, [*exported, late(exported)]))
    with pytest.raises(Refused, match="of class AdamW; there is no such one"):
        agent.tuning.adopt([{**exported[0], "class": "AdamW"}])
    with pytest.raises(Refused, match="must not be negative"):
        agent.tuning.adopt([{**exported[0], "value": -1.0}])


def late(exported: list[dict[str, Any]]) -> dict[str, Any]:
    (for_later,) = [part for part in exported if part["group"] is None and part["setting"] == "lr"]
    return {**for_later, "group": 2}


def test_an_optimizer_that_is_given_up_is_not_kept(agent: Agent) -> None:
    job = Job()
    other = Job()
    agent.tuning.apply({"mode": "scale", "value": 0.5})
    assert agent.tuning.active
    gone = weakref.ref(job.optimizer)
    del job
    gc.collect()
    assert gone() is None
    notes = [str(r["note"]) for r in agent.tuning.report()["in_force"]]
    assert sorted(set(notes)) == ["", "its optimizer is gone: it goes over to the SGD that takes its place"]
    for _ in range(WAIT_STEPS + 2):
        other.step()
    assert other.used[:1] == [[0.05, 0.1]]
    assert {r["optimizer"] for r in agent.tuning.report()["in_force"]} == {0}, "none came in its place"
    gone = weakref.ref(other.optimizer)
    del other
    gc.collect()
    assert gone() is None
    assert agent.tuning.export() == []
    assert agent.tuning.apply({"mode": "release", "setting": None}) != []
    assert not agent.tuning.active


def test_the_lr_probe_shows_both(agent: Agent, job: Job) -> None:
    agent.tuning.apply({"mode": "scale", "value": 0.5, "groups": [1]})
    agent.tuning.apply({"setting": "weight_decay", "mode": "hold", "value": 0.01, "force": True})
    answer = agent.call("lr", {})
    groups = answer["optimizers"][0]["groups"]
    assert [(g["lr"], g["scheduled"], g["effective_lr"]) for g in groups] == [(0.1, 0.1, 0.1), (0.2, 0.2, 0.1)]
    assert [(g["weight_decay"], g["effective_weight_decay"]) for g in groups] == [(0, 0.01), (0, 0.01)]
    assert [r["action"] for r in answer["in_force"]] == ["scale 0.5", "hold 0.01", "hold 0.01"]
    assert len(answer["log"]) == 2


def test_the_agent_stays_while_something_is_in_force(agent: Agent, job: Job) -> None:
    agent.keep = False
    assert not agent.needed
    agent.tuning.apply({"mode": "scale", "value": 0.5})
    assert agent.needed
    assert agent.leave(0) is False
    agent.tuning.apply({"mode": "release"})
    assert not agent.needed
    agent.keep = True
    del job


# --- the action -------------------------------------------------------------------------------------------------------


def test_tune_is_done_at_the_agreed_boundary(agent: Agent, job: Job) -> None:
    change = {"mode": "scale", "value": 0.5}
    preview = agent.call("tune", {"ident": "a", "change": change, "after_step": 3})
    assert [r["after"] for r in preview["rows"]] == [0.05, 0.1]
    assert agent.call("tune", {"do": "outcome", "ident": "a"})["done"] is False
    for _ in range(100):
        job.step()  # without a loader, the beginning of a step is a boundary after 64 of them
    outcome = agent.call("tune", {"do": "outcome", "ident": "a"})
    assert outcome["done"] is True
    assert outcome["value"] == preview["rows"]
    assert job.used[outcome["at_step"] - 1 : outcome["at_step"] + 1] == [[0.1, 0.2], [0.05, 0.1]]
    report = agent.call("tune", {"do": "report"})
    assert report["log"][0]["step"] == outcome["at_step"] + 1


def test_tune_can_be_taken_back_before(agent: Agent, job: Job) -> None:
    agent.call("tune", {"ident": "a", "change": {"mode": "scale", "value": 0.5}, "after_step": 3})
    agent.call("tune", {"do": "abort", "ident": "a"})
    for _ in range(70):
        job.step()
    assert {tuple(u) for u in job.used} == {(0.1, 0.2)}
    with pytest.raises(Refused, match="there is no 'that'"):
        agent.call("tune", {"do": "that"})


def test_tune_now_is_for_a_job_that_stands_still(agent: Agent, job: Job) -> None:
    job.step()
    answer = agent.call("tune", {"do": "now", "change": {"mode": "scale", "value": 0.5}})
    assert answer["step"] == 2
    job.step()
    assert job.used == [[0.1, 0.2], [0.05, 0.1]]
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            sum(range(1000))

    busy = threading.Thread(target=compute)
    busy.start()
    try:
        with pytest.raises(Refused, match="the job is computing"):
            agent.call("tune", {"do": "now", "change": {"mode": "release"}})
    finally:
        stop.set()
        busy.join(10)
    assert agent.tuning.active


# --- refused ----------------------------------------------------------------------------------------------------------

GROUP = "optimizer 0 (SGD), group 0"
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"mode": "hold", "value": -0.1}, "the learning rate must not be negative, and -0.1 is"),
    ({"mode": "hold", "value": math.nan}, "the learning rate must be finite, and nan is not"),
    ({"mode": "scale", "value": math.inf}, "the factor for the learning rate must be finite, and inf is not"),
    ({"mode": "scale", "value": -1}, "the factor for the learning rate must not be negative, and -1 is"),
    ({"mode": "scale"}, "scaling needs a factor"),
    ({"mode": "hold", "value": "0.1"}, "the learning rate must be a number, and not a str"),
    ({"mode": "hold", "value": True}, "the learning rate must be a number, and not a bool"),
    ({"mode": "hold", "value": 11}, f"11 is 110 times larger than the learning rate of {GROUP} now, 0.1"),
    ({"mode": "scale", "value": 1e-3}, f"0.0001 is 1000 times smaller than the learning rate of {GROUP} now, 0.1"),
    ({"mode": "hold", "value": 0}, f"with a learning rate of 0, {GROUP} would learn nothing any more"),
    ({"mode": "hold", "value": 0.1, "optimizers": [1]}, "there is no optimizer 1; there are 0 (SGD)"),
    ({"mode": "hold", "value": 0.1, "groups": [0, 2]}, "optimizer 0 (SGD) has no group 2; it has groups 0 to 1"),
    ({"mode": "hold", "value": 0.1, "groups": [-1]}, "optimizer 0 (SGD) has no group -1; it has groups 0 to 1"),
    ({"mode": "hold", "value": 0.1, "groups": []}, "groups are named by a list of their numbers"),
    ({"mode": "hold", "value": 0.1, "optimizers": 0}, "optimizers are named by a list of their numbers"),
    ({"mode": "hold", "value": 0.1, "setting": "momentum"}, "there is no setting 'momentum'; there are lr, weight_decay, clip_norm"),
    ({"mode": "set", "value": 0.1}, "there is no way 'set' to change a value; there are hold, scale, release, undo"),
    ({"mode": "hold", "value": 0.1, "why": 1}, "a change is an object with setting, mode, value, optimizers, groups, force"),
    ({"setting": "weight_decay", "mode": "hold", "value": -1}, "the weight decay must not be negative, and -1 is"),
    ({"setting": "weight_decay", "mode": "hold", "value": 1}, f"the weight decay of {GROUP} is 0 now, so a slip cannot be told from a wish"),  # noqa: E501
    ({"setting": "clip_norm", "mode": "hold", "value": 0}, "clipping at norm 0 would take all gradients away"),
    ({"setting": "clip_norm", "mode": "hold"}, "clipping needs the norm to clip at"),
    ({"setting": "clip_norm", "mode": "scale", "value": 0.1}, "clipping needs the norm to clip at"),
    ({**CLIP, "groups": [0]}, "gradients are clipped by the norm over all groups of an optimizer"),
    ({"mode": "undo"}, "nothing has been changed, so there is nothing to undo"),
]  # fmt: skip


def test_nonsense_is_refused_with_one_line_and_nothing_is_changed(agent: Agent, job: Job) -> None:
    for change, cause in REFUSED:
        with pytest.raises(Refused) as refused:
            agent.tuning.apply(change)
        assert refused.value.cause == cause
        assert agent.tuning.report() == {"in_force": [], "log": []}
        assert no_hook_is_left(agent, job)


@each(
    ("change", "next_step"),
    [
        ({"mode": "undo"}, "`%lr` shows what is in force"),
        ({"mode": "undo", "setting": None}, "`%lr` shows what is in force"),
        ({"mode": "undo", "setting": "weight_decay"}, "`%weight_decay` shows what is in force"),
        ({"mode": "undo", "setting": "clip_norm"}, "`%clip` shows what is in force"),
        ({"mode": "hold", "value": 0.1, "groups": [7]}, "give one of those"),
        ({"mode": "hold", "value": 0.1, "optimizers": [7]}, "give one of those"),
    ],
)
def test_who_is_refused_is_told_what_to_do(agent: Agent, job: Job, change: dict[str, Any], next_step: str) -> None:
    with pytest.raises(Refused) as refused:
        agent.tuning.apply(change)
    assert refused.value.next_step == next_step


def test_check_changes_nothing(agent: Agent, job: Job) -> None:
    assert len(agent.tuning.check({"mode": "scale", "value": 0.5})) == 2
    assert agent.tuning.report() == {"in_force": [], "log": []}
    assert no_hook_is_left(agent, job)


def test_a_jump_is_measured_against_what_is_effective(agent: Agent, job: Job) -> None:
    agent.tuning.apply({"mode": "hold", "value": 0.002})
    agent.tuning.apply({"mode": "hold", "value": 0.00002})
    with pytest.raises(Refused, match=r"0\.1 is 5000 times larger"):
        agent.tuning.apply({"mode": "hold", "value": 0.1})
    rows = agent.tuning.apply({"mode": "hold", "value": 0.1, "force": True})
    assert (rows[0]["before"], rows[0]["after"]) == (0.00002, 0.1)
    agent.tuning.apply({"mode": "scale", "value": 0.0, "force": True})
    with pytest.raises(Refused, match="is 0 now"):
        agent.tuning.apply({"mode": "hold", "value": 0.1})
    del job


def test_a_jump_to_exactly_a_hundredth_is_none(agent: Agent) -> None:
    job = Job(0.07, torch.tensor(0.07))
    agent.tuning.apply({"mode": "scale", "value": 0.01})
    del job


def test_weight_decay_may_be_switched_off(agent: Agent) -> None:
    job = Job(weight_decay=0.1)
    assert agent.tuning.apply({"setting": "weight_decay", "mode": "hold", "value": 0})[0]["after"] == 0.0
    del job


def test_scaling_a_schedule_that_is_at_zero_needs_no_force(agent: Agent) -> None:
    job = Job(0.0, 0.0)
    assert [r["after"] for r in agent.tuning.apply({"mode": "scale", "value": 0.5})] == [0.0, 0.0]
    with pytest.raises(Refused, match="is 0 now"):
        agent.tuning.apply({"mode": "hold", "value": 0.5})
    del job


def test_no_optimizer(agent: Agent) -> None:
    with pytest.raises(Refused, match="no optimizer was found"):
        agent.tuning.check({"mode": "scale", "value": 0.5})


def test_what_has_no_weight_decay(agent: Agent) -> None:
    optimizer = torch.optim.LBFGS([nn.Parameter(torch.ones(1))])
    with pytest.raises(Refused, match=r"group 0 of optimizer 0 \(LBFGS\) has no weight decay of its own"):
        agent.tuning.check({"setting": "weight_decay", "mode": "hold", "value": 0.1})
    del optimizer


def test_one_tensor_shared_by_two_groups(agent: Agent) -> None:
    shared = torch.tensor(0.1)
    job = Job(shared, shared)
    with pytest.raises(Refused, match=r"groups 0, 1 of optimizer 0 \(SGD\) share one tensor as their learning rate"):
        agent.tuning.apply({"mode": "scale", "value": 0.5, "groups": [1]})
    agent.tuning.apply({"mode": "scale", "value": 0.5})
    job.step()
    assert job.used == [[float(shared) * 0.5] * 2]
    agent.tuning.apply({"mode": "hold"})
    job.step()
    assert job.used[1] == job.used[0]
    assert job.optimizer.param_groups[0]["lr"] is shared
    assert float(shared) == float(torch.tensor(0.1))


def test_a_learning_rate_that_is_being_trained(agent: Agent) -> None:
    job = Job(torch.tensor(0.1, requires_grad=True), 0.1)
    with pytest.raises(Refused, match="is itself being trained"):
        agent.tuning.check({"mode": "scale", "value": 0.5})
    del job


def test_undoing_one_setting_does_not_undo_another(agent: Agent) -> None:
    job = Job(0.1, 0.2)
    agent.tuning.apply({"mode": "scale", "value": 0.5})
    agent.tuning.apply({"setting": "clip_norm", "mode": "hold", "value": 1.0})
    with pytest.raises(Refused, match="the last change was one of the norm to clip at"):
        agent.tuning.check({"setting": "lr", "mode": "undo"})
    agent.tuning.apply({"setting": "clip_norm", "mode": "undo"})
    agent.tuning.apply({"setting": "lr", "mode": "undo"})
    assert agent.tuning.report()["in_force"] == []
    del job


def test_reports_while_the_training_runs(agent: Agent) -> None:
    """A client asks all the time while values come and go; it must never see an effective value for a scheduled one."""
    job, seen, errors = Job(torch.tensor(0.1), 0.2), [0], []
    agent.tuning.apply({"mode": "scale", "value": 0.5})
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            try:
                rows = agent.tuning.report()["in_force"]
                assert [r["scheduled"] for r in rows] == [pytest.approx(0.1), 0.2], rows
                assert [g["lr"] for g in agent.tuning.scheduled_groups(job.optimizer)] == [pytest.approx(0.1), 0.2]
                seen[0] += 1
            except BaseException as e:
                errors.append(e)
                return

    client = threading.Thread(target=ask)
    client.start()
    while seen[0] < 300 and not errors:
        job.step()
    stop.set()
    client.join(10)
    assert errors == []
