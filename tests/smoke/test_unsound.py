"""A training that runs and is not sound, one that is slow on one rank, and one in which nothing is wrong. All faults: tests/scenes."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults import FAULTS, ask, assert_right, faulty, of_fault
from support import Start

DECIDING = ("lr", "scaler", "slow-item")


@pytest.mark.parametrize("name", DECIDING)
def test_the_first_finding_is_the_fault(name: str, tmp_path: Path) -> None:
    fault = next(fault for fault in FAULTS if fault.name == name)
    assert_right(of_fault(fault, tmp_path), fault)


def test_nothing_is_found_where_nothing_is_wrong(tmp_path: Path) -> None:
    with faulty("none", tmp_path, ready="iter 20:") as program:
        answer = ask(str(program.pid))
    assert (answer.status, answer.codes) == (0, []), answer.told


def test_a_training_without_an_optimizer_is_looked_at_all_the_same(start: Start) -> None:
    answer = ask(str(start("odd_steps.py", "by-hand", "--sleep", "0.02").pid))
    assert (answer.status, answer.codes, answer.result["state"]) == (0, [], "healthy"), answer.told
    looked = {check["topic"]: check["state"] for check in answer.result["checks"]}
    assert (looked["loss"], looked["gradients"], looked["learning rate"]) == ("fine", "fine", "not known"), answer.told
