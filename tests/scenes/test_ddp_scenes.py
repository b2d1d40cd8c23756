"""`traindbg diagnose`, cold, on trainings with DistributedDataParallel of which one rank does not reduce what the others do, and why."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hangs import Answer, Answers, Hang, asking, assert_right, judge, scene

SELECTED = {
    "ddp_bare_module": 4,
    "ddp_label_reported": 2,
    "ddp_label_swallowed": 4,
    "ddp_loss_not_finite": 2,
    "ddp_modality_missing": 4,
    "ddp_one_validates": 4,
    "ddp_oom_handled": 2,
    "ddp_own_counter": 4,
    "ddp_second_view": 2,
}
"""Scenes by number of ranks."""
pytestmark = pytest.mark.timeout(300)  # each waits for its own scene, which others may be in front of


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answers]:
    with asking(SELECTED, tmp_path_factory.mktemp) as asked:
        yield asked


@pytest.mark.parametrize("name", SELECTED)
def test_the_first_finding_names_cause_rank_and_line_and_says_why(answers: Mapping[str, Answer], name: str) -> None:
    assert_right(answers[name], name)


def test_a_finding_that_leaves_out_what_the_scene_wants_said_is_judged_wrong(
    answers: Mapping[str, Answer], tmp_path: Path
) -> None:
    of, first = scene("ddp_modality_missing"), answers["ddp_modality_missing"].first
    rank = first["who"][0].removeprefix("rank ")
    (tmp_path / "log").write_text(f"culprit {rank}\n")
    with subprocess.Popen(["true"], stdin=subprocess.PIPE) as process:
        hang = Hang(of, 4, process, tmp_path / "log")
        assert judge(hang, {"state": "stuck", "findings": [first]}).cause
        silent = {**first, "evidence": [line for line in first["evidence"] if "image_tower" not in line]}
        assert not judge(hang, {"state": "stuck", "findings": [silent]}).cause
