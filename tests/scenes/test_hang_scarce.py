"""`traindbg diagnose`, cold, on real jobs that run short of memory or disk: what only root can make, and what a busy machine disturbs.

Each scene is run by its own test, so that one that failed can be run once more.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hangs import Answer, ask, assert_right, parse
from support import need

WORLD = 2
pytestmark = pytest.mark.timeout(300)


def answer_of(name: str, folder: Path) -> Answer:
    need("root, for a small disk or little memory", os.geteuid() == 0)
    try:
        return ask(name, folder, world=WORLD)
    except (OSError, subprocess.CalledProcessError):  # as in most containers
        need("a small disk, a control group with little memory, or swap", False)
        raise


@pytest.mark.parametrize("name", ["out_of_memory", "swapping"])
def test_the_first_finding_names_cause_rank_and_line(tmp_path: Path, name: str) -> None:
    assert_right(answer_of(name, tmp_path), name)


@pytest.mark.parametrize(("name", "code"), [("full_disk", "disk_full"), ("full_shm", "shm_full")])
def test_what_is_full_is_said_beside_who_waits(tmp_path: Path, name: str, code: str) -> None:
    answer = answer_of(name, tmp_path)
    assert_right(answer, name)
    assert [f["code"] for f in parse(answer.said)["findings"]] == ["python_wait", code]
