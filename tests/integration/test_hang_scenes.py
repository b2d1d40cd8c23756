"""`traindbg diagnose`, cold, on real jobs with one real thing wrong: tests/programs/hangs/. All of them: benchmarks/hangs.py."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hangs import HERE, NEED_ROOT, Hang, Judged, judge, parse, running, scene, scenes
from support import need

SELECTED = {
    "loader_network": 4,
    "skipped_all_reduce": 3,
    "empty_tensor": 2,
    "killed": 2,
    "gil_sleep": 2,
    "half_stopped": 2,
    "healthy": 2,
    "full_disk": 2,
    "full_shm": 2,
    "out_of_memory": 2,
    "swapping": 2,
}
"""Scenes by number of ranks."""
AT_ONCE = 3
"""They wait more than they work; but each rank costs two seconds of CPU to start."""
ALONE = "healthy"
"""With others that start beside it one of its ranks may well be slower than the other."""
pytestmark = pytest.mark.timeout(300)  # the scenes all run within the first test


@dataclass(frozen=True)
class Answer:
    """What the command said of one scene."""

    status: int
    said: str
    errors: str
    judged: Judged | None

    @property
    def first(self) -> dict[str, Any]:
        found: dict[str, Any] = parse(self.said)["findings"][0]
        return found


def ask(name: str, folder: Path) -> Answer | None:
    """Run a scene and diagnose it; None where this machine does not let us make it short of memory, as in most containers.

    A failure to answer is for the scene's own test to complain about.
    """
    with contextlib.ExitStack() as scenes_end:
        try:
            hang = scenes_end.enter_context(running(name, folder, world=SELECTED[name], launcher=_quick(name)))
        except (OSError, subprocess.CalledProcessError):
            if scene(name).launcher in NEED_ROOT:
                return None
            raise
        hang.wait_for("ready", 100)
        done = subprocess.run(
            [sys.executable, "-m", "jupyter_traindbg.cli", "diagnose", hang.target, "--json"],
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )
        judged = judge(hang, parse(done.stdout)) if done.stdout else None
        return Answer(done.returncode, done.stdout, done.stderr, judged)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Answer]:
    possible = [name for name in SELECTED if os.geteuid() == 0 or scene(name).launcher not in NEED_ROOT]
    folders = {name: tmp_path_factory.mktemp(name) for name in possible}
    together = [name for name in possible if name != ALONE]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = dict(zip(together, pool.map(ask, together, map(folders.__getitem__, together)), strict=True))
    asked[ALONE] = ask(ALONE, folders[ALONE])
    return {name: answer for name, answer in asked.items() if answer is not None}


def answer_of(name: str, answers: Mapping[str, Answer]) -> Answer:
    need("root with all its rights, for a small disk or little memory", name in answers)
    return answers[name]


def _quick(name: str) -> str:
    """The scene's launcher, or for torchrun the one that starts without loading torch."""
    own = scene(name).launcher
    return "patient" if own == "torchrun" else own


@pytest.mark.parametrize("name", SELECTED)
def test_the_first_finding_names_cause_rank_and_line(answers: Mapping[str, Answer], name: str) -> None:
    answer = answer_of(name, answers)
    assert answer.judged is not None, answer.errors
    assert answer.judged.right, f"{answer.judged}\n{answer.said}"
    assert answer.status == (1 if scene(name).codes else 0)
    assert answer.errors == ""


def test_the_evidence_says_what_the_others_wait_in(answers: Mapping[str, Answer]) -> None:
    assert any("all_reduce" in line or "allreduce" in line for line in answers["loader_network"].first["evidence"])


@pytest.mark.parametrize(("name", "code"), [("full_disk", "disk_full"), ("full_shm", "shm_full")])
def test_what_is_full_is_said_beside_who_waits(answers: Mapping[str, Answer], name: str, code: str) -> None:
    findings = parse(answer_of(name, answers).said)["findings"]
    assert [f["code"] for f in findings] == ["python_wait", code]


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
