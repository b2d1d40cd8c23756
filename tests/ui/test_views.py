"""Gradients, learning rate, checkpoint and diagnosis in a real browser, each on a real training that shows what was done to it."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browsers import Notebook, eventually
from playwright.sync_api import Locator, Page, expect
from support import REPO, Program, Start

from jupyter_traindbg.outside import procfs

pytestmark = pytest.mark.timeout(600)

Open = Callable[[list[str]], Notebook]
Shot = Callable[..., None]
TORCHRUN = [
    sys.executable,
    "-u",
    "-m",
    "torch.distributed.run",
    "--nproc-per-node=2",
    "--master-addr=127.0.0.1",
    "--master-port",
]
HOSTILE = "<img src=x onerror=alert(1)>"


def watched(open_notebook: Open, target: str | int, view: str) -> tuple[Notebook, Locator]:
    """A notebook that watches `target`, and the widget in it, open at `view`."""
    attach = f"import traindbg\njob = traindbg.attach({str(target)!r}, timeout=60)\nw = job.watch(view={view!r})\nw"
    book = open_notebook([attach])
    book.run(0)
    watch = book.output(0).locator(".tdb-watch")
    watch.wait_for()
    return book, watch


def rates_used(trained: Program) -> list[float]:
    """The learning rate of group 1 as each step of watched.py really used it: how far its parameter moved."""
    return [float.fromhex(moved) for moved in re.findall(r"^\d+ moved (\S+)$", trained.output(), re.MULTILINE)]


def column(table: Locator, n: int) -> list[str]:
    return table.locator(f"tbody td:nth-child({n})").all_inner_texts()


# --- gradients -------------------------------------------------------------------------------------------------------


def test_gradients_over_time_with_hostile_names_and_a_table_that_keeps_its_order(
    open_notebook: Open, start: Start, page: Page, screenshot: Shot
) -> None:
    trained = start("watched.py", "--hostile")
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    book, watch = watched(open_notebook, trained.pid, "gradients")
    table = watch.get_by_role("table", name="Parameters")
    expect(table.get_by_role("cell", name=HOSTILE, exact=True)).to_be_visible()
    assert watch.locator("img[src='x'], img[onerror], script").count() == 0
    assert any(r"\n\x1b[31m" in name for name in column(table, 1)), "what steers a line is spelled out"

    table.get_by_role("button", name="norm").click()
    table.get_by_role("button", name="norm").click()
    expect(table.locator("th[aria-sort=descending]")).to_have_text(re.compile("norm"))
    watch.get_by_role("searchbox", name="Filter Parameters").fill("attention weight")
    expect(watch.locator(".tdb-data [role=status]")).to_have_text("12 of 55 parameters")

    def in_order() -> bool:
        names, norms = column(table, 1), [float(norm) for norm in column(table, 4)]
        return all("attention" in name for name in names) and norms == sorted(norms, reverse=True)

    before = column(table, 4)
    eventually(lambda: column(table, 4) != before)  # it was read anew, and came in the same order
    assert in_order()
    book.save()
    book.reload()
    expect(watch.get_by_role("searchbox", name="Filter Parameters")).to_have_value("attention weight")
    eventually(lambda: len(column(table, 1)) == 12 and in_order())

    watch.get_by_role("searchbox", name="Filter Parameters").fill("")
    canvas = watch.locator("canvas.tdb-heat")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(watch.locator(".tdb-read")).to_have_text(re.compile(r"step [\d,]+ · norm \S+ .*all finite"))
    watch.get_by_role("radio", name="share of zeros").check()
    expect(watch.locator(".tdb-legend")).to_contain_text("100 %")
    watch.get_by_role("radio", name="norm").check()
    enough = "() => Number(document.querySelector('canvas.tdb-heat').dataset.looks) >= 16"
    page.wait_for_function(enough, timeout=240_000)
    expect(watch.locator(".tdb-panel:visible")).to_contain_text(
        re.compile(r"each look takes .* of the training's time")
    )
    screenshot("view-gradients", watch)


def test_the_first_nan_is_named_while_it_is_armed(
    open_notebook: Open, start: Start, page: Page, tmp_path: Path, screenshot: Shot
) -> None:
    now = tmp_path / "nan-now"
    trained = start("watched.py", "--nan", str(now))
    _, watch = watched(open_notebook, trained.pid, "gradients")
    watch.get_by_role("button", name="Arm first-NaN").click()
    line = watch.locator(".tdb-watchline")
    expect(line).to_have_text(re.compile(r"armed: [1-9]\d* steps? watched, all finite"))
    expect(watch.get_by_role("button", name="Disarm")).to_be_visible()
    page.wait_for_function("() => Number(document.querySelector('canvas.tdb-heat').dataset.looks) >= 6")
    now.touch()
    expect(line).to_have_text(
        re.compile(r"First NaN: blocks\.2\.gate \(Gate\) in step [\d,]+ (\([\d,]+ )?since the attach\)?, on rank 0")
    )
    card = watch.locator(".tdb-card-critical").filter(has_text="blocks.2.gate").first
    expect(card).to_contain_text("CRITICAL")
    expect(card).to_contain_text("The module itself produced it from finite inputs and weights")
    expect(watch.get_by_role("button", name="Arm first-NaN").first).to_be_visible()
    step = int(re.findall(r"in step ([\d,]+)", line.inner_text())[0].replace(",", ""))
    assert 0 < step <= len(rates_used(trained)) + 1
    expect(watch.locator(".tdb-card").filter(has_text="nonfinite_gradient")).to_be_visible()
    screenshot("view-first-nan", watch)


# --- learning rate -----------------------------------------------------------------------------------------------------


def test_the_slider_changes_what_the_training_uses(
    open_notebook: Open, start: Start, page: Page, screenshot: Shot
) -> None:
    trained = start("watched.py")
    _, watch = watched(open_notebook, trained.pid, "learning_rate")
    group = watch.get_by_role("region", name="SGD, group 1", exact=True)
    slider = group.get_by_role("slider")
    slider.focus()
    for _ in range(15):  # 50 steps are a decade
        page.keyboard.press("ArrowLeft")
    box = watch.locator(".tdb-confirm")
    expect(box).to_contain_text("Pin the learning rate of SGD, group 1 at")
    expect(box).to_contain_text("next optimizer step")
    assert slider.evaluate("node => node === document.activeElement"), "the slider can be moved on"
    wanted = float(group.get_by_role("textbox").input_value())
    assert wanted == pytest.approx(0.01 * 10**-0.3, rel=0.02)
    assert rates_used(trained)[-1] == pytest.approx(0.01, rel=1e-3), "nothing is done before it is confirmed"
    screenshot("view-learning-rate", watch)

    box.get_by_role("button", name="Apply").focus()
    page.keyboard.press("Enter")
    done = watch.locator(".tdb-done")
    expect(done).to_contain_text(re.compile(r"rank 0: verified from step [\d,]+ (\([\d,]+ )?since the attach\)? on"))
    eventually(lambda: rates_used(trained)[-1] == pytest.approx(wanted, rel=1e-6))
    expect(group).to_contain_text("in force: hold")
    expect(watch.get_by_role("region", name="SGD, group 0", exact=True)).not_to_contain_text("in force")
    screenshot("view-learning-rate-applied", watch)

    group.get_by_role("button", name="Multiply the schedule of SGD, group 1 by 0.5").click()
    expect(box).to_contain_text("every value of it is multiplied")
    box.get_by_role("button", name="Apply").click()
    eventually(lambda: rates_used(trained)[-1] == pytest.approx(0.005, rel=1e-3))
    expect(group).to_contain_text("in force: scale")
    watch.get_by_role("button", name="Undo the last change…").click()
    box.get_by_role("button", name="Apply").click()
    eventually(lambda: rates_used(trained)[-1] == pytest.approx(wanted, rel=1e-6))
    group.get_by_role("button", name="Release").click()
    box.get_by_role("button", name="Apply").click()
    eventually(lambda: rates_used(trained)[-1] == pytest.approx(0.01, rel=1e-3))
    expect(watch.locator("tbody tr").filter(has_text="pinned at")).to_be_visible()


def test_a_slip_is_asked_about_and_nonsense_is_told_in_a_line(open_notebook: Open, start: Start, page: Page) -> None:
    trained = start("watched.py")
    _, watch = watched(open_notebook, trained.pid, "learning_rate")
    group = watch.get_by_role("region", name="SGD, group 1", exact=True)
    field, box = group.get_by_role("textbox"), watch.locator(".tdb-confirm")
    for nonsense, words in {
        "fast": '"fast" is not a number; give a number such as 1e-4',
        "": "the learning rate is empty",
        "-1e-3": "must not be negative",
        "1e999": "is not a number",
    }.items():
        field.fill(nonsense)
        field.press("Enter")
        expect(group.get_by_role("alert")).to_contain_text(words)
        assert "\n" not in group.get_by_role("alert").inner_text()
        expect(box).to_be_hidden()
    field.fill("1e-7")
    field.press("Enter")
    expect(box).to_contain_text("times smaller than the learning rate of SGD, group 1 now")
    expect(box.get_by_role("button", name="Apply")).to_be_disabled()
    box.get_by_role("button", name="Cancel").click()
    expect(box).to_be_hidden()
    field.fill("1e-7")
    field.press("Enter")
    box.get_by_role("checkbox", name="I mean it").check()
    expect(box.get_by_role("button", name="Apply")).to_be_enabled()
    box.get_by_role("button", name="Apply").click()
    eventually(lambda: rates_used(trained)[-1] == pytest.approx(1e-7, rel=1e-3))


def test_all_ranks_change_at_one_step_or_none_does(open_notebook: Open, start: Start, screenshot: Shot) -> None:
    trained = start("tuned.py", "--sleep", "0.02", timeout_s=120)
    _, watch = watched(open_notebook, f"torchrun:{trained.pid}", "learning_rate")
    watch.get_by_role("button", name="× 0.5").first.click()
    box = watch.locator(".tdb-confirm")
    expect(box).to_contain_text("from one and the same optimizer step on, on all 2 ranks, or on none of them")
    box.get_by_role("button", name="Apply").click()
    done = watch.locator(".tdb-done")
    since = r"\([\d,]+( to [\d,]+)? since the attach\)"
    expect(done).to_contain_text(re.compile(r"ranks 0, 1: (verified|in force) from step [\d,]+ " + since + " on"))
    ranks = sorted(child.pid for child in procfs.descendants(trained.pid))
    watch.get_by_role("button", name="Release all…").click()
    box.get_by_role("button", name="Apply").wait_for()
    stopped = next(pid for pid in ranks if b"spawn_main" not in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(stopped, signal.SIGSTOP)
    try:
        box.get_by_role("button", name="Apply").click()
        refused = watch.locator(".tdb-refused, .tdb-trouble:visible")
        expect(refused.first).to_contain_text(
            re.compile(r"rank \d.*(nothing was changed|no answer|did not)", re.IGNORECASE)
        )
        screenshot("view-learning-rate-refused", watch)
    finally:
        os.kill(stopped, signal.SIGCONT)


TRAINS_HERE = """
import time, torch, traindbg
torch.manual_seed(0)
pace = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))
optimizer = torch.optim.SGD([pace], lr=1e-2)
job = traindbg.attach("self")
w = job.watch(view="learning_rate")
w
"""
TRAINING = """
ends, used = time.monotonic() + 300, 0.01
while used > 0.006 and time.monotonic() < ends:
    before = pace.item()
    optimizer.zero_grad()
    pace.sum().backward()
    optimizer.step()
    used = before - pace.item()
    time.sleep(0.005)
print(f"used {used:.6f}, scheduled {optimizer.param_groups[0]['lr']}")
"""


def test_in_the_notebook_that_trains_a_change_is_made_while_the_cell_runs(open_notebook: Open) -> None:
    book = open_notebook([TRAINS_HERE, TRAINING])
    book.run(0)
    watch = book.output(0).locator(".tdb-watch")
    book.run(1, wait=False)
    group = watch.get_by_role("region", name="SGD, group 0", exact=True)
    group.get_by_role("button", name="Multiply the schedule of SGD, group 0 by 0.5").click()
    watch.locator(".tdb-confirm").get_by_role("button", name="Apply").click()
    expect(watch.locator(".tdb-done")).to_contain_text("rank 0: verified from")
    book.wait_for(1)
    assert book.text(1).strip() == "used 0.005000, scheduled 0.01"


# --- checkpoint --------------------------------------------------------------------------------------------------------


@pytest.fixture
def runs() -> Iterator[Path]:
    """A directory of a short name: it is in the pictures."""
    with tempfile.TemporaryDirectory(prefix="runs-") as directory:
        yield Path(directory)


def test_the_checkpoint_button_writes_one_that_verifies(
    open_notebook: Open, start: Start, page: Page, runs: Path, screenshot: Shot
) -> None:
    trained = start("train.py", "--sleep", "0.02", "--width", "256")
    _, watch = watched(open_notebook, trained.pid, "checkpoint")
    path = watch.get_by_role("textbox", name="directory to make")
    expect(path).to_have_value(re.compile(r"/checkpoint-\S+-\d{8}-\d{6}$"))
    target = runs / "before the crash"
    path.fill(str(target))
    path.press("Enter")
    box = watch.locator(".tdb-confirm")
    for words in (str(target), "size", "free there", "pause of the training", "Nothing else changes"):
        expect(box).to_contain_text(words)
    assert not target.exists(), "nothing is written before it is confirmed"
    screenshot("view-checkpoint", watch)
    page.keyboard.press("Tab")  # from the question to its first control
    box.get_by_role("button", name="Save it now").focus()
    page.keyboard.press("Enter")
    expect(watch.locator(".tdb-verified")).to_contain_text(re.compile(r"✔ verified: \d+ files as written"))
    expect(watch.locator(".tdb-done")).to_contain_text("bit-identical")
    resume = watch.locator(".tdb-code").filter(has_text="traindbg.resume(")
    expect(resume).to_contain_text(repr(str(target)))
    resume.get_by_role("button", name=re.compile("Copy")).click()
    expect(resume.get_by_role("status")).to_have_text(re.compile("copied|selected"))
    verify = watch.locator(".tdb-code code").filter(has_text="--verify").inner_text()
    assert shlex.split(verify) == ["%checkpoint", "--verify", str(target)], "as a notebook spells it"
    ended = subprocess.run(
        [sys.executable, "-m", "jupyter_traindbg.cli", *shlex.split(verify.removeprefix("%"))],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    screenshot("view-checkpoint-saved", watch)

    path.fill(str(runs))  # something else is there
    path.press("Enter")
    expect(box).to_contain_text("is no checkpoint of ours and will not be replaced")
    expect(box.get_by_role("button", name="Save it now")).to_be_disabled()
    path.fill(str(runs / "nowhere" / "at" / "all"))
    path.press("Enter")
    expect(box).to_contain_text("is not there")
    path.fill("")
    path.press("Enter")
    expect(watch.get_by_role("alert")).to_contain_text("there is no path to save to")


# --- diagnosis ---------------------------------------------------------------------------------------------------------


def test_a_hung_job_is_told_with_its_stacks_and_groups(
    open_notebook: Open, start: Start, free_port: str, page: Page, screenshot: Shot
) -> None:
    hung = start("hung_gloo.py", command=[*TORCHRUN, free_port], timeout_s=120)
    _, watch = watched(open_notebook, f"torchrun:{hung.pid}", "diagnosis")
    expect(watch.locator(".tdb-verdict")).to_contain_text("The job is stuck")
    card = watch.locator(".tdb-card").first
    expect(card).to_contain_text("CRITICAL")
    expect(card).to_contain_text("rank 1")
    expect(card).to_contain_text("forgets_the_collective")

    table = watch.get_by_role("table", name="Ranks", exact=True)
    expect(table.locator("tbody tr")).to_have_count(2)
    watch.get_by_role("searchbox", name="Filter Ranks").fill("all_reduce")
    expect(table.locator("tbody tr")).to_have_count(1)
    table.get_by_role("button", name="rank").click()
    at = watch.locator(".tdb-verdict .tdb-muted").inner_text()
    watch.get_by_role("button", name="Diagnose").click()
    expect(watch.locator(".tdb-verdict .tdb-muted")).not_to_have_text(at)
    expect(table.locator("tbody tr")).to_have_count(1)
    expect(table.locator("th[aria-sort=ascending]")).to_have_text(re.compile("rank"))
    watch.get_by_role("searchbox", name="Filter Ranks").fill("")

    watch.get_by_role("button", name="Stacks", exact=True).focus()
    page.keyboard.press("Enter")
    tree = watch.get_by_role("list", name="Stacks")
    expect(tree).to_contain_text("Training threads (2, at 2 places)")
    expect(tree).to_contain_text(re.compile(r"hung_gloo\.py:\d+ forgets_the_collective"))
    watch.get_by_role("button", name="Collectives", exact=True).click()
    matrix = watch.get_by_role("table", name="Ranks by process groups")
    expect(matrix.get_by_role("columnheader", name="default group")).to_be_visible()
    behind = matrix.locator("tbody tr").filter(has=page.get_by_role("rowheader", name="rank 1"))
    expect(behind.locator("td.tdb-behind")).to_have_text(re.compile(r"▼1"))
    screenshot("view-diagnosis", watch)
    watch.get_by_role("button", name="Save a checkpoint…").first.click()
    expect(watch.get_by_role("tab", name="Checkpoint")).to_have_attribute("aria-selected", "true")


def test_a_job_that_has_ended_is_told_in_a_line(open_notebook: Open, start: Start) -> None:
    trained = start("watched.py")
    _, watch = watched(open_notebook, trained.pid, "learning_rate")
    watch.get_by_role("region", name="SGD, group 1", exact=True).wait_for()
    trained.stop()
    watch.get_by_role("button", name="× 0.5").first.click()
    trouble = watch.locator(".tdb-trouble:visible")
    expect(trouble).to_contain_text(re.compile("ended|gone|closed|no process"))
    assert "\n" not in trouble.inner_text()
    assert "Traceback" not in trouble.inner_text()
    watch.get_by_role("tab", name="Checkpoint").click()
    watch.get_by_role("button", name="Save an emergency checkpoint…").click()
    expect(watch.locator(".tdb-trouble:visible")).to_contain_text(re.compile("ended|gone|closed|no process"))


# --- many ranks --------------------------------------------------------------------------------------------------------


def test_300_ranks_can_be_read(open_notebook: Open, screenshot: Shot) -> None:
    """Results as 300 ranks give them: no job of that size runs here."""
    cell = f"""
import sys
sys.path.insert(0, {str(REPO / "tests")!r})
from synthetic_views import Answering
from jupyter_traindbg.widgets import watch
w = watch(Answering(300), view="diagnosis")
w
"""
    book = open_notebook([cell])
    book.run(0)
    watch = book.output(0).locator(".tdb-watch")
    expect(watch.locator(".tdb-verdict")).to_contain_text("The job is stuck")
    table = watch.get_by_role("table", name="Ranks", exact=True)
    expect(table.locator("tbody tr")).to_have_count(300)
    for n, words in enumerate(("waits for the next batch", "stopped", "ended", "all_reduce")):
        expect(table.locator("tbody tr").nth(n)).to_contain_text(words)  # who is to blame, then the odd ones
    watch.get_by_role("searchbox", name="Filter Ranks").fill("next batch")
    expect(table.locator("tbody tr")).to_have_count(1)
    watch.get_by_role("searchbox", name="Filter Ranks").fill("")
    watch.get_by_role("button", name="Stacks", exact=True).click()
    tree = watch.get_by_role("list", name="Stacks")
    expect(tree).to_contain_text("Training threads (300, at 2 places)")
    expect(tree).to_contain_text("ranks 0-16, 18-299 (299)")
    watch.get_by_role("button", name="Collectives", exact=True).click()
    matrix = watch.get_by_role("table", name="Ranks by process groups")
    expect(matrix.locator("tbody tr").first).to_contain_text("✖ rank 17")
    assert matrix.locator("tbody tr").count() < 10
    screenshot("view-diagnosis-300-ranks", watch)
    watch.get_by_role("tab", name="Gradients").click()
    expect(watch.get_by_role("table", name="Parameters").locator("tbody tr")).to_have_count(400)
    expect(watch.get_by_role("table", name="Parameters").get_by_role("cell", name="rank 7").first).to_be_attached()
    watch.get_by_role("tab", name="Learning rate").click()
    expect(watch.locator(".tdb-group").first).to_contain_text("in force")
