"""The development set of real logs: how often the first finding names the root, no false alarm, and nothing of it in the product."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from jupyter_traindbg.diagnose.log import knowledge

REPO = Path(__file__).parents[4]
DEVELOPMENT = REPO.parent / "shared" / "corpus" / "failures.jsonl"
LEAST = 0.95
SHORT = 100
"""Characters: a message of a library that has no number or name in it is the same for everybody."""

pytestmark = pytest.mark.skipif(not DEVELOPMENT.is_file(), reason="the development set is not beside this repository")


@pytest.fixture(scope="module")
def corpus() -> ModuleType:
    sys.path.insert(0, str(REPO / "benchmarks"))
    try:
        import corpus  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    module: ModuleType = corpus
    return module


def test_the_first_finding_names_the_root_failure(corpus: ModuleType) -> None:
    answers = [corpus.ours(labelled) for labelled in corpus.load(DEVELOPMENT)]
    failed = [a for a in answers if a.labelled.cls != "healthy"]
    right = sum(a.right(1) for a in failed)
    assert right >= LEAST * len(failed), "\n".join(corpus.wrong(answers))


def test_a_healthy_log_gives_no_finding(corpus: ModuleType) -> None:
    answers = [corpus.ours(x) for x in corpus.load(DEVELOPMENT) if x.cls == "healthy"]
    assert [(a.labelled.id, a.codes) for a in answers if a.codes] == []


def test_the_guides_keywords_name_fewer(corpus: ModuleType) -> None:
    labelled = [x for x in corpus.load(DEVELOPMENT) if x.cls != "healthy"]
    assert 2 * sum(corpus.theirs(x).right(1) for x in labelled) < sum(corpus.ours(x).right(1) for x in labelled)


def test_no_example_is_copied_from_the_logs(corpus: ModuleType) -> None:
    logs = ["".join(x.log.split()) for x in corpus.load(DEVELOPMENT)]
    copied = []
    for family in knowledge.families().values():
        for signal in (*family.signals, *family.refutes):
            text = "".join(signal.example.split())
            if len(text) >= SHORT and any(text in log for log in logs):
                copied.append(f"{family.code}.{signal.id}")
    assert copied == [], "write examples of the same shape with names and numbers of their own"


def test_the_tables_of_the_benchmark(corpus: ModuleType) -> None:
    labelled = corpus.load(DEVELOPMENT)[::10]
    rows = [r.cells() for r in corpus.rows([corpus.ours(x) for x in labelled], [corpus.theirs(x) for x in labelled])]
    assert any(cells[0] == "failures, top 3" and cells[1].endswith("%") for cells in rows)
    held, notes = corpus.held_out(labelled)
    assert {r.what for r in held} == {f"without {x.cls}" for x in labelled if x.cls != "healthy"}
    assert all(int(r.other) == 0 for r in held), "less knowledge gives no false alarm"
    assert "Logs of the family that was away" in notes[0]
