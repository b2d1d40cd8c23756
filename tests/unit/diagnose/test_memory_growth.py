"""The growth verdict on curves whose truth is known."""

from __future__ import annotations

import random

import pytest
from cases import each

from jupyter_traindbg.diagnose.memory_growth import WARM_UP, WINDOW, findings, verdict
from jupyter_traindbg.model import NotAvailable, RankMemory

MIB = 2**20
BASE = 500 * MIB


def noisy(shape: list[float], seed: int) -> list[int]:
    noise = random.Random(seed)
    return [int(BASE + level + noise.gauss(0, 0.3 * MIB)) for level in shape]


def leak(mib_per_step: float) -> list[float]:
    return [step * mib_per_step * MIB for step in range(200)]


FLAT = [0.0] * 200
WARMING = [min(step, WARM_UP) * 5.0 * MIB for step in range(200)]
SAWTOOTH = [(step % 20) * 2.0 * MIB for step in range(200)]


@each("seed", range(50))
def test_leaks_are_found_and_the_rate_is_right(seed: int) -> None:
    rate = 0.05 * (1 + seed % 10)
    growth = verdict(noisy(leak(rate), seed))
    assert growth.grows is True
    assert growth.bytes_per_step == pytest.approx(rate * MIB, rel=0.2)


@each("shape", [FLAT, WARMING, SAWTOOTH], ids=["flat", "warming", "sawtooth"])
@each("seed", range(50))
def test_no_alarm_where_nothing_leaks(shape: list[float], seed: int) -> None:
    assert verdict(noisy(shape, seed)).grows is False


def test_too_few_steps_are_no_verdict() -> None:
    growth = verdict([BASE] * (WARM_UP + WINDOW - 1))
    assert growth.grows is None
    assert "199 of 200" in growth.words


def test_a_ring_that_has_lost_its_warm_up_needs_none() -> None:
    assert verdict([BASE] * WINDOW, first_step=5000).grows is False


@pytest.mark.parametrize(("language", "word"), [("en", "keeps growing"), ("zh", "持续增长")])
def test_the_finding_names_the_growing_ranks_in_both_languages(
    monkeypatch: pytest.MonkeyPatch, language: str, word: str
) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", language)
    ranks = [RankMemory(n, 100 + n, BASE, BASE, (), NotAvailable("no CUDA"), ()) for n in range(3)]
    growths = [verdict(noisy(leak(0.2 * n), n)) for n in range(3)]
    (finding,) = findings(list(zip(ranks, growths, strict=True)))
    assert list(finding.who) == ["rank 1", "rank 2"]
    assert word in finding.title
    assert "rank 2" in finding.title
    assert all("rank" in line for line in finding.evidence)
    assert findings([(ranks[0], growths[0])]) == []
