"""`traindbg diagnose`, cold, on jobs of which one rank compiles, exports or builds for long, and on some that only look so."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hangs import Answer, ask, ask_all, assert_right

SELECTED = {
    "compile_each_length": 3,
    "compile_long_context": 3,
    "compile_new_length": 3,
    "compile_pool": 2,
    "compile_programs": 3,
    "compiler_waits": 2,
    "export_on_one": 3,
    "extension_builds": 2,
    "extension_lock_left": 3,
}
"""Scenes by number of ranks."""
ALONE = "compile_each_length"
"""How slow a rank is tells nothing beside others that have the CPUs."""
pytestmark = pytest.mark.timeout(300)  # the scenes all run within the first test


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Answer]:
    together = {name: world for name, world in SELECTED.items() if name != ALONE}
    return {
        **ask_all(together, tmp_path_factory.mktemp),
        ALONE: ask(ALONE, tmp_path_factory.mktemp(ALONE), world=SELECTED[ALONE]),
    }


@pytest.mark.parametrize("name", SELECTED)
def test_the_first_finding_names_cause_rank_and_line_and_says_why(answers: Mapping[str, Answer], name: str) -> None:
    assert_right(answers[name], name)
