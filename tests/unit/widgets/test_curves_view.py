"""The Python half of the curves: a whole once, then tails; a finer curve for a zoom; nothing that a page asks for breaks it."""

from __future__ import annotations

from typing import Any

import numpy as np
from cases import each
from synthetic import Synthetic

from jupyter_traindbg.live import Feed
from jupyter_traindbg.widgets.curves import MOST_RANKS, CurvesView, Want
from jupyter_traindbg.widgets.hub import Hub
from jupyter_traindbg.widgets.wire import pack, size_bytes


class Scene:
    """A feed of a synthetic job, its hub, and one page."""

    def __init__(self, ranks: int = 1, **source: Any) -> None:
        self.source = Synthetic(ranks, hz=1, **source)
        self.feed = Feed(self.source)  # type: ignore[arg-type]
        self.sent: list[tuple[dict[str, Any], list[bytes]]] = []
        self.hub = Hub(self.source, self.feed, [CurvesView], lambda m, buffers: self.sent.append((m, buffers)))
        self.ask(kind="shown", name="curves", view="")

    def ask(self, view: str = "curves", **body: Any) -> None:
        self.hub.received({"view": view, "from": "page", "body": body}, [])

    def steps(self, more: int) -> None:
        """Let so many more steps be made, at once."""
        self.source._began -= more / self.source._hz
        self.feed.round()

    def refresh(self) -> None:
        self.hub._last_round = 0.0
        self.hub.round()

    def got(self, kind: str) -> list[tuple[dict[str, Any], list[bytes]]]:
        return [(m["body"], buffers) for m, buffers in self.sent if m["body"]["kind"] == kind]


def columns(body: dict[str, Any], buffers: list[bytes], name: str) -> tuple[Any, Any]:
    """The x of a series, and its first column."""
    wide, narrow = np.frombuffer(buffers[0], "<f8"), np.frombuffer(buffers[1], "<f4")
    w = v = 0
    for head in body["series"]:
        width = 3 if head["ranks"] is None else len(head["ranks"])
        if head["name"] == name:
            return wide[w : w + head["n"]], narrow[v : v + head["n"]]
        w += head["n"] + head["marks"]
        v += head["n"] * width
    raise AssertionError(f"no {name} in {[head['name'] for head in body['series']]}")


def test_the_whole_comes_once_and_then_only_tails() -> None:
    scene = Scene()
    scene.steps(400)
    scene.ask(kind="want", seq=1, points=1000)
    ((whole, buffers),) = scene.got("whole")
    x, loss = columns(whole, buffers, "loss")
    assert list(x) == list(range(1, len(x) + 1))
    assert len(x) >= 400
    assert np.isfinite(loss).all()
    assert whole["labels"]["loss"]["group"] == "loss"
    scene.refresh()
    assert scene.got("tail") == [], "nothing is new"
    scene.steps(10)
    scene.refresh()
    ((tail, tail_buffers),) = scene.got("tail")
    new, _ = columns(tail, tail_buffers, "loss")
    assert len(scene.got("whole")) == 1
    assert new[0] <= x[-1] + 1
    assert new[-1] == scene.feed.last_step
    assert size_bytes(tail, tail_buffers) < size_bytes(whole, buffers) / 2


def test_a_curve_that_has_grown_by_as_much_again_is_sent_anew() -> None:
    scene = Scene()
    scene.steps(100)
    scene.ask(kind="want", seq=1, points=50)
    for _ in range(8):
        scene.steps(20)
        scene.refresh()
    assert len(scene.got("whole")) >= 2


def test_a_zoom_is_finer_and_what_lies_in_the_past_is_not_sent_again() -> None:
    scene = Scene()
    scene.steps(5000)
    scene.ask(kind="want", seq=1, points=200)
    scene.ask(kind="want", seq=2, points=200, first=1000, last=1080)
    (coarse, _), (fine, buffers) = scene.got("whole")
    assert coarse["series"][0]["per_point"] > 1
    assert fine["series"][0]["per_point"] == 1
    assert fine["seq"] == 2
    x, _ = columns(fine, buffers, "loss")
    assert (x[0], x[-1]) == (1000, 1080)
    before = len(scene.sent)
    scene.steps(10)
    scene.refresh()
    assert [m["body"]["kind"] for m, _ in scene.sent[before:] if m["body"]["kind"] != "events"] == []


def test_a_nan_is_a_mark_and_a_jump_an_event() -> None:
    scene = Scene(bad_step=50, drop_step=70)
    scene.steps(100)
    scene.ask(kind="want", seq=1, points=1000)
    ((whole, buffers),) = scene.got("whole")
    head = next(s for s in whole["series"] if s["name"] == "loss")
    assert head["marks"] == 1
    _, loss = columns(whole, buffers, "loss")
    assert np.isnan(loss[49])
    assert {(e["kind"], e["step"]) for e in whole["events"]} == {("nan", 50), ("lr", 70)}


def test_many_ranks_are_a_band_and_those_chosen_are_lines() -> None:
    scene = Scene(20)
    scene.steps(30)
    scene.ask(kind="want", seq=1)
    scene.ask(kind="want", seq=2, ranks=[3, 7])
    (all_of_them, _), (chosen, _) = scene.got("whole")
    assert all_of_them["series"][0]["ranks"] is None
    assert chosen["series"][0]["ranks"] == [3, 7]
    (about, _), *_ = scene.got("about")
    assert len(about["ranks"]) == 20


def test_by_how_much_the_optimizers_own_count_is_ahead_is_told_when_it_becomes_known_and_to_who_comes_later() -> None:
    scene = Scene(ahead=628)
    scene.ask(kind="want", seq=1)
    scene.steps(10)
    scene.refresh()
    scene.refresh()
    assert [about["ahead"] for about, _ in scene.got("about")] == [None, 628], "before the first step, and after it"
    scene.ask(kind="left", view="")
    scene.ask(kind="shown", name="curves", view="")
    scene.ask(kind="want", seq=1)
    assert scene.got("about")[-1][0]["ahead"] == 628
    scene.source.ahead = 0  # another checkpoint was loaded into the optimizer
    scene.steps(5)
    scene.refresh()
    assert [about["ahead"] for about, _ in scene.got("about")] == [None, 628, 628, None]


def test_time_on_the_x_axis() -> None:
    scene = Scene()
    scene.steps(100)
    scene.ask(kind="want", seq=1, x="time")
    ((whole, buffers),) = scene.got("whole")
    x, _ = columns(whole, buffers, "loss")
    assert (np.diff(x) > 0).all()
    assert x[0] > 1e9
    scene.steps(10)
    scene.refresh()
    tails = scene.got("tail") + scene.got("whole")[1:]
    new, _ = columns(*tails[-1], "loss")
    assert new[-1] > x[-1]


@each(
    "words",
    [
        {"ranks": "all", "first": "x", "last": None, "points": "many", "x": 3},
        {"ranks": [None, "1", 2.5, True, -4], "first": float("nan"), "points": -1},
        {"ranks": list(range(1000)), "points": 1e9, "first": float("inf")},
        {"first": 50, "last": 10},
        {"first": -1e300, "last": 1e300, "x": "time"},
    ],
)
def test_whatever_a_page_wants_is_answered(words: dict[str, Any]) -> None:
    scene = Scene(2)
    scene.steps(20)
    scene.ask(kind="want", **words)
    assert len(scene.got("whole")) == 1


def test_what_a_page_wants_is_bounded() -> None:
    want = Want.read({"ranks": list(range(1000)), "points": 1e9, "seq": "7"})
    assert want.ranks is not None
    assert len(want.ranks) == MOST_RANKS
    assert want.points <= 4000
    assert want.seq == 0


def test_values_beyond_a_float32_are_infinite() -> None:
    assert np.isinf(np.frombuffer(pack([np.array([1e300])], "<f4"), "<f4")).all()
    assert pack([], "<f8") == b""
