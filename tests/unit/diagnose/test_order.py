"""The order of verdicts on a job: every one that a rule gives has its line, and explains only what stands behind it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from support import REPO

from jupyter_traindbg.diagnose import soundness
from jupyter_traindbg.diagnose.hang.order import EXPLAINS, ROOT_FIRST

RULES = [REPO / "jupyter_traindbg/diagnose" / part for part in ("hang", "soundness", "collectives")]
BEHIND = {
    ("swapping", "gil_held"),
    ("python_wait", "unequal_steps"),
    ("cpu_phase", "unequal_steps"),
    ("cpu_phase", "collective_not_issued"),
    ("scaler_skips", "nonfinite_gradient"),
}
"""Root and symptom the other way round: these are told as two findings."""


def codes_in(file: Path) -> Iterator[str]:
    """The codes that are written out where a `Finding` is made."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
            given = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "code")]
            yield from (a.value for a in given if isinstance(a, ast.Constant) and isinstance(a.value, str))


def test_every_code_of_a_rule_has_a_line() -> None:
    given = {code for folder in RULES for file in folder.glob("*.py") for code in codes_in(file)}
    assert len(given) > 25
    assert (given | soundness.CODES) - set(ROOT_FIRST) == set()


def test_a_code_explains_codes_that_stand_behind_it() -> None:
    pairs = {(root, symptom) for root, symptoms in EXPLAINS.items() for symptom in symptoms}
    assert {symptom for _, symptom in pairs} <= set(ROOT_FIRST)
    backwards = {(root, symptom) for root, symptom in pairs if ROOT_FIRST.index(root) > ROOT_FIRST.index(symptom)}
    assert {pair for pair in backwards if pair[0] != "environment"} == BEHIND  # that one moves up where it breaks a job
