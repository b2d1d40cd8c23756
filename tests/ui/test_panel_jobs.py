"""The panel with jobs of several processes, with many, and its ways into a notebook, a report and the palette."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
from browsers import Lab, eventually
from checkpointing import TWO_RANKS
from panels import Panel, Picture
from playwright.sync_api import Page, Route, expect
from ray_clusters import RAY_TEST_S, Cluster, Submitted
from support import Program, Start

from jupyter_traindbg.checkpoints import verify

pytestmark = pytest.mark.timeout(max(600, RAY_TEST_S))


def test_a_launchers_ranks_are_one_job(
    panel: Panel, start: Start, free_port: str, picture: Picture, tmp_path: Path
) -> None:
    """One entry with both ranks; it is followed, asked and saved as a whole, and one rank that dies is no end of the others."""
    page = panel.page
    launcher = start("sharded.py", "--mode", "fsdp2", "--sleep", "0.05", command=[*TWO_RANKS, free_port], timeout_s=90)
    name = f"torchrun:{launcher.pid}"
    expect(panel.entry(name)).to_contain_text("2 ranks")
    expect(panel.entry(name)).to_have_count(1)
    panel.button(name, "follow").click()
    before = eventually(lambda: panel.steps(name))
    eventually(lambda: panel.steps(name) > before + 5)
    panel.button(name, "stacks").click()
    expect(page.get_by_role("document", name=re.compile("^stacks: "))).to_contain_text("sharded.py")
    place = tmp_path / "saved"
    panel.button(name, "checkpoint").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Directory").fill(str(place))
    dialog.get_by_role("button", name="Write the checkpoint").click()
    expect(page.get_by_role("document", name=re.compile("^checkpoint: "))).to_contain_text(str(place))
    saved = verify(str(place))
    assert (saved.kind, saved.findings) == ("sharded", ())
    panel.only(name)
    picture("panel-ranks")


def test_a_ray_job_is_listed_and_followed(
    panel: Panel, ray_training: tuple[Submitted, Path], ray_cluster: Cluster, page: Page, picture: Picture
) -> None:
    name = f"ray:@{ray_cluster.gcs}"
    expect(panel.entry(name)).to_have_count(1)
    expect(panel.entry(name)).to_contain_text("processes")
    panel.button(name, "follow").click()
    eventually(lambda: panel.steps(name) > 0)
    panel.button(name, "diagnose").click()
    shown = page.get_by_role("document", name=re.compile("^diagnosis: "))
    expect(shown).to_contain_text("Nothing wrong was found")
    panel.only(name)
    picture("panel-ray")
    panel.button(name, "follow").click()
    expect(panel.button(name, "follow")).to_have_attribute("aria-pressed", "false")


def test_watch_opens_the_live_view_in_a_notebook(panel: Panel, training: Program, page: Page) -> None:
    panel.button(training.pid, "watch").click()
    shown = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .tdb-watch")
    expect(shown).to_be_visible()
    expect(shown.locator(".tdb-state")).to_contain_text("training")


def test_a_report_is_written_into_the_servers_directory(
    panel: Panel, training: Program, acting_lab: Lab, page: Page
) -> None:
    panel.button(training.pid, "report").click()
    shown = page.get_by_role("document", name=re.compile("^report: "))
    expect(shown).to_contain_text(f"traindbg-report-{training.pid}-")
    (file,) = acting_lab.root.glob(f"traindbg-report-{training.pid}-*.zip")
    with zipfile.ZipFile(file) as report:
        assert report.testzip() is None
        assert len(report.namelist()) > 3
    with page.expect_popup() as opened:
        page.get_by_role("button", name="Download").click()
    opened.value.close()


def test_a_command_from_the_palette_asks_which_job(panel: Panel, start: Start, page: Page) -> None:
    first, second = start("train.py", "--sleep", "0.05"), start("train.py", "--sleep", "0.05")
    for program in (first, second):
        expect(panel.entry(program.pid)).to_be_visible()
    page.keyboard.press("Control+Shift+C")
    page.locator(".lm-CommandPalette-input:visible").fill("Show the Stacks of a Training")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Which training job?")
    choice = dialog.locator("select, input").first
    options = choice.locator("option").all_inner_texts()
    assert {f"({first.pid})", f"({second.pid})"} <= {option.split()[-1] for option in options}
    choice.select_option(label=next(option for option in options if option.endswith(f"({second.pid})")))
    dialog.get_by_role("button", name="OK").click()
    expect(page.locator(f"#traindbg-stacks-{second.pid}")).to_contain_text("train.py")


def _crowded(route: Route) -> None:
    """The server's answer with one job of it a hundred times."""
    answer = route.fetch()
    told = answer.json()
    told["jobs"] = [{**told["jobs"][0], "name": str(n), "pid": n} for n in range(900_000, 900_100)]
    route.fulfill(response=answer, json=told)


def test_a_hundred_jobs_stay_in_order(panel: Panel, training: Program, page: Page) -> None:
    """What a crowded host looks like: the list is played at the wire, since a hundred trainings do not fit here."""
    expect(panel.entry(training.pid)).to_be_visible()
    page.route("**/jupyter-traindbg/jobs*", _crowded)
    heads = panel.node.locator(".jp-traindbg-head")
    expect(heads).to_have_count(100)
    order = [heads.nth(n).inner_text() for n in range(100)]
    page.wait_for_timeout(5000)
    assert [heads.nth(n).inner_text() for n in range(100)] == order
    heads.first.focus()
    for _ in range(99):
        page.keyboard.press("ArrowDown")
    expect(heads.nth(99)).to_be_focused()
    expect(heads.nth(99)).to_be_in_viewport()
    page.unroute_all(behavior="wait")
