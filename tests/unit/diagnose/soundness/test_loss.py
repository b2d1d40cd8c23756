"""Verdicts on the loss of a training that runs, from hand-made evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cases import each
from soundness_evidence import SKIPS, check, codes, judged, only, sound, step, steps

from jupyter_traindbg.model import NotAvailable

NAN = math.nan


def test_a_loss_that_is_nan_since_some_step() -> None:
    finding = only(judged(sound(steps=steps([2.0] * 30 + [NAN] * 10))))
    assert (finding.code, finding.severity) == ("nonfinite_loss", "critical")
    assert finding.title == "The loss is NaN since step 1,031 (31 since the attach)"
    assert (
        "rank 0: 10 of the last 40 losses are not finite; 2 at step 1,030 (30 since the attach), gradient norm there 1"
        in finding.evidence
    )


def test_a_loss_that_was_nan_when_we_came() -> None:
    found = judged(sound(0, steps=steps([NAN] * 5)), sound(1, steps=steps([NAN] * 5)))
    assert only(found).title == "The loss is NaN, at every step seen"
    assert list(only(found).who) == ["rank 0", "rank 1"]
    assert found.state == "unsound"


def test_a_loss_that_was_infinite_once_is_a_warning() -> None:
    finding = only(judged(sound(steps=steps([2.0] * 20 + [math.inf] + [2.0] * 19))))
    assert (finding.severity, finding.title) == (
        "warning",
        "The loss was Inf at step 1,021 (21 since the attach), and is finite again",
    )


def test_one_bad_loss_or_two_at_the_end_are_a_warning_yet() -> None:
    one = only(judged(sound(steps=steps([2.0] * 39 + [NAN]))))
    assert (one.severity, one.title) == ("warning", "The loss is NaN since step 1,040 (40 since the attach)")
    two = only(judged(sound(steps=steps([2.0, NAN, 2.0, NAN]))))
    assert two.title == "The loss is NaN since step 1,004 (4 since the attach)", "at 1003 it was finite"


def test_one_optimizer_of_two_has_lost_its_loss() -> None:
    both = [step(n, loss=NAN if n % 2 else 1.0, optimizer=n % 2) for n in range(1, 21)]
    assert only(judged(sound(steps=both))).code == "nonfinite_loss"


def test_a_loss_out_of_proportion_diverges() -> None:
    rising = [2.0 + 0.1 * (n % 3) for n in range(40)] + [300.0 + n for n in range(40)]
    finding = only(judged(sound(steps=steps(rising))))
    assert (finding.code, finding.severity) == ("loss_diverging", "critical")
    assert finding.title == "The loss diverges: 331.5, 151 times what it was up to step 1,032 (32 since the attach)"
    told = (
        "rank 0: at most 2.2 up to step 1,032 (32 since the attach), "
        "at least 312 from step 1,049 (49 since the attach) on (three quarters of them)"
    )
    assert list(finding.evidence) == [told]


@each(
    "losses",
    [
        [5.0 / (1 + n) for n in range(60)],  # learns
        [0.1 * (-1) ** n for n in range(60)],  # a policy's, about zero
        [0.001 * (1 + n % 7) for n in range(60)],  # noisy
        [2.0] * 50 + [15.0] * 2 + [2.0] * 8,  # a bad batch or two
        [1.0 + 0.1 * n for n in range(60)],  # drifts
        [float(n * n) for n in range(1, 257)],  # data in an order, from easy to hard
        [float(abs(n - 100) ** 2 + 1) for n in range(256)],  # the same, met half-way
        [2.0] * 60 + [400.0] * 20 + [2.0] * 40,  # and back again
    ],
)
def test_other_losses_do_not_diverge(losses: Sequence[float]) -> None:
    assert codes(judged(sound(steps=steps(losses)))) == []


def test_a_loss_of_no_optimizer_at_all() -> None:
    by_hand = sound(
        steps=[], steps_in_window=0, backwards=40, losses_of_no_step=(2.0, NAN, NAN, NAN), grads=NotAvailable("no step")
    )
    finding = only(judged(by_hand))
    assert (finding.code, finding.title) == ("nonfinite_loss", "The loss given to backward() is NaN")
    assert codes(judged(sound(steps=[], losses_of_no_step=(NAN, NAN, 2.0)))) == []


def test_a_scaler_skips_because_the_loss_is_nan() -> None:
    skipping = sound(**SKIPS, skipped_in_a_row=30, scales=((1.0, 0.1),), losses_of_no_step=(NAN,) * 4)
    finding = only(judged(skipping))
    assert finding.code == "nonfinite_loss"
    assert "so: The gradient scaler skips every step: nothing is trained" in finding.evidence


def test_one_rank_of_many_alone_does_not_diverge() -> None:
    """They share their weights: it has other data."""
    leapt = steps([2.0] * 40 + [900.0] * 40)
    assert codes(judged(sound(0), sound(1), sound(2, steps=leapt))) == []
    assert list(only(judged(*(sound(n, steps=leapt) for n in range(3)))).who) == ["rank 0", "rank 1", "rank 2"]


def test_a_loss_that_nobody_gives_to_backward_is_not_known() -> None:
    found = judged(sound(steps=steps([None] * 40)))
    assert check(found, "loss") == ("not known", "no loss was seen in backward()")
