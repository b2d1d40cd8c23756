"""What a job does, in words, from what its ranks answered and when."""

from __future__ import annotations

import math
from typing import get_args

import pytest
from cases import each
from feeds import BEGAN_S, record
from support import REPO

from jupyter_traindbg.agent.recorder import FIELDS
from jupyter_traindbg.live.events import Kind, Marks
from jupyter_traindbg.live.pace import Pace
from jupyter_traindbg.live.state import judge, needs_diagnosis, overdue_s
from jupyter_traindbg.live.tracks import Track, ahead_of
from jupyter_traindbg.model import Diagnosis, Doing, DoingKind, Finding, NewSteps, RankState, StepNumber


@pytest.fixture(autouse=True)
def in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "en")


def stepped(rank: int = 0, steps: int = 20, *, step_s: float = 0.1, **values: object) -> Track:
    """A rank whose last step ended at `BEGAN_S` + 0.1 s for each step."""
    track = Track(rank, 100 + rank, BEGAN_S)
    records = [record(i + 1, step_s=step_s, **values) for i in range(steps)]
    track.take(NewSteps(rank, 100 + rank, FIELDS, records, steps), BEGAN_S + 0.1 * steps)
    return track


NOW = BEGAN_S + 2.0
STUCK = Diagnosis(
    "made", "stuck", ("why",), (), (Finding("lock", "critical", "Rank 1 waits for a lock", evidence=["a"]),)
)


def test_steps_that_come_are_training() -> None:
    state = judge([stepped(0), stepped(1)], NOW)
    assert (state.code, state.words) == ("training", "training")


def test_steps_are_told_by_the_optimizers_own_count() -> None:
    track = Track(0, 100, BEGAN_S)
    losses = [1.0, 0.5, math.nan, math.nan]
    records = [record(i, loss=loss, optimizer_step=8000 + i) for i, loss in enumerate(losses, 1)]
    track.take(NewSteps(0, 100, FIELDS, records, 4, told_s=BEGAN_S + 7), BEGAN_S + 0.4)
    assert (track.number, track.told_s, track.optimizers) == (StepNumber(4, 8004), BEGAN_S + 7, {0})
    assert (
        judge([track], BEGAN_S + 0.5).words
        == "diverged: the loss is NaN since step 8,003 (3 since the attach) (rank 0)"
    )
    track.gone = True
    assert judge([track], NOW).words == "finished: the process has ended, after step 8,004 (4 since the attach)"


def test_before_the_first_step_it_waits_and_after_long_somebody_looks() -> None:
    track = Track(0, 100, BEGAN_S)
    track.take(NewSteps(0, 100, FIELDS, [], 0), BEGAN_S)
    state = judge([track], BEGAN_S + 3)
    assert (state.code, state.words) == ("waiting", "waiting for a step, for 3.0 s")
    assert not needs_diagnosis([track], BEGAN_S + 3)
    assert needs_diagnosis([track], BEGAN_S + 30)
    assert judge([track], BEGAN_S + 30, diagnosis=STUCK).code == "hung"


def test_a_pause_longer_than_any_before_is_a_stall_and_says_for_how_long() -> None:
    track = stepped(step_s=0.1)
    assert overdue_s(track, NOW + 1.0) <= 0
    state = judge([track], NOW + 12.0)
    assert state.code == "stalled"
    assert state.words == "stalled for 12 s: no step came"
    assert state.why == ("its longest pause before: 0.1 s",)
    assert abs(state.since_s - track.step_at_s) < 1e-6
    assert needs_diagnosis([track], NOW + 12.0)


def test_a_job_that_paused_as_long_before_is_not_called_stalled() -> None:
    track = stepped(step_s=10.0)
    assert judge([track], NOW + 12.0).code == "training"
    assert judge([track], NOW + 20.0).code == "stalled"


def test_one_long_pause_is_no_habit() -> None:
    track = stepped(steps=10)
    slow = [record(11, step_s=60.0)]
    track.take(NewSteps(0, 100, FIELDS, slow, 11), NOW)
    assert judge([track], NOW + 12.0).code == "stalled"


def test_a_stall_that_a_diagnosis_calls_stuck_is_a_hang() -> None:
    state = judge([stepped(0), stepped(1)], NOW + 30.0, diagnosis=STUCK)
    assert state.code == "hung"
    assert state.words == "hung for 30 s: Rank 1 waits for a lock"
    assert state.why == ("a",)


def test_a_stall_that_is_an_evaluation_says_what_it_does() -> None:
    doing = RankState(0, 100, "computing", "computes at eval.py:7 evaluate")
    diagnosis = Diagnosis("made", "progressing", (), (doing,))
    state = judge([stepped()], NOW + 30.0, diagnosis=diagnosis)
    assert (state.code, state.words) == (
        "stalled",
        "stalled for 30 s: no step came; rank 0: computes at eval.py:7 evaluate",
    )


def test_a_kernel_whose_cell_has_ended_is_no_stall() -> None:
    state = judge([stepped()], NOW + 30.0, diagnosis=Diagnosis("made", "idle", (), ()))
    assert (state.code, state.words) == ("waiting", "nothing trains now: the kernel runs no cell, for 30 s")


def test_an_agent_that_sees_no_cell_run_needs_no_diagnosis() -> None:
    """At once, also where the last thing that was diagnosed was a hang."""
    track = stepped(step_s=0.1)
    track.take(NewSteps(0, 100, FIELDS, [], 20, between_cells=True), NOW)
    assert judge([track], NOW + 1.0).code == "training"
    state = judge([track], NOW + 12.0, diagnosis=STUCK)
    assert (state.code, state.words) == ("waiting", "nothing trains now: the kernel runs no cell, for 12 s")
    assert not needs_diagnosis([track], NOW + 12.0)
    track.take(NewSteps(0, 100, FIELDS, [], 20), NOW + 12.0)
    assert judge([track], NOW + 12.0).code == "stalled"
    assert needs_diagnosis([track], NOW + 12.0)


def test_one_rank_that_stands_still_is_named() -> None:
    behind, ahead = stepped(0), stepped(1)
    more = [record(i) for i in range(21, 200)]
    ahead.take(NewSteps(1, 101, FIELDS, more, 199), NOW + 18.0)
    state = judge([behind, ahead], NOW + 18.0)
    assert (state.code, state.words) == ("stalled", "rank 0 stalled for 18 s; the others go on")


@pytest.mark.parametrize(("loss", "word"), [(math.nan, "NaN"), (math.inf, "infinite")])
def test_a_loss_that_is_not_finite_is_divergence_until_it_is_again(loss: float, word: str) -> None:
    track = stepped(steps=10)
    track.take(NewSteps(0, 100, FIELDS, [record(11, loss=loss), record(12, loss=loss)], 12), NOW)
    state = judge([track], NOW)
    assert (state.code, state.words) == (
        "diverged",
        f"diverged: the loss is {word} since step 11 since the attach (rank 0)",
    )
    track.take(NewSteps(0, 100, FIELDS, [record(13)], 13), NOW)
    assert judge([track], NOW).code == "training"


def test_a_rank_that_is_gone_is_lost_and_all_of_them_are_the_end() -> None:
    tracks = [stepped(0), stepped(1)]
    tracks[1].take(NewSteps(1, 101, problem="process 101 has ended", gone=True), NOW)
    state = judge(tracks, NOW + 20)
    assert (state.code, state.words) == ("lost", "lost rank 1: the others make no steps")
    assert state.why == ("process 101 has ended",)
    tracks[0].take(NewSteps(0, 100, problem="process 100 has ended", gone=True), NOW)
    assert judge(tracks, NOW).words == "finished: all processes have ended, after step 20 since the attach"
    failed = Diagnosis("made", "failed", (), (), (Finding("rank_ended", "critical", "Rank 1 was killed by SIGKILL"),))
    assert judge(tracks, NOW, diagnosis=failed).words == "finished, not well: Rank 1 was killed by SIGKILL"


def test_slower_than_before_says_by_how_much() -> None:
    pace = Pace(True, 0.3, 0.1, "data_wait_s", NOW)
    words = "slow: 300 ms a step, 3.0 times as long as before (100 ms); most of it data wait"
    assert judge([stepped()], NOW, pace=pace).words == words


def test_words_are_in_the_readers_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    assert judge([stepped()], NOW).words == "训练中"
    assert judge([stepped()], NOW + 12.0).words.startswith("已停滞 12 秒")


def test_clocks_that_differ_do_not_make_a_stall() -> None:
    skewed = Track(0, 100, BEGAN_S)
    for i in range(1, 10):  # its clock is an hour behind
        now_s = BEGAN_S + 3600 + 0.1 * (i - 1)
        skewed.take(NewSteps(0, 100, FIELDS, [record(i)], i), now_s)
    assert judge([skewed], BEGAN_S + 3600 + 1.0).code == "training"
    assert skewed.step_at_s == pytest.approx(BEGAN_S + 3600.8)


def test_an_old_step_of_a_first_answer_is_as_old_as_it_is() -> None:
    track = Track(0, 100, BEGAN_S + 600)
    track.take(NewSteps(0, 100, FIELDS, [record(i) for i in range(1, 21)], 20), BEGAN_S + 600)
    assert judge([track], BEGAN_S + 600).words == "stalled for 9 min 58 s: no step came"


# --- events --------------------------------------------------------------------------------------------------------


def test_the_first_nan_is_an_event_and_the_following_ones_are_not() -> None:
    marks, tracks = Marks(), [stepped(0), stepped(1)]
    marks.seen(tracks, NOW)
    for step in (21, 22, 23):
        for track in tracks:
            track.take(NewSteps(track.rank, 0, FIELDS, [record(step, loss=math.nan)], step), NOW)
        marks.seen(tracks, NOW)
    (event,) = marks.events
    assert (event.kind, event.step, event.ranks) == ("nan", 21, (0, 1))


def test_a_nan_that_is_over_before_anybody_asks_is_an_event_all_the_same() -> None:
    marks, track = Marks(), stepped(0)
    losses = [1.0, math.nan, 1.0, math.nan, *[1.0] * 60, math.inf, 1.0]
    records = [record(21 + i, loss=loss) for i, loss in enumerate(losses)]
    track.take(NewSteps(0, 0, FIELDS, records, 20 + len(losses)), NOW)
    marks.seen([track], NOW)
    assert [(e.kind, e.step) for e in marks.events] == [("nan", 22), ("nan", 85)]
    assert judge([track], NOW).code == "training"


def test_a_jump_of_the_schedule_is_an_event_and_its_slope_is_not() -> None:
    marks, track = Marks(), Track(0)
    rates = [1e-5 * i for i in range(1, 30)] + [2.9e-4 * 0.999**i for i in range(30)] + [1e-5] * 5
    records = [record(i + 1, lr=rate) for i, rate in enumerate(rates)]
    track.take(NewSteps(0, 0, FIELDS, records, len(records)), NOW)
    marks.seen([track], NOW)
    (event,) = marks.events
    assert (event.kind, event.step) == ("lr", 60)
    assert event.text.endswith("to 1e-05, by the schedule")


AGAIN = "an agent that came anew counts from 1"


@each(
    ("answers", "ahead"),
    [
        ([[(1, 629), (2, 630)], [(3, 631)]], 628),
        ([[(1, None), (2, None)]], None),
        ([[(1, 629), (2, None)], [(2, 630), (3, None)]], 628),
        ([[(1, 629), (2, 630)], [(1, 631)]], 628),
        ([[(1, 629), (2, 630)], [(1, 640)]], None),
        ([[(1, 629), (2, 1)]], None),
    ],
    ids=["counted", "no count", "a GPU's come later", AGAIN, f"{AGAIN}, steps were missed", "a checkpoint was loaded"],
)
def test_by_how_much_the_optimizers_own_count_is_ahead(
    answers: list[list[tuple[int, int | None]]], ahead: int | None
) -> None:
    track = Track(0)
    for told in answers:
        records = [record(step, optimizer_step=own) for step, own in told]
        track.take(NewSteps(0, 0, FIELDS, records, told[-1][0]), NOW)
    assert track.ahead == ahead
    other = Track(1)
    other.take(NewSteps(1, 1, FIELDS, [record(1, optimizer_step=640)], 1), NOW)
    assert ahead_of([track, other]) == ahead, "of the one that counts longer"


def test_the_counts_of_several_optimizers_say_nothing_of_each_other() -> None:
    track = Track(0)
    records = [record(step, optimizer=step % 2, optimizer_step=628 + step) for step in (1, 2)]
    track.take(NewSteps(0, 0, FIELDS, records, 2), NOW)
    assert track.ahead is None
    assert ahead_of([]) is None


@each("kind", ["lr", "weight_decay", "clip_norm", "settings"])
def test_a_change_is_an_event_of_its_own_setting(kind: DoingKind) -> None:
    marks = Marks()
    marks.done([(stepped(), [Doing(kind, NOW, 12, "released")])])
    assert [(e.kind, e.text) for e in marks.events] == [(kind, "released")]


def test_every_kind_of_event_has_its_sign_and_is_documented() -> None:
    kinds = [kind for literal in get_args(Kind) for kind in get_args(literal)]
    signs = (REPO / "labextension" / "src" / "widgets" / "marks.ts").read_text()
    page = (REPO / "docs" / "watching.md").read_text()
    assert len(kinds) == 11
    assert [k for k in kinds if f"  {k}: '" not in signs or f"`{k}`" not in page] == []


def test_a_change_on_all_ranks_is_one_event() -> None:
    marks, tracks = Marks(), [stepped(0), stepped(1)]
    change = Doing("lr", NOW, 12, "learning rate pinned at 0.0001")
    marks.done((track, [change]) for track in tracks)
    marks.done((track, [change]) for track in tracks)  # told again by an agent that was asked anew
    marks.done([(tracks[0], [Doing("checkpoint", NOW, 14, "/tmp/ck")])])
    assert [(e.kind, e.step, e.ranks, e.text) for e in marks.events] == [
        ("lr", 12, (0, 1), "learning rate pinned at 0.0001"),
        ("checkpoint", 14, (0,), "checkpoint saved: /tmp/ck"),
    ]


def test_hang_resumption_loss_and_end_are_events() -> None:
    marks, tracks = Marks(), [stepped(0), stepped(1)]
    marks.judged(judge(tracks, NOW), tracks, NOW)
    for late_s in (30.0, 31.0):
        marks.judged(judge(tracks, NOW + late_s, diagnosis=STUCK), tracks, NOW + late_s)
    for track in tracks:
        track.take(NewSteps(track.rank, 0, FIELDS, [record(21)], 21), BEGAN_S + 2.0)
    marks.judged(judge(tracks, BEGAN_S + 2.1), tracks, BEGAN_S + 2.1)
    for i in (1, 0):
        tracks[i].take(NewSteps(i, 100 + i, problem="process has ended", gone=True), BEGAN_S + 3)
        marks.judged(judge(tracks, BEGAN_S + 3), tracks, BEGAN_S + 3)
    assert [(e.kind, e.ranks) for e in marks.events] == [
        ("hang", (0, 1)),
        ("resumed", (0, 1)),
        ("lost", (1,)),
        ("finished", (0, 1)),
    ]


def test_an_agent_that_counts_anew_goes_on_where_the_last_one_was() -> None:
    marks, track = Marks(), stepped(steps=20)
    rows = track.take(NewSteps(0, 100, FIELDS, [record(1), record(2)], 2), NOW)
    marks.seen([track], NOW)
    assert [step for step, _ in rows] == [21, 22]
    assert track.step == 22
    assert [(e.kind, e.step) for e in marks.events] == [("restarted", 21)]
