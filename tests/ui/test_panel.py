"""The side panel in a real JupyterLab: it lists real trainings, attaches, asks, saves a checkpoint, and survives what it looks at."""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path

import nbformat
import pytest
from browsers import Lab, eventually
from panels import Panel, Picture, opened
from playwright.sync_api import Browser, Page, expect
from support import PROGRAMS, Program, Start

from jupyter_traindbg.agent import rendezvous
from jupyter_traindbg.checkpoints import verify

pytestmark = pytest.mark.timeout(600)


def agent_there(program: Program) -> bool:
    return rendezvous.card(rendezvous.directory(program.pid, os.getuid())) is not None


def test_a_training_appears_is_followed_and_dies(panel: Panel, start: Start, picture: Picture, page: Page) -> None:
    training = start("train.py", "--sleep", "0.05")
    expect(panel.entry(training.pid)).to_contain_text("train.py")
    expect(panel.entry(training.pid)).to_contain_text("not attached")
    page.wait_for_timeout(5000)  # some looks
    assert not agent_there(training), "looking brought an agent in"
    panel.button(training.pid, "follow").click()
    before = eventually(lambda: panel.steps(training.pid))
    eventually(lambda: panel.steps(training.pid) > before + 20)
    expect(panel.button(training.pid, "follow")).to_have_attribute("aria-pressed", "true")
    expect(panel.entry(training.pid).get_by_role("img")).to_have_attribute("aria-label", re.compile(r"Loss .* from \d"))
    assert panel.figure(training.pid, "memory").endswith("iB")
    panel.only(training.pid)
    picture("panel-training")
    os.kill(training.pid, signal.SIGKILL)
    training.wait(10)
    expect(panel.entry(training.pid)).to_contain_text("has ended")
    panel.button(training.pid, "follow").click()
    expect(panel.entry(training.pid)).to_have_count(0)


def test_attach_from_the_panel(panel: Panel, training: Program, acting_lab: Lab, page: Page) -> None:
    """The cell goes to a new kernel, which has loaded nothing of ours, and then another one to the notebook that is current."""
    panel.button(training.pid, "attach").click()
    output = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell-outputArea")
    expect(output.first).to_contain_text("injected")
    assert agent_there(training)
    expect(panel.entry(training.pid)).not_to_contain_text("not attached")
    eventually(lambda: panel.steps(training.pid) > 0)  # its agent is read from the server now, without a follower
    panel.button(training.pid, "attach").click()
    expect(page.locator(".jp-NotebookPanel")).to_have_count(1)
    expect(output).to_have_count(2)
    page.evaluate("() => window.jupyterapp.shell.currentWidget.context.save()")
    (file,) = eventually(lambda: list(acting_lab.root.glob("Untitled*.ipynb")))
    eventually(lambda: f"%attach {training.pid}" in file.read_text())
    cells = nbformat.read(file, as_version=4).cells  # type: ignore[no-untyped-call]
    assert cells[0].source == f"%load_ext traindbg\n%attach {training.pid}"


def test_stacks_and_diagnosis_open_beside_it(
    panel: Panel, start: Start, picture: Picture, page: Page, tmp_path: Path
) -> None:
    script = tmp_path / "finetune.py"  # not where the checkout is: the picture shows its path
    shutil.copy(PROGRAMS / "hung_after_steps.py", script)
    hung = start(str(script))
    panel.button(hung.pid, "stacks").click()
    expect(page.get_by_role("document", name="stacks: finetune.py")).to_contain_text("finetune.py")
    panel.button(hung.pid, "diagnose").click()
    cards = page.locator(".jp-traindbg-card")
    expect(cards.first).to_contain_text("What to do")
    expect(cards.first).to_contain_text("Evidence")
    assert not agent_there(hung), "the diagnosis left its agent behind"
    panel.only(hung.pid)
    picture("panel-diagnosis")


def test_a_checkpoint_is_confirmed_written_and_verifies(
    panel: Panel, training: Program, picture: Picture, page: Page, tmp_path: Path
) -> None:
    place = tmp_path / "saved"
    panel.button(training.pid, "checkpoint").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Free space there")
    expect(dialog).to_contain_text("train.py")
    box = dialog.get_by_label("Directory")
    assert f"traindbg-checkpoints/{training.pid}-" in box.input_value()
    expect(box).to_be_focused()
    panel.only(training.pid)
    picture("panel-checkpoint")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert not list(tmp_path.glob("saved*")), "a checkpoint nobody confirmed"
    panel.button(training.pid, "checkpoint").click()
    box.fill(str(place))
    dialog.get_by_role("button", name="Write the checkpoint").click()
    expect(page.locator(".jp-traindbg-result")).to_contain_text(str(place))
    assert verify(str(place)).findings == ()
    told = training.output()
    eventually(lambda: training.output() != told)  # the training goes on


def test_the_status_bar_tells_of_a_stall_in_words(panel: Panel, start: Start, picture: Picture, page: Page) -> None:
    healthy, stalled = start("train.py", "--sleep", "0.05"), start("hung_after_steps.py")
    panel.button(healthy.pid, "follow").click()
    panel.button(stalled.pid, "follow").click()
    state = panel.entry(stalled.pid).locator(".jp-traindbg-state")
    expect(state).to_have_text(re.compile("stalled|hung"))
    bar = page.locator(".jp-traindbg-status button")
    expect(bar).to_have_accessible_name(re.compile(r"(stalled|hung|in trouble)"))
    expect(bar).to_have_class("jp-mod-bad")
    expect(panel.node.get_by_role("status").first).to_contain_text(re.compile("stalled|hung"))
    expect(page.locator(".Toastify")).to_contain_text(re.compile("stalled|hung"))
    panel.only(stalled.pid, healthy.pid)
    picture("panel-stalled")
    stalled.stop()
    bar.click()
    expect(panel.node.locator(":focus")).to_have_count(1)


def test_everything_is_reached_by_keyboard(panel: Panel, start: Start, page: Page) -> None:
    first, second = start("train.py", "--sleep", "0.05"), start("train.py", "--sleep", "0.05")
    for program in (first, second):
        expect(panel.entry(program.pid)).to_be_visible()
    head = panel.entry(first.pid).locator(".jp-traindbg-head")
    head.focus()
    expect(head).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-expanded", "false")
    expect(panel.button(first.pid, "attach")).to_be_hidden()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(panel.button(first.pid, "attach")).to_be_focused()
    heads = panel.node.locator(".jp-traindbg-head")
    heads.first.focus()
    page.keyboard.press("ArrowDown")
    expect(heads.nth(1)).to_be_focused()
    panel.button(second.pid, "stacks").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".jp-traindbg-result")).to_contain_text("train.py")


def test_hostile_names_are_shown_as_text(panel: Panel, start: Start, tmp_path: Path, page: Page) -> None:
    script = tmp_path / "<iframe onload=window.hacked=1><b>evil<img src=x onerror=window.hacked=1>.py"
    shutil.copy(PROGRAMS / "train.py", script)
    evil = start(str(script), "--sleep", "0.05")
    head = panel.entry(evil.pid).locator(".jp-traindbg-head")
    expect(head).to_have_attribute("title", re.compile(re.escape(str(script))))
    panel.button(evil.pid, "stacks").click()
    expect(page.locator(".jp-traindbg-result")).to_contain_text("<b>evil<img src=x")
    assert page.locator(".jp-traindbg-panel iframe, .jp-traindbg-panel b, .jp-traindbg-result img").count() == 0
    assert page.evaluate("() => window.hacked") is None


def test_a_server_that_does_not_answer_is_told_and_the_list_stays(
    chromium: Browser, acting_lab: Lab, training: Program
) -> None:
    context = chromium.new_context()
    page = context.new_page()  # one that may write errors to its console
    panel = opened(page, acting_lab)
    expect(panel.entry(training.pid)).to_be_visible()
    page.route("**/jupyter-traindbg/jobs*", lambda route: route.abort())
    expect(panel.node.get_by_role("alert")).to_contain_text("does not answer")
    expect(panel.entry(training.pid)).to_be_visible()
    page.unroute("**/jupyter-traindbg/jobs*")
    expect(panel.node.get_by_role("alert")).to_have_count(0)
    context.close()


def test_a_closed_panel_asks_seldom_and_one_that_is_off_never(panel: Panel, training: Program, page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "jupyter-traindbg/jobs" in request.url else None)
    while len(asked) < 2:
        page.wait_for_timeout(200)  # events of the browser arrive while it is waited for
    change = (
        "([key, value]) => window.jupyterapp.serviceManager.settings.save("
        "'jupyter-traindbg:plugin', JSON.stringify({ [key]: value }))"
    )
    page.evaluate(change, ["enabled", False])
    page.reload()
    page.wait_for_function("() => window.jupyterapp?.restored.then(() => true)")
    page.evaluate("() => window.jupyterapp.commands.execute('traindbg:show')")
    expect(panel.node).to_contain_text("Looking is off")
    asked.clear()
    page.wait_for_timeout(6000)
    assert asked == []
    page.get_by_role("button", name="Look for training jobs now").click()
    expect(panel.entry(training.pid)).to_be_visible()
    page.evaluate(change, ["enabled", True])
