"""What the views send to a page: figures of many ranks in one, findings with their buttons, and 300 ranks in few lines."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from cases import each
from render_scenes import collectives, grads, lr, lr_changed, lr_in_force, stacks
from render_scenes_diagnosis import stuck

from jupyter_traindbg import commands
from jupyter_traindbg.errors import UsageError
from jupyter_traindbg.model import Finding, NotAvailable, Silent, things
from jupyter_traindbg.widgets import cards, checkpoint, gradients, learning_rate
from jupyter_traindbg.widgets import diagnosis as diagnosing

NOT_THERE = gradients.NOT_THERE


# --- gradients -----------------------------------------------------------------------------------------------------------


def test_layers_are_modules_and_their_norms_add_up_as_squares() -> None:
    ranks = grads(1, 6).ranks
    layout = gradients.Layout.of(ranks[0].grads)
    figures = gradients.together(ranks, layout)
    column = layout.column(figures, 7)
    for i, layer in enumerate(layout.layers):
        owned = [g.norm for g in ranks[0].grads if g.name.rpartition(".")[0] == layer]
        known = [n for n in owned if not isinstance(n, NotAvailable)]
        expected = math.sqrt(sum(n * n for n in known)) if known else NOT_THERE
        assert column.norms[i] == pytest.approx(expected, rel=1e-6)
    assert column.step == 7


def test_a_nan_of_any_rank_stays_and_its_rank_is_told() -> None:
    ranks = grads(300, 40, bad_rank=7).ranks
    layout = gradients.Layout.of(ranks[0].grads)
    figures = gradients.together(ranks, layout)
    bad = np.flatnonzero(figures[3] + figures[4])
    assert len(bad) > 0
    assert set(gradients.bad_ranks(ranks)) == {layout.names[i] for i in bad}
    assert set(gradients.bad_ranks(ranks).values()) == {"rank 7"}
    column = layout.column(figures, None)
    assert all(column.bad[layout.layer_of[i]] > 0 for i in bad)


def test_what_no_rank_has_is_not_there_and_no_zero() -> None:
    ranks = grads(2, 8).ranks
    layout = gradients.Layout.of(ranks[0].grads)
    figures = gradients.together([], layout)
    assert (figures[:3] == NOT_THERE).all()
    column = layout.column(figures, 1)
    assert (column.norms == NOT_THERE).all()
    assert (column.zeros == NOT_THERE).all()


# --- findings --------------------------------------------------------------------------------------------------------------


@each(
    ("step", "does"),
    [
        ("`%stacks` shows where it stands", "stacks"),
        ("run `traindbg nccl-check TARGET`", "collectives"),
        ("see `%nccl_check`", "collectives"),
        ("save it first: `%checkpoint DIR`", "checkpoint"),
        ("`traindbg checkpoint --verify DIR`", None),
        ("Run `%grads --first-nan`: it names the module", "first_nan"),
        ("`%lr --release` gives it back", "learning_rate"),
        ("kill -9 the rank", None),
        ("restart without checkpointing", None),
    ],
)
def test_only_our_own_verbs_become_buttons(step: str, does: str | None) -> None:
    card = cards.cards([Finding("code", "warning", "title", next_steps=[step])])[0]
    assert card["next_steps"] == [{"text": commands.spelled(step), "does": does}]


def test_texts_of_the_trainee_steer_nothing() -> None:
    card = cards.cards([Finding("code", "info", "a\x1b[31mb\u202e", who=things(["x\ny"]), where="f\r.py:1 g")])[0]
    assert (card["title"], card["who"], card["where"]) == ("a\\x1b[31mb\\u202e", ["x\\ny"], "f\\r.py:1 g")


def test_the_same_silence_is_told_once() -> None:
    silent = [Silent(r, 100 + r, f"process {100 + r} did not answer", "wait") for r in range(300)]
    assert cards.silences(silent) == ["ranks 0-299 (300): no answer: process … did not answer; wait"]


# --- learning rate -----------------------------------------------------------------------------------------------------------


@each(
    "content",
    [
        {"mode": "hold", "value": "fast"},
        {"mode": "hold", "value": ""},
        {"mode": "hold", "value": "nan"},
        {"mode": "hold", "value": "inf"},
        {"mode": "hold", "value": "-1"},
        {"mode": "hold", "value": [1]},
        {"mode": "hold", "value": True},
        {"mode": "scale"},
        {"mode": "scale", "value": None},
        {"mode": "delete", "value": "1"},
        {"mode": ["hold"]},
        {},
        {"mode": "hold", "value": "1e-3", "group": "0"},
        {"mode": "hold", "value": "1e-3", "optimizer": -1},
        {"mode": "hold", "value": "x" * 100_000},
    ],
)
def test_nonsense_from_a_page_is_one_line(content: dict[str, object]) -> None:
    with pytest.raises(UsageError) as error:
        learning_rate.Wish.of(content)
    assert len(str(error.value)) < 200
    assert "\n" not in str(error.value)


def test_what_will_happen_is_said_for_all_ranks() -> None:
    said = learning_rate.preview(learning_rate.Wish("scale", 0.5, None, None), lr(300))
    assert said["title"].startswith("Multiply the scheduled learning rate of")
    assert "on all 300 ranks, or on none of them" in said["lines"][0]
    assert not said["needs_force"]
    assert all(row["ratio"] == "0.5 ×" for row in said["rows"])


def test_a_jump_needs_a_second_word_and_a_release_needs_something_to_release() -> None:
    jump = learning_rate.preview(learning_rate.Wish("hold", 1e-9, 0, 0), lr(2))
    assert jump["needs_force"]
    assert "times smaller than the learning rate" in jump["warnings"][0]
    assert not learning_rate.preview(learning_rate.Wish("hold", 1e-9, 0, 0, force=True), lr(2))["needs_force"]
    assert "would learn nothing" in learning_rate.preview(learning_rate.Wish("hold", 0.0, 0, 0), lr(2))["warnings"][0]
    with pytest.raises(UsageError, match="nothing to release"):
        learning_rate.preview(learning_rate.Wish("release", None, None, None), lr(2))
    with pytest.raises(UsageError, match="nothing to undo"):
        learning_rate.preview(learning_rate.Wish("undo", None, None, None), lr(2))
    with pytest.raises(UsageError, match="no such param group"):
        learning_rate.preview(learning_rate.Wish("hold", 1e-3, 0, 99), lr(2))


def test_300_ranks_that_agree_are_one_row() -> None:
    state = learning_rate.state_of(lr_in_force(300))
    assert state["ranks"] == "ranks 0-299 (300)"
    assert state["in_force"] > 0
    assert len(json.dumps(state)) < 20_000
    outcome = learning_rate.outcome_of(lr_changed(300))
    assert len(outcome["ranks"]) == 1
    assert outcome["ranks"][0]["ranks"] == "ranks 0-299 (300)"
    assert outcome["ranks"][0]["state"] == "verified"


# --- diagnosis ---------------------------------------------------------------------------------------------------------------


def test_identical_stacks_of_300_ranks_are_told_once() -> None:
    message = diagnosing.stacks_message(stacks(300, odd=17))
    training = message["sections"][0]
    assert training["title"] == "Training threads"
    assert [group["count"] for group in training["groups"]] == [1, 299]
    assert training["groups"][0]["ranks"] == "rank 17"
    assert len(json.dumps(message)) < 60_000


def test_300_ranks_by_their_groups_are_few_rows_the_one_to_blame_first() -> None:
    message = diagnosing.collectives_message(collectives(300, late=17))
    assert message["families"][0] == "default group"
    first = message["rows"][0]
    assert (first["ranks"], first["blamed"], first["waits_in"]) == ("rank 17", True, "")
    assert first["cells"][0] == {"issued": 56, "completed": 56, "behind": 1, "waits": False}
    others = message["rows"][1:]
    assert sum(row["count"] for row in others) == 299
    assert all(row["cells"][0]["waits"] and row["waits_in"] == "all_reduce #57 of default group" for row in others)
    assert max(row["for_s"] for row in others) == pytest.approx(32.299)
    assert len(message["rows"]) < 5
    assert len(message["each"]) == 300


def test_every_rank_has_its_line_who_is_to_blame_first() -> None:
    message = diagnosing.diagnosis_message(stuck(300))
    assert len(message["ranks"]) == 300
    ordered = sorted(message["ranks"], key=lambda row: row["odd"])
    assert [row["state"] for row in ordered[1:4]] == ["stopped", "ended", "waiting"]
    assert ordered[0]["doing"] == "waits for the next batch"
    assert message["tone"] in ("bad", "warning", "good")
    assert len(message["cards"]) == len(stuck(300).verdict)
    json.dumps(message, allow_nan=False)


# --- checkpoint ----------------------------------------------------------------------------------------------------------------


@each("job", ["torchrun:4711", "ray:job@127.0.0.1:6379", "../../etc", "", "x" * 500])
def test_a_suggested_path_is_absolute_and_plain(job: str) -> None:
    path = checkpoint.suggested(job)
    assert path.startswith("/")
    assert "/.." not in path
    assert ":" not in path.rpartition("/")[2]
    assert len(path.rpartition("/")[2]) < 80
