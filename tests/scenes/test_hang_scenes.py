"""`traindbg diagnose`, cold, on real jobs with one real thing wrong: tests/programs/hangs/. All of them: benchmarks/hangs.py."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hangs import HERE, Answer, Answers, Hang, asking, assert_right, judge, scene, scenes

SELECTED = {
    "loader_network": 4,
    "skipped_all_reduce": 3,
    "empty_tensor": 2,
    "killed": 2,
    "gil_sleep": 2,
    "half_stopped": 2,
    "new_group_order": 4,
    "slow_disk": 2,
    "subprocess_works": 2,
    "subprocess_polled": 2,
    "child_joined": 2,
    "event_loop": 2,
    "mesh_skipped": 4,
    "pipeline_order": 3,
    "lock_file_kept": 2,
    "store_key": 2,
    "answer_pending": 2,
    "marker_missing": 3,
    "key_not_set": 3,
    "tags_of_its_own": 4,
    "index_awaited": 2,
    "engine_ring": 2,
    "engine_workers": 2,
    "engine_untold": 4,
    "engine_works": 2,
    "engine_stopped": 2,
    "reward_chain": 2,
    "speechless": 2,
    "program_beside": 2,
    "stream_pauses": 2,
    "lines_pause": 2,
    "quota_spent": 3,
    "lock_behind_pipe": 2,
    "fsdp_evaluating": 3,
    "flag_polled": 2,
    "shards_counted": 2,
    "works_polled": 4,
    "two_roots": 3,
    "not_committed": 3,
    "mispaired_save": 4,
    "mispaired_skip": 2,
    "mispaired_names": 2,
    "meant_branches": 4,
    "healthy": 2,
}
"""Scenes by number of ranks. Those that need scarce memory or a full disk: test_hang_scarce.py; of DDP: test_ddp_scenes.py;
that compile: test_compile_scenes.py."""
ALONE = "healthy"
"""With others that start beside it one of its ranks may well be slower than the other."""
pytestmark = pytest.mark.timeout(300)  # each waits for its own scene, which others may be in front of


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answers]:
    with asking(SELECTED, tmp_path_factory.mktemp, alone=ALONE) as asked:
        yield asked


@pytest.mark.parametrize("name", SELECTED)
def test_the_first_finding_names_cause_rank_and_line(answers: Mapping[str, Answer], name: str) -> None:
    assert_right(answers[name], name)


def test_the_evidence_says_what_the_others_wait_in(answers: Mapping[str, Answer]) -> None:
    assert any("all_reduce" in line or "allreduce" in line for line in answers["loader_network"].first["evidence"])


def test_a_killed_rank_is_named_with_its_signal(answers: Mapping[str, Answer]) -> None:
    first = answers["killed"].first
    assert "SIGKILL" in " ".join([first["title"], first["cause"], *first["evidence"]])


@pytest.mark.parametrize("name", [of.name for of in scenes() if of.functions])
def test_a_scene_marks_the_line_that_it_expects(name: str) -> None:
    of = scene(name)
    assert of.lines, f"{of.path} has no line that ends in {HERE!r}"
    source = of.path.read_text()
    assert any(f"def {function}(" in source for function in of.functions), of.functions


WRONG = {
    "another rank": {"who": ["rank 0"]},
    "one rank too many": {"who": ["rank 0", "rank 1"]},
    "another line": {"where": f"{scene('sleeping').path}:1 wait_for_quota"},
    "another function": {"where": "sleeping.py:{line} main"},
    "another cause": {"code": "lock_wait"},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_answer_is_judged_wrong(tmp_path: Path, wrong: str) -> None:
    of = scene("sleeping")
    (line,) = of.lines
    right = {"code": "python_wait", "who": ["rank 1"], "where": f"{of.path}:{line} wait_for_quota"}
    log = tmp_path / "log"
    log.write_text("culprit 1\nready\n")
    with subprocess.Popen(["true"], stdin=subprocess.PIPE) as process:
        hang = Hang(of, 2, process, log)
        assert judge(hang, {"state": "stuck", "findings": [right]}).right
        mistaken = {
            key: str(value).format(line=line) if key == "where" else value for key, value in WRONG[wrong].items()
        }
        assert not judge(hang, {"state": "stuck", "findings": [right | mistaken]}).right
        assert not judge(hang, {"state": "healthy", "findings": [right]}).right
        assert not judge(hang, {"state": "stuck", "findings": []}).right
