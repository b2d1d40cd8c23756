"""Verdicts on trainings that run, from hand-made evidence: what is blamed, on whom and where, and nothing where all is well."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
from cases import each
from hang_evidence import BACKWARD, MAIN, STD, TORCH, TRAIN, WORKER, ended, job, stepping, stuck, thread, user, waiting
from soundness_evidence import (
    MIB,
    SKIPS,
    WINDOW_S,
    case,
    check,
    codes,
    grads,
    judged,
    only,
    place,
    ranks,
    rates,
    sound,
    step,
    steps,
)

from jupyter_traindbg.diagnose import running, soundness
from jupyter_traindbg.diagnose.hang.case import Case, build
from jupyter_traindbg.diagnose.soundness import gradients
from jupyter_traindbg.model import (
    Frame,
    FullCollections,
    NotAvailable,
    OptimizerLr,
    RankLr,
    Sampled,
    Soundness,
    Wait,
)

NAN = math.nan
ITEM = Frame("/home/ada/data.py", 17, "Shards.__getitem__")
FETCH = Frame(f"{TORCH}/utils/data/_utils/fetch.py", 52, "fetch", library=True)


# --- nothing is wrong ----------------------------------------------------------------------------------------------


def test_a_sound_training_is_healthy_and_tells_what_was_looked_at() -> None:
    found = judged(sound(0), sound(1))
    assert (found.state, codes(found)) == ("healthy", [])
    told = {c.topic: (c.state, c.words, c.verb) for c in found.checks}
    assert told["loss"] == ("fine", "finite: 2 at step 1,040 (40 since the attach)", "steps")
    assert told["gradients"] == ("fine", "2, all finite, norm 1 at the step", "grads")
    assert told["learning rate"] == ("fine", "0.001, the same on all ranks", "lr")
    assert told["gradient scaler"] == ("fine", "none in use", "steps")
    assert told["pairing of collectives"] == ("fine", "40 calls of ranks 0, 1 compared, line by line", "nccl-check")
    assert told["memory"][0] == "not known"
    assert "too early to tell" in told["memory"][1]
    assert told["data"] == ("fine", "2% of a step is waiting for it (1 ms)", "slow")


def test_what_could_not_be_looked_at_is_told_with_the_reason() -> None:
    found = judged(*[NotAvailable("ptrace is not permitted")] * 2)
    assert {c.state for c in found.checks} == {"not known"}
    assert {c.words for c in found.checks} == {"ptrace is not permitted"}


def test_gradients_that_were_not_read_are_not_called_finite() -> None:
    found = judged(sound(grads=NotAvailable("no optimizer step came")))
    assert check(found, "gradients") == ("not known", "no optimizer step came")


def test_gradients_at_the_end_of_a_pass_are_told_as_such() -> None:
    found = judged(sound(grads=grads(0, passes=7)))
    assert check(found, "gradients") == (
        "fine",
        "2, all finite, norm 1 at the end of a backward pass: no step had come",
    )


def test_of_gradients_that_a_scaler_will_skip_its_own_topic_tells() -> None:
    overflowed = sound(grads=grads(0, nans=3, passes=1, scale=65536.0))
    assert judged(overflowed).findings == ()
    assert check(judged(overflowed), "gradients") == ("not known", "they overflow with the scaler's factor in them")
    (finding,) = gradients.findings([grads(0, nans=3, passes=1, scale=65536.0)])
    assert (finding.severity, "factor 65536" in finding.cause) == ("warning", True)
    (finding,) = gradients.findings([grads(0, nans=3, passes=1, scale=0.5)])
    assert finding.severity == "critical"


def test_without_an_optimizer_the_learning_rate_is_not_missed() -> None:
    by_hand = [step(n, optimizer=None, optimizer_step=None, lr=()) for n in range(1, 41)]
    found = judged(sound(steps=by_hand, lr=RankLr(0, 1000, ())))
    assert (found.state, found.findings) == ("healthy", ())
    assert check(found, "loss") == ("fine", "finite: 2 at step 40 since the attach")
    assert check(found, "learning rate") == ("not known", "no optimizer of torch's: it is the program's own")


def test_backward_passes_are_progress() -> None:
    still = stuck(0, user(40, "closure"), Wait("sleep"))
    assert running.diagnose(job(still)).state == "stuck"
    found = running.diagnose(job(dataclasses.replace(still, soundness=sound(0, steps_in_window=0, backwards=9))))
    assert found.state == "progressing"
    assert "rank 0: up to 9 backward passes during the look, and no step" in found.why


def test_ranks_of_which_nothing_is_known_are_named_beside_the_others() -> None:
    found = judged(sound(0), NotAvailable("ptrace is not permitted"), sound(2, grads=NotAvailable("late")))
    assert check(found, "loss") == ("fine", "finite: 2 at step 1,040 (40 since the attach); not known of rank 1")
    assert check(found, "gradients")[1] == "2, all finite, norm 1 at the step; not read on rank 2; not known of rank 1"


def test_rates_that_were_not_compared_are_not_called_the_same() -> None:
    other_part = sound(1, lr=rates(1, elements=128))
    assert check(judged(sound(0), other_part), "learning rate") == ("fine", "0.001 on rank 0")
    moving = [sound(n, steps=ramp(100 + n, 20, uncounted=True)) for n in range(2)]
    assert check(judged(*moving), "learning rate") == ("fine", "0.0012 on rank 0")


def test_a_job_that_hangs_is_not_called_healthy_by_its_last_steps() -> None:
    still = [dataclasses.replace(waiting(n), soundness=sound(n, steps_in_window=0, backwards=0)) for n in range(4)]
    found = running.diagnose(job(*still))
    assert found.state == "stuck"


def test_the_last_steps_of_a_job_that_has_ended_may_tell_why() -> None:
    over = NotAvailable("the job has ended")
    growing = [step(n, rss_bytes=(500 + 20 * n) * MIB) for n in range(1, 257)]
    left = sound(0, steps=growing, steps_in_window=0, backwards=0, grads=over, lr=over, sampled=over, collections=over)
    dead = dataclasses.replace(ended(0, signal="SIGKILL"), world_size=1, soundness=left)
    found = running.diagnose(job(dead, world_size=1))
    assert found.state == "failed"
    assert [f.code for f in found.findings] == ["rank_ended", "memory_growth"]
    assert running.settles_in_s(job(dead, world_size=1)) is None, "more of them will not come"
    assert check(found, "loss") == ("fine", "finite: 2 at step 1,256 (256 since the attach)")
    unknown = {c.topic: c.words for c in found.checks if c.state == "not known"}
    assert unknown == dict.fromkeys(
        ("gradients", "gradient scaler", "waiting", "garbage collection"), "the job has ended"
    )


def test_every_topic_has_its_place_its_verb_and_its_codes() -> None:
    topics = soundness.topics()
    assert len(topics) == len(soundness.ORDER)
    assert frozenset().union(*(t.CODES for t in topics)) == soundness.CODES


# --- gradients -----------------------------------------------------------------------------------------------------


def test_gradients_of_a_nan_loss_are_its_consequence() -> None:
    bad = grads(0, norms=(NAN, NAN), nans=64)
    found = judged(sound(steps=steps([2.0] * 30 + [NAN] * 10), grads=bad))
    assert only(found).code == "nonfinite_loss"
    assert "so: The gradient of layers.0.weight and 1 more is not finite" in only(found).evidence
    assert check(found, "gradients") == ("trouble", "see above")


def test_gradients_that_are_not_finite_while_the_loss_is() -> None:
    found = judged(sound(grads=grads(0, norms=(NAN, 1.0), nans=3)))
    assert (found.state, only(found).code) == ("unsound", "nonfinite_gradient")


def test_gradients_of_zeros_at_every_step() -> None:
    found = judged(sound(steps=steps(grad_norm=0.0), grads=grads(0, norms=(0.0, 0.0))))
    assert only(found).severity == "critical"
    assert (found.state, only(found).title) == ("unsound", "All 2 gradients are zero: nothing is learned")


def test_zeros_of_which_no_other_step_tells_are_a_warning() -> None:
    finding = only(judged(sound(steps=steps(grad_norm=None), grads=grads(0, norms=(0.0, 0.0)))))
    assert (finding.severity, finding.title) == ("warning", "All 2 gradients are zero: this step teaches nothing")


def test_zeros_at_one_step_are_none_where_others_had_gradients() -> None:
    assert codes(judged(sound(grads=grads(0, norms=(0.0, 0.0))))) == []
    assert codes(judged(sound(steps=steps(grad_norm=0.0), grads=grads(0, norms=(0.0, 0.5))))) == []


# --- learning rates ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("optimizer", "rate", "found"),
    [
        ("AdamW", 1e6, ["lr_implausible"]),
        ("Adam", 1.0, ["lr_implausible"]),
        ("AdamW", 0.1, []),
        ("SGD", 5.0, []),
        ("SGD", 1e6, ["lr_implausible"]),
        ("Prodigy", 1.0, []),
        ("Adafactor", 1.0, []),
    ],
)
def test_a_rate_that_cannot_be_meant(optimizer: str, rate: float, found: list[str]) -> None:
    assert codes(judged(sound(lr=rates(0, 1e-4, rate, optimizer=optimizer)))) == found


def test_a_nan_loss_follows_from_such_a_rate() -> None:
    finding = only(judged(sound(steps=steps([NAN] * 9, lr=(1e6,)), lr=rates(0, 1e6))))
    assert finding.code == "lr_implausible"
    assert "so: The loss is NaN, at every step seen" in finding.evidence


def test_a_rate_of_zero_for_ever() -> None:
    finding = only(judged(sound(steps=steps(lr=(0.0, 0.0)), lr=rates(0, 0.0, 0.0, following=(0.0, 0.0)))))
    assert finding.title == "The learning rate is 0 at step 1,040 (40 since the attach), and has been: no weight moves"
    assert "its scheduler is LambdaLR" in finding.evidence


@each(
    "seen",
    [
        sound(steps=steps([2.0, 2.0], lr=(0.0,)), lr=rates(0, 0.0, following=(0.0001,))),  # a warm-up begins
        sound(steps=steps(lr=(0.0, 0.001))),  # one group is frozen
        sound(steps=steps(lr=(0.0,)), lr=rates(0, 0.0, following=(0.0001,))),  # the next period of a schedule comes
    ],
    ids=["warm-up", "frozen", "restarts"],
)
def test_a_rate_of_zero_now_is_none_for_ever(seen: Soundness) -> None:
    assert codes(judged(seen)) == []


def test_ranks_with_another_rate_are_named_at_the_same_step() -> None:
    others = [sound(n, steps=steps(lr=(0.001,))) for n in range(3)]
    odd = sound(3, steps=steps([2.0] * 38, lr=(0.003,)), lr=rates(3, 0.003))
    finding = only(judged(*others, odd))
    assert (finding.code, list(finding.who)) == ("lr_differs", ["rank 3"])
    assert finding.title == "Rank 3 trains with another learning rate than ranks 0-2"
    assert "rank 3: 0.003, at step 1,038 (38 since the attach)" in finding.evidence


def ramp(first: int, count: int, **more: Any) -> list[Any]:
    """A schedule that changes at every step, by what the optimizer counts."""
    return [
        step(n, optimizer_step=None if more.get("uncounted") else first + n, lr=((first + n) * 1e-5,))
        for n in range(1, count + 1)
    ]


def test_a_schedule_is_compared_at_the_same_step_of_the_optimizer() -> None:
    """Rank 1 was attached to three steps later, and was read one step later."""
    assert codes(judged(sound(0, steps=ramp(100, 20)), sound(1, steps=ramp(103, 18)))) == []


def test_without_a_count_a_moving_schedule_is_not_compared() -> None:
    assert (
        codes(judged(sound(0, steps=ramp(100, 20, uncounted=True)), sound(1, steps=ramp(103, 20, uncounted=True))))
        == []
    )
    constant = [sound(n, steps=steps(optimizer_step=None, lr=(rate,))) for n, rate in enumerate((0.1, 0.2))]
    assert codes(judged(*constant)) == ["lr_differs"]


def test_ranks_that_train_different_parts_are_not_compared() -> None:
    other = sound(1, steps=steps(lr=(0.003,)), lr=rates(1, 0.003, elements=128))
    assert codes(judged(sound(0), other)) == []


def test_rates_that_differ_by_rounding_are_equal() -> None:
    assert codes(judged(sound(0, steps=steps(lr=(0.001,))), sound(1, steps=steps(lr=(0.001 * (1 + 1e-9),))))) == []


# --- the gradient scaler -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scaler", "found"),
    [
        ({"skipped_in_a_row": 30, "scales": ((2.0**-10, 2.0**-40),)}, ["scaler_skips"]),
        ({"skipped_in_a_row": 30, "scales": ((None, None),)}, ["scaler_skips"]),
        (
            {"scaler_steps": 2, "scaler_skipped": 2, "skipped_in_a_row": 2, "scales": ((2.0**-10, 2.0**-12),)},
            ["scaler_skips"],
        ),
        ({"scaler_steps": 9, "scaler_skipped": 9, "skipped_in_a_row": 9, "scales": ((65536.0, 128.0),)}, []),
        ({"scaler_skipped": 1, "skipped_in_a_row": 0, "scales": ((65536.0, 32768.0),)}, []),
    ],
    ids=["for ever", "scale not known", "few, and a tiny scale", "settling", "one overflow"],
)
def test_a_scaler_that_skips(scaler: dict[str, Any], found: list[str]) -> None:
    assert [h.finding.code for h in _hits("scaler", sound(**{**SKIPS, **scaler}))] == found


def test_a_scaler_that_settles_is_not_known_to_be_well() -> None:
    settling = sound(
        **{**SKIPS, "scaler_steps": 9, "scaler_skipped": 9, "skipped_in_a_row": 9, "scales": ((65536.0, 128.0),)}
    )
    assert check(judged(settling), "gradient scaler")[0] == "not known"


def test_the_loss_tells_whether_it_is_the_scaling() -> None:
    skipping: dict[str, Any] = {**SKIPS, "skipped_in_a_row": 30, "scales": ((1.0, 0.1),)}
    (finite,) = _hits("scaler", sound(**skipping, losses_of_no_step=(2.5,)))
    (broken,) = _hits("scaler", sound(**skipping, losses_of_no_step=(NAN,)))
    assert "although the loss is 2.5" in finite.finding.cause
    assert broken.finding.cause.startswith("The loss itself is NaN")


def _hits(topic: str, *seen: Soundness) -> list[Any]:
    module = next(t for t in soundness.topics() if t.__name__.endswith(f".{topic}"))
    found: list[Any] = module.rule(case(*seen))
    return found


# --- memory --------------------------------------------------------------------------------------------------------


def growing(mib: float, count: int = 256) -> list[Any]:
    return [step(n, rss_bytes=int((500 + mib * n) * MIB)) for n in range(1, count + 1)]


def test_memory_that_grows_is_a_warning_and_the_job_gets_on() -> None:
    found = judged(sound(0, steps=growing(1.0)), sound(1))
    assert (found.state, only(found).code, list(only(found).who)) == ("progressing", "memory_growth", ["rank 0"])


def test_pages_of_mapped_files_are_none() -> None:
    assert codes(judged(sound(steps=growing(1.0), mapped_growth_bytes=200 * MIB))) == []


def test_a_rise_that_is_too_short_asks_for_a_second_look() -> None:
    short = job(*ranks(sound(steps=growing(2.0, 30))))
    wait_s = running.settles_in_s(short)
    assert wait_s == pytest.approx(0.05 * (40 - 30 + 8))
    assert running.settles_in_s(job(*ranks(sound(steps=growing(0.0, 30))))) is None


# --- time ----------------------------------------------------------------------------------------------------------


def at_data(line: Frame = ITEM) -> Sampled:
    waits = place(line, FETCH, *user(30, "epoch"), idle_s=1.2)
    return Sampled(70, WINDOW_S, (waits, place(*BACKWARD, idle_s=0.0, wall_s=0.3, call="")))


def test_data_that_the_training_thread_makes_itself() -> None:
    finding = only(judged(sound(steps=steps(data_s=0.04), sampled=at_data())))
    assert (finding.code, finding.where) == ("data_wait", "/home/ada/data.py:17 Shards.__getitem__")
    assert finding.title == "80% of a step is waiting for data: 40 ms of 50 ms"
    assert "num_workers=4 would keep up, by these figures (its machine has 8 CPUs)." in finding.next_steps
    assert any(line.startswith("so: The training thread sleeps") for line in finding.evidence)


def test_workers_that_make_too_few() -> None:
    below = stepping(0, workers=[(5001, thread(WORKER, Wait("sleep"))), (5002, thread(WORKER, Wait("sleep")))])
    seen = dataclasses.replace(ranks(sound(steps=steps(data_s=0.03)))[0], looks=below.looks, children=below.children)
    finding = only(running.diagnose(job(seen)))
    assert (finding.code, finding.where) == ("data_wait", "/home/ada/data.py:17 Shards.__getitem__")
    assert "num_workers=5 would keep up, by these figures (its machine has 8 CPUs)." in finding.next_steps


@each("data_s", [0.0, 0.01, 0.004])
def test_a_little_waiting_is_nothing(data_s: float) -> None:
    assert codes(judged(sound(steps=steps(data_s=data_s)))) == []
    assert codes(judged(sound(steps=steps(data_s=0.004, duration_s=0.006)))) == []


def test_of_a_few_steps_each_has_to_wait() -> None:
    few = [step(1, duration_s=None), step(2, data_s=0.04), step(3, data_s=0.04)]
    assert codes(judged(sound(steps=few))) == ["data_wait"]
    an_epoch_begins = [step(1, duration_s=None), step(2, data_s=0.9, duration_s=1.0), step(3, data_s=0.001)]
    assert codes(judged(sound(steps=an_epoch_begins))) == []


def test_a_line_that_sleeps() -> None:
    asleep = Sampled(70, WINDOW_S, (place(*user(61, "get_batch"), idle_s=1.0),))
    finding = only(judged(sound(0), sound(1, sampled=asleep)))
    assert (finding.code, finding.where, list(finding.who)) == ("host_wait", f"{TRAIN}:61 get_batch", ["rank 1"])
    assert finding.title == "The training thread sleeps at train.py:61 get_batch for 67% of the time"


SLEEPS_IN_LIBRARY = (Frame(f"{STD}/subprocess.py", 1264, "Popen.wait", library=True), *user(70, "save"))


@each(
    ("where", "found"),
    [
        (place(*SLEEPS_IN_LIBRARY, idle_s=1.0, call="wait4"), ["host_wait"]),
        (place(*BACKWARD, idle_s=1.0, call="clock_nanosleep"), []),  # within torch
        (place(*user(61, "step"), idle_s=1.0, call="futex"), []),  # the GIL, other ranks, a GPU
        (place(*user(61, "step"), idle_s=0.2, wall_s=1.4), []),  # it runs there
        (place(FETCH, idle_s=1.0), []),  # no code of the user at all
        (place(MAIN, idle_s=NotAvailable("this kernel keeps no account of it")), []),  # type: ignore[arg-type]
    ],
)
def test_what_counts_as_a_wait_of_the_users(where: Any, found: list[str]) -> None:
    assert codes(judged(sound(sampled=Sampled(70, WINDOW_S, (where,))))) == found


def test_a_sleep_in_the_loop_itself_is_told_and_no_finding() -> None:
    found = judged(sound(sampled=Sampled(70, WINDOW_S, (place(*user(61, "main"), idle_s=1.4),))))
    assert (found.state, codes(found)) == ("healthy", [])
    assert check(found, "waiting") == ("fine", "93% of the time, mostly at train.py:61 main")


def test_a_few_looks_are_no_share() -> None:
    asleep = Sampled(5, 0.1, (place(*user(61, "get_batch"), idle_s=0.1),))
    assert codes(judged(sound(sampled=asleep))) == []


def collected(count: int, each_s: float) -> FullCollections:
    return FullCollections(count, count * each_s, each_s, ((user(90, "main"), count),))


def test_a_collection_in_every_step() -> None:
    finding = only(judged(sound(collections=collected(30, 0.01))))
    assert (finding.code, finding.where) == ("full_collections", f"{TRAIN}:90 main")
    assert finding.title == "A full garbage collection in every step takes 20% of the time"


@each("seen", [collected(2, 0.1), collected(30, 0.0001), collected(5, 0.05)])
def test_collections_now_and_then_are_nothing(seen: FullCollections) -> None:
    assert codes(judged(sound(collections=seen))) == []


# --- root first ----------------------------------------------------------------------------------------------------


def test_what_is_unsound_comes_before_what_is_slow() -> None:
    both = sound(steps=steps([NAN] * 40, data_s=0.04))
    found = judged(both)
    assert (found.state, codes(found)) == ("unsound", ["nonfinite_loss", "data_wait"])


def test_a_slow_job_is_called_slow() -> None:
    assert judged(sound(steps=steps(data_s=0.04))).state == "slow"


# --- both languages ------------------------------------------------------------------------------------------------

BROKEN: dict[str, Callable[[], Case]] = {
    "nan": lambda: case(sound(steps=steps([2.0] * 9 + [NAN] * 9), grads=grads(0, norms=(NAN,), nans=1))),
    "again": lambda: case(sound(steps=steps([2.0] * 9 + [NAN] + [2.0] * 9))),
    "always": lambda: case(sound(steps=steps([NAN] * 9))),
    "diverging": lambda: case(sound(steps=steps([2.0] * 40 + [900.0] * 40))),
    "zero": lambda: case(sound(steps=steps(grad_norm=0.0), grads=grads(0, norms=(0.0,)))),
    "lr": lambda: case(sound(lr=rates(0, 9e9, optimizer="SGD")), sound(1, lr=rates(1, 7.0))),
    "no lr": lambda: case(sound(steps=steps(lr=(0.0,)), lr=rates(0, 0.0, following=(0.0,)))),
    "odd lr": lambda: case(sound(0), sound(1), sound(2, steps=steps(lr=(1.0,)))),
    "scaler": lambda: case(sound(**SKIPS, skipped_in_a_row=40, scales=((1.0, 0.5),), losses_of_no_step=(1.0,))),
    "by hand": lambda: case(sound(steps=[], losses_of_no_step=(NAN,) * 4)),
    "memory": lambda: case(sound(steps=growing(1.0))),
    "data": lambda: case(sound(steps=steps(data_s=0.04), sampled=at_data())),
    "sleep": lambda: case(sound(sampled=Sampled(70, WINDOW_S, (place(*user(61, "load"), idle_s=1.0),)))),
    "collections": lambda: case(sound(collections=collected(30, 0.01))),
    "zero once": lambda: case(sound(steps=steps(grad_norm=None), grads=grads(0, norms=(0.0,)))),
    "well": lambda: case(sound(0), sound(1)),
    "some": lambda: case(sound(0), NotAvailable("不可用"), sound(2, grads=NotAvailable("不可用"))),
    "not entered": lambda: case(NotAvailable("不可用")),
}


def _texts(seen: Case) -> list[str]:
    found = running.diagnose(seen.evidence)
    told = [t for f in found.findings for t in (f.title, f.cause, *f.evidence, *f.next_steps)]
    return [t for t in [*told, *(c.words for c in found.checks), *(c.topic for c in found.checks)] if t]


@each("name", list(BROKEN))
def test_everything_is_said_in_chinese_as_well(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    spoken = [t for t in _texts(BROKEN[name]()) if t != "loss" and any(c.isalpha() for c in t.replace("NaN", ""))]
    english = [t for t in spoken if not any("\u4e00" <= c <= "\u9fff" for c in t)]
    assert english == []


def test_a_rate_nobody_could_read_accuses_nobody() -> None:
    unread = RankLr(0, 1000, (OptimizerLr("AdamW", (), NotAvailable("no scheduler"), NotAvailable("no scheduler")),))
    assert codes(judged(sound(lr=unread))) == []
    assert codes(judged(sound(lr=NotAvailable("late"), steps=steps(lr=(None,))))) == []
    assert build(job()).views == ()
