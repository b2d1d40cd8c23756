"""Boundaries between iterations, and what is done at an agreed one: on all ranks or on none, whoever dies."""

from __future__ import annotations

import itertools
import random
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from jupyter_traindbg.agent.agreed import ABORT, COMMIT, Agreed, decide
from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.refused import Refused
from jupyter_traindbg.agent.safepoint import NEXT_BATCH, NEXT_STEP, STEPS_WITHOUT_A_BATCH, SafePoints


def optimizer() -> Any:
    parameter = torch.nn.Parameter(torch.zeros(2))
    parameter.grad = torch.ones(2)
    return torch.optim.SGD([parameter], lr=0.1)


@pytest.fixture
def boundaries(agent: Agent) -> list[tuple[int, str]]:
    seen: list[tuple[int, str]] = []
    agent.safepoints.at_boundary.append(lambda where: seen.append((agent.recorder.step, where)))
    return seen


def test_without_a_loader_a_step_begins_the_next_iteration(boundaries: list[tuple[int, str]]) -> None:
    one = optimizer()
    for _ in range(4):
        one.step()
    assert boundaries == [(1, NEXT_STEP), (2, NEXT_STEP), (3, NEXT_STEP)]


def test_with_a_loader_the_fetch_after_a_step_is_the_boundary(boundaries: list[tuple[int, str]]) -> None:
    one = optimizer()
    one.step()  # from here on the training thread is known
    boundaries.clear()
    for _ in DataLoader(range(3), num_workers=0):
        one.step()
    assert boundaries == [(1, NEXT_BATCH), (2, NEXT_BATCH), (3, NEXT_BATCH), (4, NEXT_BATCH)]


def test_fetches_without_a_step_between_them_are_one_iteration(boundaries: list[tuple[int, str]]) -> None:
    one = optimizer()
    one.step()
    boundaries.clear()
    for i, _ in enumerate(DataLoader(range(8))):
        if i % 4 == 3:
            one.step()
    assert [step for step, _ in boundaries] == [1, 2, 3]


def test_two_optimizers_of_one_iteration_have_one_boundary(boundaries: list[tuple[int, str]]) -> None:
    critic, actor = optimizer(), optimizer()
    for _ in range(3):
        critic.step()
        actor.step()
    assert [step for step, _ in boundaries] == [2, 4]
    boundaries.clear()
    for _ in DataLoader(range(3)):
        critic.step()
        actor.step()
    assert [step for step, where in boundaries if where == NEXT_BATCH] == [6, 8, 10, 12]
    assert not [step for step, where in boundaries if where == NEXT_STEP]


def test_a_loader_that_is_done_with_gives_way_to_steps(boundaries: list[tuple[int, str]]) -> None:
    one = optimizer()
    one.step()
    for _ in DataLoader(range(2)):
        one.step()
    boundaries.clear()
    for _ in range(STEPS_WITHOUT_A_BATCH + 3):
        one.step()
    assert boundaries
    assert {where for _, where in boundaries} == {NEXT_STEP}


def test_an_optimizer_that_was_replaced_holds_nothing_up(boundaries: list[tuple[int, str]]) -> None:
    old, new = optimizer(), optimizer()
    old.step()
    for _ in range(STEPS_WITHOUT_A_BATCH + 4):
        new.step()
    assert [step for step, _ in boundaries][-3:] == [STEPS_WITHOUT_A_BATCH + i for i in (2, 3, 4)]


def test_a_loader_of_another_thread_is_no_boundary(boundaries: list[tuple[int, str]]) -> None:
    one = optimizer()
    one.step()
    other = threading.Thread(target=lambda: list(DataLoader(range(3))))
    other.start()
    other.join(20)
    assert boundaries == []


def test_a_closure_can_be_wrapped_however_it_is_given(agent: Agent) -> None:
    calls: list[str] = []
    agent.safepoints.wrap_closure = lambda _, closure: lambda: (calls.append("ours"), closure())[1]
    one = optimizer()
    assert one.step(lambda: calls.append("theirs") or 1.5) == 1.5
    assert one.step(closure=lambda: calls.append("theirs") or 2.5) == 2.5
    assert one.step() is None
    assert calls == ["ours", "theirs", "ours", "theirs"]


# --- the decision -----------------------------------------------------------------------------------------------------


def test_the_first_to_decide_wins_for_everybody(tmp_path: Path) -> None:
    for attempt in range(30):
        path, answers = str(tmp_path / f"decision-{attempt}"), []
        barrier = threading.Barrier(4)

        def one(
            wish: str, path: str = path, answers: list[str] = answers, barrier: threading.Barrier = barrier
        ) -> None:
            barrier.wait(10)
            answers.append(decide(path, wish))

        threads = [threading.Thread(target=one, args=(wish,)) for wish in (COMMIT, ABORT, ABORT, COMMIT)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert len(answers) == 4
        assert len(set(answers)) == 1
        assert {file.name for file in tmp_path.iterdir()} == {f"decision-{i}" for i in range(attempt + 1)}


class FakeRecorder:
    step = 0


def rank() -> tuple[SafePoints, FakeRecorder, Agreed]:
    safepoints, recorder = SafePoints(), FakeRecorder()
    agreed = Agreed(safepoints, recorder)  # type: ignore[arg-type]
    agreed.open()
    return safepoints, recorder, agreed


def boundary(safepoints: SafePoints, recorder: FakeRecorder) -> None:
    recorder.step += 1
    safepoints._pass_boundary(NEXT_BATCH)


@pytest.mark.parametrize("seed", range(40))
def test_all_ranks_or_none_in_any_order_of_events(tmp_path: Path, seed: int) -> None:
    """Three ranks step and one coordinator decides, in random order; the coordinator may die anywhere (``live`` events of it happen)."""
    chance = random.Random(seed)
    ranks = [rank() for _ in range(3)]
    done: list[set[int]] = [set() for _ in ranks]
    path, at = str(tmp_path / "decision"), 5

    def prepare(i: int) -> None:
        step = ranks[i][1]
        ranks[i][2].prepare("x", at, path, lambda: done[i].add(step.step))

    acts = [lambda i=i: prepare(i) for i in range(3)] + [lambda: decide(path, COMMIT)]
    live = chance.randint(0, len(acts))
    events = [("coordinator", None)] * live + [("rank", i) for i in range(3) for _ in range(8)]
    chance.shuffle(events)
    coming, refused = iter(acts), False
    for kind, i in events:
        if kind == "rank":
            boundary(*ranks[i][:2])  # type: ignore[misc]
        elif not refused:
            try:
                next(coming)()
            except Refused:
                refused = True
                decide(path, ABORT)
    assert done in ([{at}] * 3, [set()] * 3)
    for _, _, agreed in ranks:
        assert not agreed.waiting


def test_a_boundary_that_is_over_is_refused_at_once(tmp_path: Path) -> None:
    safepoints, recorder, agreed = rank()
    for _ in range(3):
        boundary(safepoints, recorder)
    with pytest.raises(Refused, match="step 3 was over"):
        agreed.prepare("late", 3, None, lambda: pytest.fail("it ran"))
    assert not agreed.waiting
    agreed.prepare("in time", 4, None, lambda: "value")
    boundary(safepoints, recorder)
    assert agreed.outcome("in time", 1.0) == {"done": True, "aborted": False, "at_step": 4, "value": "value"}


def test_after_step_0_is_the_next_boundary() -> None:
    safepoints, recorder, agreed = rank()
    boundary(safepoints, recorder)
    agreed.prepare("x", 0, None, lambda: "value")
    assert agreed.outcome("x", 0.0)["done"] is False
    boundary(safepoints, recorder)
    assert agreed.outcome("x", 1.0) == {"done": True, "aborted": False, "at_step": 2, "value": "value"}


def test_a_rank_that_alone_sees_no_boundary_is_not_later_than_the_others(agent: Agent) -> None:
    """It has evaluated with a DataLoader, and the training uses none: for a while a step is no boundary to it."""
    one = optimizer()
    one.step()
    for _ in DataLoader(range(2)):
        pass
    agent.agreed.prepare("exact", 3, None, lambda: agent.recorder.step, exact=True)
    agent.agreed.prepare("at a boundary", 3, None, lambda: agent.recorder.step)
    for _ in range(6):
        one.step()
    assert agent.agreed.outcome("exact", 1.0)["at_step"] == 3
    assert agent.agreed.outcome("at a boundary", 0.0)["done"] is False
    with pytest.raises(Refused, match="step 5 was over"):
        agent.agreed.prepare("late", 5, None, lambda: pytest.fail("it ran"), exact=True)
    agent.agreed.abort("at a boundary")


def test_a_coordinator_that_took_its_directory_along_means_no(tmp_path: Path) -> None:
    safepoints, recorder, agreed = rank()
    agreed.prepare("x", 1, str(tmp_path / "gone" / "decision"), lambda: pytest.fail("it ran"))
    boundary(safepoints, recorder)
    assert agreed.outcome("x", 1.0)["aborted"]


def test_an_error_of_what_is_done_goes_to_the_client(tmp_path: Path) -> None:
    safepoints, recorder, agreed = rank()
    agreed.prepare("x", 1, None, lambda: next(itertools.count(1)) / 0)
    boundary(safepoints, recorder)
    with pytest.raises(ZeroDivisionError):
        agreed.outcome("x", 1.0)
    with pytest.raises(Refused, match="nothing was prepared"):
        agreed.outcome("y", 0.0)
