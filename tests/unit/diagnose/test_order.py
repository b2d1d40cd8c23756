"""The order of verdicts on a job: every one that a rule gives has its place, and explains only what stands behind it."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

from support import REPO

from jupyter_traindbg.diagnose import soundness
from jupyter_traindbg.diagnose.hang.order import ROOT_FIRST, symptoms

FILES = [
    f for part in ("hang", "soundness", "collectives") for f in (REPO / "jupyter_traindbg/diagnose" / part).glob("*.py")
]
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
            parts = (part for a in given for part in ast.walk(a))
            yield from (p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str))


def declared_in(file: Path) -> list[str]:
    name = ".".join(file.relative_to(REPO).with_suffix("").parts).removesuffix(".__init__")
    return list(getattr(importlib.import_module(name), "EXPLAINS", {}))


def test_every_code_of_a_rule_has_its_place() -> None:
    given = {code for file in FILES for code in codes_in(file)}
    assert len(given) > 25
    assert (given | soundness.CODES) - set(ROOT_FIRST) == set()


def test_one_module_says_what_a_code_explains_and_it_is_one_that_gives_it() -> None:
    declared = [(code, file) for file in FILES for code in declared_in(file)]
    assert sorted(code for code, _ in declared) == sorted(symptoms())
    given = {file: set(codes_in(file)) for _, file in declared}  # nothing where another package makes the finding
    assert [(code, file.name) for code, file in declared if given[file] and code not in given[file]] == []


def test_a_code_explains_codes_that_stand_behind_it() -> None:
    pairs = {(root, symptom) for root, told in symptoms().items() for symptom in told}
    assert {code for pair in pairs for code in pair} <= set(ROOT_FIRST)
    backwards = {(root, symptom) for root, symptom in pairs if ROOT_FIRST.index(root) > ROOT_FIRST.index(symptom)}
    assert {pair for pair in backwards if pair[0] != "environment"} == BEHIND  # that one moves up where it breaks a job
