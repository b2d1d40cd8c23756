"""A training that runs and is not sound, one that is slow on one rank, and one in which nothing is wrong. All faults: tests/scenes."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults import FAULTS, ask, assert_right, faulty, of_fault

DECIDING = ("lr", "scaler", "slow-item")


@pytest.mark.parametrize("name", DECIDING)
def test_the_first_finding_is_the_fault(name: str, tmp_path: Path) -> None:
    fault = next(fault for fault in FAULTS if fault.name == name)
    assert_right(of_fault(fault, tmp_path), fault)


def test_nothing_is_found_where_nothing_is_wrong(tmp_path: Path) -> None:
    with faulty("none", tmp_path, ready="iter 20:") as program:
        answer = ask(str(program.pid))
    assert (answer.status, answer.codes) == (0, []), answer.told
