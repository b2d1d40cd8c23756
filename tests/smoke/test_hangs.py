"""Who is to blame for a hang: four real ones, asked once from a cold shell. The others: tests/scenes and benchmarks/hangs.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from hangs import ask, assert_right

SCENES = ("loader_network", "skipped_all_reduce", "killed", "healthy")


@pytest.mark.parametrize("name", SCENES)
def test_the_first_finding_names_cause_rank_and_line(name: str, tmp_path: Path) -> None:
    assert_right(ask(name, tmp_path, world=2), name)
