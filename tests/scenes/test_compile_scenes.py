"""`traindbg diagnose`, cold, on jobs of which one rank compiles, exports or builds for long, and on some that only look so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from hangs import Answer, Answers, asking, assert_right

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
pytestmark = pytest.mark.timeout(300)  # each waits for its own scene, which others may be in front of


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answers]:
    with asking(SELECTED, tmp_path_factory.mktemp, alone=ALONE) as asked:
        yield asked


@pytest.mark.parametrize("name", SELECTED)
def test_the_first_finding_names_cause_rank_and_line_and_says_why(answers: Mapping[str, Answer], name: str) -> None:
    assert_right(answers[name], name)
