"""`traindbg diagnose`, cold, on real trainings that run with one real thing wrong, and on such in which nothing is."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from faults import FAULTS, SOUND, Fault, ask, assert_right, faulty, of_fault, sound
from support import need

NEEDS = {"trainer": "transformers", "with_accelerate": "accelerate", "with_lightning": "lightning"}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_first_finding_is_the_fault(fault: Fault, tmp_path: Path) -> None:
    assert_right(of_fault(fault, tmp_path), fault)


def assert_sound(target: str) -> None:
    answer = ask(target)
    assert (answer.status, answer.codes, answer.result["state"]) == (0, [], "healthy"), answer.told
    checks = {check["verb"]: check["state"] for check in answer.result["checks"] if check["verb"] != "memory"}
    assert set(checks.values()) == {"fine"}, answer.told


@pytest.mark.parametrize("name", SOUND)
def test_nothing_is_found_where_nothing_is_wrong(name: str, tmp_path: Path) -> None:
    if name in NEEDS:
        need(NEEDS[name], importlib.util.find_spec(NEEDS[name]) is not None)
    with sound(name, tmp_path) as program:
        assert_sound(str(program.pid))


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_same_program_without_a_fault_is_healthy(ranks: int, tmp_path: Path) -> None:
    with faulty("none", tmp_path, ready="iter 20:", ranks=ranks) as program:
        assert_sound(f"torchrun:{program.pid}" if ranks > 1 else str(program.pid))
