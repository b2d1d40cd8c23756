"""What the view of Ray's workers says, and what it says first; with 8 workers and with 1,000."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import pytest
import render_scenes_ray as scenes

from jupyter_traindbg import render
from jupyter_traindbg.errors import UsageError
from jupyter_traindbg.magics import base, ray_workers
from jupyter_traindbg.magics.ipython import NotebookSession


def words(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def test_eight_workers() -> None:
    text = render.text(scenes.collector(), 200)
    assert text.splitlines()[0].startswith(
        "✖ 2 of 8 workers are in trouble: Collector[5, 6] · Ray job raysubmit_9XkQ · 10.0.0.4:6379 · Ray 2.60.0"
    )
    told = words(text)
    assert (
        "✖ Collector[5] · running run() for 31 s at engine.py:27 Engine.step, waiting for a lock or another thread"
        in told
    )
    assert "MainThread waits for self.a at engine.py:27 Engine.step, which stats holds" in told
    assert "▲ Collector[6] · in __init__ for 33 s at engine.py:12 Engine.load" in told
    assert "Collector[0-4, 7] (6) running run() at engine.py:31 Engine.step" in told
    assert text.index("Collector[5]") < text.index("Collector[6]") < text.index("Collector[0-4, 7]")


def test_a_thousand_workers_on_one_screen() -> None:
    text = render.text(scenes.thousand(), 120)
    told = words(text)
    assert "15 of 1,009 workers are in trouble: Collector[5, 17, 23, 102, ...], Judge[0]" in told
    assert "Collector[17, 404]" in told
    assert "Judge[0] · can never start: it needs 16 GPU" in told
    assert "Collector[23] · in __init__" in told
    assert "ranks 0-7 (8)" in told
    assert "15 nodes: 937.5 of 960 CPU taken, 1 dead" in told
    assert len(text.splitlines()) < 70


def test_whoever_a_verdict_names_needs_no_second_card() -> None:
    assert "✖ Collector[5] ·" not in render.text(scenes.collector(verdict=True), 120)
    assert "▲ Collector[6] ·" in render.text(scenes.collector(verdict=True), 120)


def test_progress_of_one_and_of_many() -> None:
    text = words(render.text(scenes.collector(progress=True), 140))
    assert "games 17, moves 1,340" in text
    rows = [replace(row, progress=f"games {i}") for i, row in enumerate(scenes.thousand(200).workers)]
    assert re.search(r"games \d+–\d+", render.text(replace(scenes.thousand(200), workers=tuple(rows)), 160))


def test_a_page_of_a_thousand_stays_small() -> None:
    assert len(render.html(scenes.thousand()).encode()) < 150_000


def test_a_look_in_one_line() -> None:
    line = ray_workers.line(scenes.collector())
    assert line.startswith("7 running, 1 in __init__; in trouble: Collector[5] /")
    assert ray_workers.line(scenes.nothing()) == "no workers; nobody in trouble"


@pytest.mark.parametrize("words", [["--every", "0"], ["--watch", "--for", "-1"]])
def test_times_that_are_none(words: list[str]) -> None:
    parser = base.parser("ray_workers")
    with pytest.raises(UsageError, match="more than none"):
        ray_workers.run(parser.parse_args(words), None)  # type: ignore[arg-type]


def test_an_address_that_is_none() -> None:
    parser = base.parser("ray_workers")
    with pytest.raises(UsageError, match="no address of a Ray cluster"):
        ray_workers.run(parser.parse_args(["ray:job@nonsense"]), NotebookSession())


def test_a_watch_takes_a_hundredth_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(2)))
    assert ray_workers._usual_every_s(0.001) == ray_workers.EVERY_S
    assert ray_workers._usual_every_s(0.5) == pytest.approx(25)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    assert ray_workers._usual_every_s(0.5) == ray_workers.EVERY_S
