"""Jobs that never begin, and one that only crawls, as they really are: tests/programs/hangs/startup_* and pace_*."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from hangs import Hang, judge, launch, scene

import jupyter_traindbg
from jupyter_traindbg.model import Diagnosis

SELECTED = {"startup_wrong_port": 2, "startup_port_taken": 2, "pace_straggler": 2}
"""Scenes by number of ranks."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, tuple[Hang, Diagnosis]]]:
    """They start side by side, which takes half the time; each is asked when it is ready, and ended when it has been asked."""
    hangs: list[Hang] = []
    answers = {}
    try:
        for name, world in SELECTED.items():
            of = scene(name)
            launcher = "patient" if of.launcher == "torchrun" else of.launcher
            hangs.append(launch(of, tmp_path_factory.mktemp(name), world=world, launcher=launcher))
        for hang in hangs:
            hang.wait_for("ready", 90)
            with jupyter_traindbg.attach(hang.target) as job:
                answers[hang.scene.name] = hang, job.diagnose()
            hang.stop()
        yield answers
    finally:
        for hang in hangs:
            hang.stop()


@pytest.mark.parametrize("name", SELECTED)
def test_cause_rank_and_line_are_right(told: Mapping[str, tuple[Hang, Diagnosis]], name: str) -> None:
    hang, diagnosis = told[name]
    judged = judge(hang, diagnosis.to_dict())
    assert judged.right, f"{judged}\n{diagnosis}"


def test_a_wrong_port_is_told_with_the_right_one(told: Mapping[str, tuple[Hang, Diagnosis]]) -> None:
    first = told["startup_wrong_port"][1].findings[0]
    assert first.title.startswith("Rank 1 looks for the job at 127.0.0.1:9, rank 0 at 127.0.0.1:")
    assert first.title.endswith(": nobody listens there")


def test_who_holds_the_port_is_named(told: Mapping[str, tuple[Hang, Diagnosis]]) -> None:
    first = told["startup_port_taken"][1].findings[0]
    assert "is taken by process " in first.title
    assert "-c import socket" in first.title
    assert any("EADDRINUSE" in line for line in first.evidence)


def test_a_straggler_is_told_with_its_ratio(told: Mapping[str, tuple[Hang, Diagnosis]]) -> None:
    diagnosis = told["pace_straggler"][1]
    assert diagnosis.state == "slow"
    assert " times as long as the others" in diagnosis.findings[0].title
