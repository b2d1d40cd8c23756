"""The Python halves of the widget's views on real trainings, talked to through the hub as a page does it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import Program, Start
from view_pages import LIMIT_S, Page

import traindbg

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def watch(start: Start) -> Iterator[Callable[..., tuple[Page, Program, traindbg.Job]]]:
    """``watch("watched.py", ...)`` starts that training, attaches to it, and gives a page that watches it."""
    opened: list[tuple[Page, traindbg.Job]] = []

    def run(program: str, *words: str, torchrun: bool = False) -> tuple[Page, Program, traindbg.Job]:
        trained = start(program, *words, timeout_s=120)
        job = traindbg.attach(f"torchrun:{trained.pid}" if torchrun else trained.pid, timeout=30)
        page = Page(job)
        opened.append((page, job))
        return page, trained, job

    yield run
    for page, job in opened:
        page.close()
        job.close()


def used(trained: Program) -> float:
    """The learning rate that the last step of watched.py really used on group 1."""
    return float.fromhex(re.findall(r"moved (\S+)\n", trained.output())[-1])


def wait_until(true: Callable[[], bool]) -> None:
    ends = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.02)


# --- gradients ---------------------------------------------------------------------------------------------------------------


def columns(layers: int, buffers: Sequence[bytes]) -> list[Any]:
    return [np.frombuffer(one, np.float32) for one in buffers[:3]] if layers else []


def test_gradients_are_read_while_somebody_looks_and_not_after(watch: Callable[..., Any]) -> None:
    page, _, job = watch("watched.py", "--hostile")
    page.show("gradients")
    layout, _ = page.wait("gradients", "layout")
    assert "blocks.0.attention.query" in layout["layers"]
    assert any("\\n\\x1b[31m" in p["name"] for p in layout["parameters"])
    look, buffers = page.wait("gradients", "look", lambda told: told["step"] is not None)
    norms, _, bad = columns(len(layout["layers"]), buffers)
    assert len(norms) == len(layout["layers"])
    assert (norms > 0).any()
    assert (bad == 0).all()
    by_parameter = dict(
        zip((p["name"] for p in layout["parameters"]), np.frombuffer(buffers[3], np.float32), strict=True)
    )
    assert by_parameter["pace"] == pytest.approx(1.0)  # its gradient is one
    assert by_parameter["<img src=x onerror=alert(1)>"] > 0
    assert "of the training's time" in look["cost"]
    later, _ = page.wait("gradients", "look", lambda told: told["step"] is not None and told["step"] > look["step"])
    assert later["step"] > look["step"]

    page.say("gradients", "two", do="hello")
    history, pile = page.wait("gradients", "history", to="two")
    assert len(history["steps"]) >= 2
    assert all(len(one) == 4 * len(layout["layers"]) * len(history["steps"]) for one in pile)
    page.show(None)
    page.show(None, "two")

    def told() -> int:
        return len([m for m, _ in page.messages if m["view"] == "gradients"])

    def still(steps: int) -> bool:
        before, since = told(), job.steps(last=1).ranks[0].steps[-1].step
        wait_until(lambda: job.steps(last=1).ranks[0].steps[-1].step > since + steps)
        return told() == before

    wait_until(lambda: still(50))  # a look that was under way
    assert still(100)


def test_first_nan_fires_for_the_module_that_makes_it(watch: Callable[..., Any], tmp_path: Path) -> None:
    now = tmp_path / "now"
    page, _, _ = watch("watched.py", "--nan", str(now))
    page.show("gradients")
    page.say("gradients", do="arm")
    page.wait("gradients", "watch", lambda told: told["state"] == "armed" and told["steps"] > 0)
    page.show("learning_rate")  # it stays armed when the tab is left
    now.touch()
    fired, _ = page.wait("gradients", "watch", lambda told: told["state"] == "fired")
    assert re.fullmatch(
        r"blocks\.2\.gate \(Gate\) in step [\d,]+ (\([\d,]+ )?since the attach\)?, on rank 0", fired["words"]
    )
    assert fired["cards"][0]["code"] == "nonfinite_activation"
    assert "finite inputs and weights" in fired["cards"][0]["cause"]


def test_what_is_disarmed_ends(watch: Callable[..., Any]) -> None:
    page, _, _ = watch("watched.py")
    page.show("gradients")
    page.say("gradients", do="arm")
    page.wait("gradients", "watch", lambda told: told["state"] == "armed")
    since = len(page.messages)
    page.say("gradients", do="disarm")
    page.wait("gradients", "watch", lambda told: told["state"] == "off", since=since)


# --- learning rate -------------------------------------------------------------------------------------------------------------


def test_only_what_was_said_is_done_and_only_once(watch: Callable[..., Any]) -> None:
    page, trained, _ = watch("watched.py")
    page.show("learning_rate")
    state, _ = page.wait("learning_rate", "state")
    assert [len(o["groups"]) for o in state["optimizers"]] == [2]
    wish = {"mode": "hold", "value": "2.5e-3", "optimizer": 0, "group": 1}
    said = page.ask("learning_rate", "preview", "preview", **wish)
    assert said["title"] == "Pin the learning rate of SGD, group 1 at 2.5e-3"
    assert used(trained) == pytest.approx(0.01, rel=1e-3)
    applied = page.ask("learning_rate", "apply", "applied", preview=said["preview"])
    assert applied["ranks"][0]["state"] == "verified"
    wait_until(lambda: used(trained) == pytest.approx(2.5e-3))
    again = page.ask("learning_rate", "apply", "invalid", preview=said["preview"])
    assert "was done" in again["text"]
    assert page.ask("learning_rate", "apply", "invalid", preview=[1])["text"]

    undone = page.ask("learning_rate", "preview", "preview", mode="undo")
    page.ask("learning_rate", "apply", "applied", preview=undone["preview"])
    wait_until(lambda: used(trained) == pytest.approx(0.01, rel=1e-3))
    state, _ = page.wait("learning_rate", "state", lambda told: len(told["log"]) == 2)
    assert state["in_force"] == 0


def test_a_slip_is_refused_by_the_job_itself(watch: Callable[..., Any]) -> None:
    """What a page claims to have confirmed does not matter: without force the agent says no."""
    page, trained, _ = watch("watched.py")
    page.show("learning_rate")
    said = page.ask("learning_rate", "preview", "preview", mode="hold", value="1e3", optimizer=0, group=1)
    assert said["needs_force"]
    refused = page.ask("learning_rate", "apply", "refused", preview=said["preview"])
    assert "times larger" in refused["text"]
    assert used(trained) == pytest.approx(0.01, rel=1e-3)


def test_two_ranks_change_at_one_step(watch: Callable[..., Any]) -> None:
    page, _, _ = watch("tuned.py", "--sleep", "0.02", torchrun=True)
    page.show("learning_rate")
    said = page.ask("learning_rate", "preview", "preview", mode="scale", value=0.5)
    assert "on all 2 ranks, or on none" in said["lines"][0]
    applied = page.ask("learning_rate", "apply", "applied", preview=said["preview"])
    assert [row["ranks"] for row in applied["ranks"]] == ["ranks 0, 1"]
    assert applied["same_step"]
    assert re.search(r"from step [\d,]+ \([\d,]+( to [\d,]+)? since the attach\) on", applied["ranks"][0]["when"])


# --- checkpoint ------------------------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_what_was_planned(watch: Callable[..., Any], tmp_path: Path) -> None:
    page, _, job = watch("train.py", "--sleep", "0.02", "--width", "512")
    page.show("checkpoint")
    there = tmp_path / "saved"
    said = page.ask("checkpoint", "plan", "plan", directory=str(there))
    facts = dict(said["facts"])
    assert facts["path"] == str(there)
    assert said["against"] == []
    assert not there.exists()
    plan = job.checkpoint_plan(str(there))
    since = len(page.messages)
    page.say("checkpoint", do="save", plan=said["plan"])
    saved, _ = page.wait("checkpoint", "saved", since=since)
    verified, _ = page.wait("checkpoint", "verified", since=since)
    assert verified["good"]
    written = sum(file.stat().st_size for file in there.iterdir())
    assert plan.bytes * 0.9 < written < plan.bytes * 1.1 + 100_000
    assert any(repr(str(there)) in one["code"] for one in saved["code"])
    assert page.ask("checkpoint", "save", "invalid", plan=said["plan"])["text"] == "this plan is an old one"

    page.say("checkpoint", "two", do="hello")  # a page that comes later sees it
    assert page.wait("checkpoint", "saved", to="two")[0]["directory"] == str(there)
    model = there / "model.pt"
    content = bytearray(model.read_bytes())
    content[len(content) // 2] ^= 1
    model.write_bytes(content)
    damaged = page.ask("checkpoint", "verify", "verified")
    assert not damaged["good"]
    assert "model.pt: damaged" in damaged["files"][0]


def test_what_forbids_a_checkpoint_is_said_before(watch: Callable[..., Any], tmp_path: Path) -> None:
    page, _, _ = watch("train.py", "--sleep", "0.02")
    page.show("checkpoint")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("mine")
    against = page.ask("checkpoint", "plan", "plan", directory=str(tmp_path / "mine"))["against"]
    assert "will not be replaced" in against[0]
    nowhere = page.ask("checkpoint", "plan", "plan", directory=str(tmp_path / "no" / "where"))["against"]
    assert "is not there" in nowhere[0]
    for nonsense in ("", "  ", None, 7, "a\0b", "x" * 10_000):
        assert page.ask("checkpoint", "plan", "invalid", directory=nonsense)["text"] == "there is no path to save to"
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "mine"


# --- diagnosis ---------------------------------------------------------------------------------------------------------------------


def test_the_diagnosis_is_made_once_when_its_tab_opens_first(watch: Callable[..., Any]) -> None:
    page, trained, _ = watch("watched.py")
    page.show("diagnosis")
    found, _ = page.wait("diagnosis", "diagnosis")
    assert found["state"] == "healthy"
    assert found["ranks"][0]["pid"] == trained.pid
    page.show("checkpoint")
    since = len(page.messages)
    page.show("diagnosis")
    stacks = page.ask("diagnosis", "stacks", "stacks")
    assert any("watched.py" in group["where"] for group in stacks["sections"][0]["groups"])
    assert [m["body"]["kind"] for m, _ in page.messages[since:]].count("diagnosis") == 0
    collectives = page.ask("diagnosis", "collectives", "collectives")
    assert collectives["families"] == []


def test_a_job_that_is_gone_is_one_line_in_every_view(watch: Callable[..., Any], tmp_path: Path) -> None:
    page, trained, _ = watch("watched.py")
    trained.stop()
    asked = {
        "gradients": ({"do": "look"}, "failed"),
        "learning_rate": ({"do": "preview", "mode": "scale", "value": 0.5}, "failed"),
        "checkpoint": ({"do": "plan", "directory": str(tmp_path / "x")}, "refused"),
    }
    for view, (body, kind) in asked.items():
        since = len(page.messages)
        page.say(view, **body)
        told, _ = page.wait(view, kind, since=since)
        assert "\n" not in told["text"]
        assert told["next_step"]
