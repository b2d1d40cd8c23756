"""The growth verdict on curves whose truth is known."""

from __future__ import annotations

import random

import pytest
from cases import each

from jupyter_traindbg.diagnose.soundness.memory import (
    LEAST,
    WARM_UP,
    WINDOW,
    Curve,
    Recorded,
    curves,
    findings,
    verdict,
)

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
    ranks = [Curve(n, 100 + n, "host", verdict(noisy(leak(0.2 * n), n))) for n in range(3)]
    (finding,) = findings(ranks)
    assert list(finding.who) == ["rank 1", "rank 2"]
    assert word in finding.title
    assert "rank 2" in finding.title
    assert all("rank" in line for line in finding.evidence)
    assert findings(ranks[:1]) == []


# --- fewer steps than it takes to be sure --------------------------------------------------------------------------

SHORT = WARM_UP + LEAST + 10
OLD = 5000
"""The step of an optimizer that warmed up long ago."""


@each("seed", range(20))
def test_a_large_leak_is_told_early(seed: int) -> None:
    growth = verdict(noisy(leak(2.0), seed)[:SHORT])
    assert growth.grows is True
    assert growth.steps < WINDOW
    (finding,) = findings([Curve(0, 100, "host", growth)])
    assert finding.confidence == "low"


@each("seed", range(20))
@each(
    "shape",
    [FLAT, WARMING, SAWTOOTH, [100 * (1 - 0.96**n) * MIB for n in range(200)]],
    ids=["flat", "warming", "sawtooth", "saturating"],
)
def test_nothing_is_called_a_leak_early_that_is_none(shape: list[float], seed: int) -> None:
    for steps in range(1, WARM_UP + WINDOW - 1, 7):
        assert verdict(noisy(shape, seed)[:steps], own_step=OLD).grows is not True
        assert verdict(noisy(shape, seed)[:steps]).grows is not True


def test_a_process_that_has_trained_for_long_needs_no_warm_up() -> None:
    rising = noisy(leak(2.0), 1)[: LEAST + 10]
    assert verdict(rising).grows is None
    assert verdict(rising, own_step=OLD).grows is True


def test_a_rise_that_is_too_short_says_how_many_steps_would_settle_it() -> None:
    assert verdict(noisy(leak(2.0), 1)[:30], own_step=OLD).wanted == LEAST - 30 + 8
    assert verdict(noisy(FLAT, 1)[:30], own_step=OLD).wanted == 0


def test_mapped_files_that_are_read_are_no_leak() -> None:
    growth = verdict(noisy(leak(2.0), 1), mapped_bytes=300 * MIB)
    assert growth.grows is False
    assert "mapped files" in growth.words


def test_cuda_memory_is_judged_of_its_own() -> None:
    recorded = Recorded(noisy(FLAT, 1), noisy(leak(1.0), 2), 1, None, 0)
    host, cuda = curves(3, 103, recorded)
    assert (host.growth.grows, cuda.growth.grows) == (False, True)
    (finding,) = findings([host, cuda])
    assert "CUDA" in finding.title
    assert list(finding.who) == ["rank 3"]
