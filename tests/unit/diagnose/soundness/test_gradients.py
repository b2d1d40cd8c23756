"""Verdicts on gradients, from evidence alone."""

from __future__ import annotations

import pytest

from jupyter_traindbg.diagnose.soundness.gradients import findings
from jupyter_traindbg.model import FirstNonFinite, GradStat, NotAvailable, RankGrads

MISSING = NotAvailable("none")


def rank(number: int, *grads: GradStat, first: FirstNonFinite | None = None) -> RankGrads:
    return RankGrads(number, 1000 + number, "after optimizer step 7", True, 1.0, grads, first)


def grad(name: str, nan: int = 0, inf: int = 0, norm: float = 1.0) -> GradStat:
    return GradStat(name, (2, 2), "float32", norm, MISSING, MISSING, nan, inf)


def test_finite_gradients_give_nothing() -> None:
    assert findings([rank(0, grad("a"), grad("b", norm=float("inf")))]) == [], "a norm alone is never a verdict"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_parameters_and_ranks_are_named(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", language)
    (finding,) = findings([rank(0, grad("a")), rank(3, grad("a", nan=2), grad("b", inf=1))])
    assert finding.code == "nonfinite_gradient"
    assert list(finding.who) == ["rank 3", "a", "b"]
    assert "2" in finding.evidence[0]
    assert "after optimizer step 7" in finding.evidence[0]
    assert (language == "zh") == any("\u4e00" <= c <= "\u9fff" for c in finding.title + finding.cause)


@pytest.mark.parametrize(
    ("inputs", "weights", "word"),
    [(True, False, "damaged"), (False, True, "inputs are already"), (True, True, "itself produced")],
)
def test_the_cause_follows_from_what_was_finite(inputs: bool, weights: bool, word: str) -> None:
    first = FirstNonFinite("head.log", "Log", inputs, weights, 12)
    finding, *rest = findings([rank(1, grad("a", nan=1), first=first)])
    assert finding.code == "nonfinite_activation", "the root cause comes first"
    assert list(finding.who) == ["rank 1", "head.log"]
    assert word in finding.cause
    assert [f.code for f in rest] == ["nonfinite_gradient"]
