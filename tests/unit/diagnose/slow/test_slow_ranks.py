"""What slows ranks down together, garbage collections, compilation and the machine, judged from windows made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cases import each
from slow_evidence import (
    ALL_REDUCE,
    BACKWARD,
    BEGAN_S,
    FORWARD,
    SOUND,
    STEPS,
    TORCH,
    Spell,
    at,
    batches,
    codes,
    collectives,
    judged,
    only,
    recorded,
    window,
)

from jupyter_traindbg.model import (
    Activity,
    Frame,
    FullCollections,
    NotAvailable,
    RankWindow,
    ThreadActivity,
    TrainingHost,
)

# --- garbage -------------------------------------------------------------------------------------------------------


def collected(asked: int, pause_s: float, *, ahead_s: float = 0.0, count: int = STEPS) -> FullCollections:
    pauses = tuple((BEGAN_S + ahead_s + n * 0.075, pause_s) for n in range(count))
    return FullCollections(
        count, count * pause_s, pause_s, (((Frame("/job/train.py", 30, "main"),), count),), asked, pauses
    )


def test_collections_that_are_asked_for_have_their_line() -> None:
    spells = (Spell(at(30), 0.02), *SOUND)
    slow = judged(window(0, spells, collections=collected(STEPS, 0.02)), l30="gc.collect()")
    (cause,) = slow.causes
    assert (cause.finding.code, cause.finding.where) == ("full_collections", "/job/train.py:30 main")
    assert cause.saves_s == pytest.approx(0.02, rel=0.05)


def test_pauses_of_all_ranks_add_up_unless_they_come_at_the_same_time() -> None:
    ranks = [(0, 0.0), (1, 0.03)]
    for apart, saves_s in ((1.0, 0.02), (0.0, 0.01)):
        windows = [
            window(
                rank,
                (Spell(at(30), 0.01), *SOUND, Spell(ALL_REDUCE, 0.01, "futex")),
                collections=collected(0, 0.01, ahead_s=apart * ahead),
                collectives=collectives(rank, ()),
            )
            for rank, ahead in ranks
        ]
        (cause,) = judged(*windows).causes
        assert cause.finding.code == "gc_pauses"
        assert cause.saves_s == pytest.approx(saves_s, rel=0.05)


# --- ranks ---------------------------------------------------------------------------------------------------------

STEP_S = 0.255
WAITS = (*BACKWARD[1:],)


def of_two(slow_rank: int, extra: Spell, *, recorded_arrivals: bool = True) -> list[RankWindow]:
    """One rank takes 200 ms longer, and the other waits in its backward pass, where DDP reduces."""
    windows = []
    for rank in range(2):
        late = rank == slow_rank
        spells = (*SOUND, extra if late else Spell((BACKWARD[0], *WAITS), 0.2, "futex"))
        arrivals = [n * STEP_S + (0.25 if late else 0.05) for n in range(STEPS)]
        seen = collectives(rank, arrivals) if recorded_arrivals else collectives(rank, ())
        windows.append(window(rank, spells, collectives=seen))
    return windows


@each("recorded_arrivals", [True, False])
@each("slow_rank", [0, 1])
def test_the_rank_that_all_wait_for_is_named_with_its_part_and_line(slow_rank: int, recorded_arrivals: bool) -> None:
    scale = (Frame("/job/model.py", 9, "Scale.backward"), *BACKWARD)
    cause = only(*of_two(slow_rank, Spell(scale, 0.2, "clock_nanosleep"), recorded_arrivals=recorded_arrivals))
    finding = cause.finding
    assert (finding.code, list(finding.who)) == ("straggler", [f"rank {slow_rank}"])
    assert finding.where == "/job/model.py:9 Scale.backward"
    assert "backward" in finding.title
    assert cause.saves_s == pytest.approx(0.2, rel=0.05)
    assert finding.confidence == ("high" if recorded_arrivals else "medium")


@each(
    ("late", "other", "blamed"),
    [(0.85, 0.5, False), (0.3, 0.25, True), (0.7, 0.1, True)],
)
def test_a_rank_that_is_late_for_want_of_a_cpu_is_blamed_where_others_get_theirs(
    late: float, other: float, blamed: bool
) -> None:
    windows = []
    for made, share in zip(of_two(0, Spell(at(40), 0.2)), (late, other), strict=True):
        thread = ThreadActivity(made.pid, "python", "R", 1 - share, 10, starved_share=share)
        windows.append(replace(made, activity=Activity(made.pid, "rank", "", 1.0, "R", 1 - share, (thread,))))
    assert ("straggler" in codes(judged(*windows))) == blamed


@each(("seen", "words"), [(True, "slower in forward:"), (False, "slower in forward and all before it:")])
def test_what_is_not_told_apart_from_forward_is_called_so(seen: bool, words: str) -> None:
    one, two = of_two(1, Spell(FORWARD, 0.2, forward=True))
    assert (
        words in only(one, replace(two, steps=[replace(step, forward_seen=seen) for step in two.steps])).finding.title
    )


def test_waiting_is_communication_and_no_part_of_backward() -> None:
    scale = (Frame("/job/model.py", 9, "Scale.backward"), *BACKWARD)
    late, waits = judged(*of_two(0, Spell(scale, 0.2, "clock_nanosleep"))).ranks
    assert (late.communication_s, late.backward_s) == pytest.approx((0.0, 0.23), abs=0.01)
    assert (waits.communication_s, waits.backward_s) == pytest.approx((0.2, 0.03), abs=0.01)
    assert late.step_s == pytest.approx(waits.step_s or 0.0)


def test_ranks_that_are_late_in_turns_blame_nobody() -> None:
    spells = (*SOUND, Spell(ALL_REDUCE, 0.02, "futex"))
    windows = [
        window(rank, spells, collectives=collectives(rank, [n * 0.075 + 0.02 * (n % 2 == rank) for n in range(STEPS)]))
        for rank in range(2)
    ]
    assert judged(*windows).causes == ()


def test_with_unequal_batches_the_batches_are_blamed() -> None:
    spells = (*SOUND, Spell(ALL_REDUCE, 0.02, "futex"))
    windows = []
    for rank in range(2):
        mine = [n % 2 == rank for n in range(STEPS)]
        arrivals = [n * 0.075 + 0.02 * large for n, large in enumerate(mine)]
        sizes = batches([300 if large else 100 for large in mine])
        windows.append(window(rank, spells, collectives=collectives(rank, arrivals), batches=sizes))
    cause = only(*windows)
    assert cause.finding.code == "unequal_batches"
    assert cause.saves_s == pytest.approx(0.01, rel=0.1), "even, they would meet halfway"


def test_a_line_that_one_rank_alone_has_is_not_blamed_on_all() -> None:
    cause = only(*of_two(0, Spell(at(40), 0.2, late_s=0.001)))
    assert (cause.finding.code, list(cause.finding.who)) == ("straggler", ["rank 0"])
    assert cause.finding.where == "/job/train.py:40 main"


def test_gradients_that_are_exchanged_after_each_micro_batch() -> None:
    spells = (*SOUND, Spell(BACKWARD, 0.02, "futex"))
    arrivals = [n * 0.075 + k * 0.01 for n in range(STEPS) for k in range(4)]
    windows = [window(rank, spells, micro=4, collectives=collectives(rank, arrivals)) for rank in range(2)]
    windows = [replace(w, steps=[replace(s, micro_batches=4) for s in w.steps]) for w in windows]
    cause = only(*windows)
    assert cause.finding.code == "syncs_each_micro_batch"
    assert cause.saves_s == pytest.approx(0.015, rel=0.1)


# --- compilation, the machine, the past ----------------------------------------------------------------------------


def test_compilation_in_many_steps_is_told_with_what_changed() -> None:
    compiles = (Frame(f"{TORCH}/_dynamo/convert_frame.py", 500, "_compile", library=True), *FORWARD[1:])
    host = TrainingHost(1, 8, graphs=40, new_graphs=18, breaks=(("call to print", 3),))
    finding = only(window(0, (Spell(compiles, 0.1, late_s=0.001, forward=True), *SOUND), host=host)).finding
    assert finding.code == "recompiling"
    assert any("call to print" in line for line in finding.evidence)
    once = Spell(compiles, 1.0, forward=True, every=STEPS)
    assert judged(window(0, (once, *SOUND), host=host)).causes == (), "the first time is no trouble"


def test_more_threads_than_cpus_are_told_where_they_could_be_fewer() -> None:
    thread = ThreadActivity(1000, "python", "R", 0.6, 10, starved_share=0.4)
    crowded = Activity(1000, "rank", "", 1.0, "R", 0.6, (thread,))
    cause = only(window(0, SOUND, activity=crowded, host=TrainingHost(8, 4)))
    assert cause.finding.code == "too_many_threads"
    assert "OMP_NUM_THREADS=4" in cause.finding.next_steps[0]
    assert judged(window(0, SOUND, activity=crowded, host=TrainingHost(1, 1))).causes == ()


def test_a_quota_that_is_used_up_explains_why_threads_wait() -> None:
    thread = ThreadActivity(1000, "python", "R", 0.5, 10, starved_share=0.5)
    held = Activity(1000, "rank", "", 1.0, "R", 0.5, (thread,))
    windows = window(0, SOUND, activity=held, host=TrainingHost(4, 0.5))
    quota = TrainingHost(4, 0.5, throttled_s=0.4 * windows.window_s)
    cause = only(replace(windows, host=quota))
    assert cause.finding.code == "throttled"
    assert cause.saves_share == pytest.approx(0.4, rel=0.05)
    assert "0.5 CPUs" in cause.finding.evidence[0]


def test_threads_are_counted_by_machine() -> None:
    thread = ThreadActivity(1000, "python", "R", 0.6, 10, starved_share=0.4)
    busy = Activity(1000, "rank", "", 1.0, "R", 0.6, (thread,))
    apart = [window(n, SOUND, activity=busy, host=TrainingHost(4, 4, name=str(n))) for n in range(2)]
    assert judged(*apart).causes == ()


def test_memory_that_comes_back_from_the_disk() -> None:
    thread = ThreadActivity(1000, "python", "D", 0.6, 10, starved_share=0.0)
    swaps = Activity(1000, "rank", "", 1.0, "D", 0.6, (thread,), major_faults_per_s=2000.0)
    assert only(window(0, SOUND, activity=swaps)).finding.code == "swapping"


def test_a_job_that_was_quicker_says_since_when_and_in_which_part() -> None:
    quick = {"forward_s": 0.02, "backward_s": 0.01, "other_s": 0.005}
    past = [
        recorded(n, 0.035 if n < 100 else 0.055, quick if n < 100 else {**quick, "backward_s": 0.03})
        for n in range(1, 201)
    ]
    cause = only(window(0, SOUND, past=past))
    assert cause.finding.code == "slower_than_before"
    assert cause.saves_s == pytest.approx(0.02, rel=0.05)
    since, grew = cause.finding.evidence[:2]
    assert "backward grew from 10 ms to 30 ms" in grew
    assert any(f"({n} since the attach)" in since for n in range(90, 112)), since


def test_what_is_not_measured_is_no_trouble() -> None:
    nothing = NotAvailable("not here")
    slow = judged(window(0, SOUND, workers=nothing, activity=nothing, collections=nothing, collectives=nothing))
    assert slow.causes == ()
    assert "garbage collection: not known" in slow.looked_at


def test_causes_come_in_the_order_of_what_they_save() -> None:
    spells = (Spell(at(20), 0.02, "clock_nanosleep"), Spell(at(50), 0.04, late_s=0.001), *SOUND)
    slow = judged(window(0, spells))
    assert codes(slow) == ["python_work", "sleeps"]
    assert [round(cause.saves_s, 3) for cause in slow.causes] == [0.04, 0.02]


def test_three_hundred_ranks_are_judged_in_a_moment() -> None:
    scale = (Frame("/job/model.py", 9, "Scale.backward"), *BACKWARD)
    late, waits = of_two(0, Spell(scale, 0.2, "clock_nanosleep"))
    assert not isinstance(waits.collectives, NotAvailable)
    assert not isinstance(late.collectives, NotAvailable)
    groups = tuple(replace(group, ranks=tuple(range(300))) for group in waits.collectives.groups)
    others = [replace(waits, rank=n, collectives=replace(waits.collectives, groups=groups)) for n in range(1, 300)]
    cause = only(replace(late, collectives=replace(late.collectives, groups=groups)), *others)
    assert list(cause.finding.who) == ["rank 0"]
