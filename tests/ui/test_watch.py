"""The live widget in a real browser: curves of real trainings, and what a person does with them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsers import Notebook
from nbconvert import HTMLExporter
from playwright.sync_api import Locator, Page, expect
from support import REPO, Start

pytestmark = pytest.mark.timeout(600)

Open = Callable[[list[str]], Notebook]
Shot = Callable[..., None]

TRAINED_HERE = """
import time
import torch
import traindbg

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
job = traindbg.attach("self")
w = job.watch()
display(w)
"""
TRAIN = """
import matplotlib.pyplot as plt
plt.figure(figsize=(2, 2))
plt.plot([0, 1])
ends, step, heard = time.monotonic() + 120, 0, None
while time.monotonic() < ends and heard is None:
    x = torch.randn(32, 16)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    if w.hub.paused:
        heard = step
    time.sleep(0.005)
print("axes:", len(plt.gcf().axes), "lines:", len(plt.gca().lines))
print("heard:", heard is not None)
"""
SYNTHETIC = f"""
import sys
sys.path.insert(0, {str(REPO / "tests")!r})
from synthetic import Synthetic, million
from jupyter_traindbg.widgets import watch
"""


def watch_in(book: Notebook, cell: int) -> Locator:
    """The widget in a cell's output, once it has drawn something."""
    watch = book.output(cell).locator(".tdb-watch")
    watch.locator(".tdb-chart canvas").first.wait_for()
    return watch


def chart(watch: Locator, group: str) -> Locator:
    return watch.locator(f".tdb-chart[data-group={group}]")


def test_in_the_notebook_that_trains(open_notebook: Open) -> None:
    """While a cell trains, the curves of that very training move, its buttons are heard, and its output and figures are its own."""
    book = open_notebook([TRAINED_HERE, TRAIN])
    book.run(0)
    watch = book.output(0).locator(".tdb-watch")
    watch.wait_for()
    book.run(1, wait=False)
    step = watch.locator(".tdb-state-step")
    expect(step).to_have_text(re.compile(r"step \d+"))
    first = step.inner_text()
    expect(step).not_to_have_text(first)
    watch_in(book, 0)
    assert book.running(1)
    watch.get_by_role("button", name="Pause").click()
    book.wait_for(1)
    assert book.text(1).split("\n") == ["axes: 1 lines: 1", "heard: True"]
    expect(watch.get_by_role("button", name="Resume")).to_be_visible()
    assert book.output(1).locator("img").count() == 1


def test_without_subshells_the_curves_move_and_the_page_says_that_buttons_wait(
    open_notebook: Open, tmp_path: Path
) -> None:
    """As with ipykernel 6: the kernel hears the page only between cells."""
    enough = tmp_path / "enough"
    trains = TRAIN.replace("heard is None", f"not os.path.exists({str(enough)!r})").replace("+ 120", "+ 300")
    book = open_notebook(["import os" + TRAINED_HERE + trains])
    book.page.evaluate(
        "() => { window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.commsOverSubshells = 'disabled'; }"
    )
    book.run(0, wait=False)
    watch = book.output(0).locator(".tdb-watch")
    expect(watch.locator(".tdb-note").first).to_contain_text("No kernel hears this page now")
    watch_in(book, 0)
    at_least(book, "loss", 20)
    assert book.running(0)
    watch.get_by_role("button", name="Pause").click()
    enough.touch()
    book.wait_for(0)
    expect(watch.get_by_role("button", name="Resume")).to_be_visible()


def test_a_reload_brings_the_same_view_back(open_notebook: Open) -> None:
    book = open_notebook([SYNTHETIC, "w = watch(Synthetic(1, before=600))\nw"])
    book.run(0)
    book.run(1)
    watch = watch_in(book, 1)
    drag(book.page, chart(watch, "loss"), 0.2, 0.5)
    expect(watch.locator(".tdb-grid")).not_to_have_attribute("data-range", "all")
    seen = watch.locator(".tdb-grid").get_attribute("data-range")
    watch.get_by_role("tab", name="Diagnosis").click()
    book.save()
    book.reload()
    again = book.output(1).locator(".tdb-watch")
    expect(again.get_by_role("tab", name="Diagnosis")).to_have_attribute("aria-selected", "true")
    again.get_by_role("tab", name="Curves").click()
    watch_in(book, 1)
    expect(again.locator(".tdb-grid")).to_have_attribute("data-range", seen or "")
    step = again.locator(".tdb-state-step")
    expect(step).not_to_have_text(step.inner_text())
    again.get_by_role("button", name="Pause").click()
    expect(again.get_by_role("button", name="Resume")).to_be_visible()


def test_curves_of_a_process(open_notebook: Open, start: Start, screenshot: Shot) -> None:
    """An unprepared process, long after its begin: steps are its optimizer's own; changes of its settings are seen, each by its sign; the
    end of the process is told.
    """
    training = start(str(REPO / "notebooks" / "demo_train.py"), "--minutes", "15", ready="step 120 ", timeout_s=180)
    cells = [
        f"%load_ext traindbg\n%attach {training.pid}",
        "%watch",
        "import time\nfor words in ('lr --scale 0.5', 'weight_decay 0.05 --group 0', 'clip 2.0', 'clip --undo'):\n"
        "    _ = get_ipython().run_line_magic(*words.split(' ', 1))\n    time.sleep(1.5)  # marks apart from each other",
        "print(get_ipython().run_line_magic('watch', '--once'))",
    ]
    book = open_notebook(cells)
    book.run(0)
    book.run(1)
    watch = watch_in(book, 1)
    expect(watch.get_by_role("status").first).to_contain_text("training")
    for group in ("loss", "lr", "grad_norm", "time", "memory"):
        expect(chart(watch, group).locator("canvas")).to_be_visible()
    at_least(book, "loss", 60)
    book.run(2)
    events = watch.locator(".tdb-event")
    expect(events).to_have_count(4)
    said = [words.partition(" step ") for words in reversed(events.all_inner_texts())]
    assert [sign for sign, _, _ in said] == ["η", "λ", "⊓", "⊓"]
    assert [words.partition(": ")[2] for _, _, words in said] == [
        "learning rate: the schedule x 0.5",
        "weight decay pinned at 0.05 (group 0)",
        "gradients clipped at norm 2",
        "the last change of the gradient clipping undone",
    ]
    assert watch.get_by_label("x axis").locator("option").first.inner_text() == "step"
    at_least(book, "loss", 150)
    hover(chart(watch, "loss"), 0.0)
    assert told_step(chart(watch, "loss")) > 120
    book.run(3)
    assert all(f"step {words}" in book.text(3) for _, _, words in said), book.text(3)
    assert "since the attach" not in book.text(3).partition("Events")[2]
    book.page.mouse.move(0, 0)
    screenshot("watch-curves", watch)
    training.stop()
    expect(watch.locator(".tdb-state")).to_have_attribute("data-code", re.compile("lost|finished"))


def at_least(book: Notebook, group: str, points: int) -> None:
    """Wait until the first chart of `group` has so many points."""
    book.page.wait_for_function(
        "([group, points]) => document.querySelector(`.tdb-chart[data-group=${group}]`).dataset.points > points",
        arg=[group, points],
    )


def test_one_widget_in_two_places(open_notebook: Open) -> None:
    book = open_notebook([SYNTHETIC, "w = watch(Synthetic(1, before=300))\nw", "w"])
    for cell in range(3):
        book.run(cell)
    first, second = watch_in(book, 1), watch_in(book, 2)
    drag(book.page, chart(second, "loss"), 0.2, 0.4)
    expect(second.locator(".tdb-grid")).not_to_have_attribute("data-range", "all")
    expect(first.locator(".tdb-grid")).to_have_attribute("data-range", "all")
    first.get_by_role("button", name="Pause").click()
    expect(second.get_by_role("button", name="Resume")).to_be_visible()


def test_zoom_pan_log_scale_and_values(open_notebook: Open, page: Page) -> None:
    book = open_notebook([SYNTHETIC, "w = watch(Synthetic(1, hz=20, before=3000, bad_step=2000, drop_step=1500))\nw"])
    book.run(0)
    book.run(1)
    watch = watch_in(book, 1)
    loss, grid = chart(watch, "loss"), watch.locator(".tdb-grid")
    expect(grid).to_have_attribute("data-range", "all")
    coarse = int(loss.get_attribute("data-per-point") or 0)
    assert coarse > 1
    drag(page, loss, 0.3, 0.35)
    expect(grid).to_have_attribute("data-range", re.compile(r"\d+(\.\d+)?\.\.\d+"))
    expect(loss).to_have_attribute("data-per-point", "1")  # a finer curve was asked for, and came
    first, last = ends(grid)
    assert 700 < first < last < 1400
    assert ends_after(watch, "Later")[0] > first
    low, high = ends_after(watch, "Zoom out")
    assert high - low > last - first
    watch.get_by_role("button", name="Show all steps").click()
    expect(grid).to_have_attribute("data-range", "all")

    hover(loss, 0.5)
    expect(loss.locator("figcaption")).to_contain_text(re.compile(r"step \d+"))
    values = loss.locator(".tdb-value")
    assert float(values.first.inner_text()) == pytest.approx(2 / (1 + 1500 / 300), abs=0.15)

    linear = picture(loss)
    watch.get_by_label("log scale").check()
    page.wait_for_function(
        "old => document.querySelector('.tdb-chart[data-group=loss] canvas').toDataURL() !== old", arg=linear
    )
    watch.get_by_label("x axis").select_option("time")
    expect(loss.get_by_role("img")).to_have_attribute("aria-label", re.compile(r"Loss at \d+:\d\d"))
    hover(loss, 0.5)
    expect(loss.locator("figcaption")).to_contain_text(re.compile(r"\d+:\d\d"))
    watch.get_by_label("x axis").select_option("step")

    plot = loss.get_by_role("img")
    expect(grid).to_have_attribute("data-range", "all")
    expect(plot).to_have_attribute("aria-label", re.compile("Loss at step .*not finite at 1 points"))
    plot.focus()
    page.keyboard.press("ArrowLeft")
    expect(watch.locator(".tdb-panel > .tdb-aloud")).to_have_text(re.compile(r"step [\d,]+: loss [\d.e-]+"))
    page.keyboard.press("+")
    expect(grid).not_to_have_attribute("data-range", "all")
    page.keyboard.press("0")
    expect(grid).to_have_attribute("data-range", "all")

    event = watch.get_by_role("button", name=re.compile("step 1,500: learning rate"))
    event.click()
    expect(grid).not_to_have_attribute("data-range", "all")
    low, high = ends(grid)
    assert low < 1500 < high


def test_what_comes_while_the_mouse_drags_does_not_end_it(open_notebook: Open, page: Page) -> None:
    book = open_notebook([SYNTHETIC, "w = watch(Synthetic(1, hz=20, before=300))\nw"])
    book.run(0)
    book.run(1)
    watch = watch_in(book, 1)
    loss, grid, points = chart(watch, "loss"), watch.locator(".tdb-grid"), "data-points"
    hover(loss, 0.4)
    page.mouse.down()
    begun = told_step(loss)
    hover(loss, 0.5)
    seen, others = loss.get_attribute(points), chart(watch, "time")
    expect(others).not_to_have_attribute(points, others.get_attribute(points) or "")
    watch.get_by_label("log scale").evaluate("box => box.click()")  # of which the chart would be made anew
    page.wait_for_timeout(600)
    assert loss.get_attribute(points) == seen
    hover(loss, 0.6)
    ended = told_step(loss)
    page.mouse.up()
    expect(grid).to_have_attribute("data-range", re.compile(r"\d+(\.\d+)?\.\.\d+"))
    assert ends(grid) == pytest.approx((begun, ended), abs=0.02 * begun)
    watch.get_by_role("button", name="Show all steps").click()
    expect(loss).not_to_have_attribute(points, seen or "")


def test_ranks_and_hostile_names(open_notebook: Open, page: Page, screenshot: Shot) -> None:
    book = open_notebook([SYNTHETIC, "w = watch(Synthetic(4, before=900, bad_step=500, drop_step=600))\nw"])
    book.run(0)
    book.run(1)
    watch = watch_in(book, 1)
    names = chart(watch, "loss").locator(".tdb-legend li")
    expect(names).to_have_count(4)
    expect(names.first).to_contain_text("<img src=x onerror=")
    assert watch.locator("img[src], script").count() == 0
    assert page.evaluate("() => window.pwned") is None
    screenshot("watch-ranks", watch)
    field = watch.get_by_role("textbox", name="ranks")
    field.fill("1, 3")
    field.press("Enter")
    expect(names).to_have_count(2)
    expect(names.first).to_contain_text("rank 1")
    field.fill("9")
    field.press("Enter")
    expect(watch.locator(".tdb-curves-bar")).to_contain_text("there is no rank 9")
    expect(field).to_have_attribute("aria-invalid", "true")
    field.fill("all")
    field.press("Enter")
    expect(names).to_have_count(4)
    watch.locator(".tdb-memory").select_option("rss_bytes")
    expect(chart(watch, "memory").locator(".tdb-value").first).to_contain_text("GiB")


def test_pause_stands_still_and_nothing_is_lost(open_notebook: Open) -> None:
    book = open_notebook([SYNTHETIC, "source = Synthetic(1, hz=50)\nw = watch(source)\nw", "w.feed.last_step"])
    book.run(0)
    book.run(1)
    watch = watch_in(book, 1)
    watch.get_by_role("button", name="Pause").click()
    expect(watch.get_by_role("button", name="Resume")).to_be_visible()
    step = watch.locator(".tdb-state-step").inner_text()
    book.page.wait_for_timeout(1500)
    assert watch.locator(".tdb-state-step").inner_text() == step
    watch.get_by_role("button", name="Resume").click()
    expect(watch.locator(".tdb-state-step")).not_to_have_text(step)
    paused_at = int(step.split()[1])
    at_least(book, "loss", paused_at + 50)


def test_the_last_state_stays_as_a_picture(open_notebook: Open, tmp_path: Path) -> None:
    """What is saved when the watch has been stopped is a picture of its last state, which nbconvert shows without a kernel."""
    book = open_notebook([SYNTHETIC, "w = watch(Synthetic(1, before=100))\nw", "w.stop()"])
    book.run(0)
    book.run(1)
    watch_in(book, 1)
    first = pictures(book.save())
    assert len(first) == 1
    book.run(2)
    expect(book.output(1).locator(".tdb-note").first).to_contain_text("stopped")
    last = pictures(book.save())
    assert len(last) == 1
    assert last != first
    exporter = HTMLExporter()  # type: ignore[no-untyped-call]
    html, _ = exporter.from_filename(str(book.lab.root / book.name))
    page = tmp_path / "exported.html"
    page.write_text(html)
    assert f"data:image/png;base64,{last[0]}" in html.replace("\n", "")
    book.page.goto("about:blank")


def pictures(notebook: Any) -> list[str]:
    """The PNGs that are saved with a notebook."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [o.data["image/png"].replace("\n", "") for o in outputs if "image/png" in o.get("data", {})]


FRAMES = """async seconds => {
  const gaps = [];
  let last = performance.now();
  const ends = last + seconds * 1000;
  while (last < ends) {
    const now = await new Promise(requestAnimationFrame);
    gaps.push(now - last);
    last = now;
  }
  gaps.sort((a, b) => a - b);
  return { frames: gaps.length, median_ms: gaps[gaps.length >> 1], p95_ms: gaps[Math.floor(gaps.length * 0.95)], worst_ms: gaps.at(-1) };
}"""


def test_three_hundred_ranks_and_a_million_steps(
    open_notebook: Open, page: Page, screenshot: Shot, record_property: Callable[[str, object], None]
) -> None:
    book = open_notebook([SYNTHETIC, "feed = million(300)\nfeed.start()\nw = watch(feed.job, feed=feed)\nw"])
    book.run(0)
    book.run(1)
    watch = watch_in(book, 1)
    loss, grid = chart(watch, "loss"), watch.locator(".tdb-grid")
    expect(loss.locator(".tdb-legend li")).to_have_count(3)
    expect(loss.locator(".tdb-legend")).to_contain_text("median")
    assert int(loss.get_attribute("data-points") or 0) < 3000
    frames = page.evaluate(FRAMES, 5)
    record_property("frames while 300 ranks are drawn", frames)
    print("frames:", frames)
    screenshot("watch-many-ranks", watch)
    coarse = int(loss.get_attribute("data-per-point") or 0)
    drag(page, loss, 0.5, 0.55)
    expect(grid).not_to_have_attribute("data-range", "all")
    page.wait_for_function(
        "most => document.querySelector('.tdb-chart[data-group=loss]').dataset.perPoint < most", arg=coarse
    )


def told_step(of: Locator) -> int:
    """The step under the mouse, as the chart's title tells it."""
    return int(of.locator("figcaption").inner_text().rpartition(" ")[2].replace(",", ""))


def ends(grid: Locator) -> tuple[float, float]:
    first, last = (grid.get_attribute("data-range") or "").split("..")
    return float(first), float(last)


def ends_after(watch: Locator, button: str) -> tuple[float, float]:
    """Press a button and wait for the frame with which the curves move."""
    grid = watch.locator(".tdb-grid")
    before = grid.get_attribute("data-range") or ""
    watch.get_by_role("button", name=button).click()
    expect(grid).not_to_have_attribute("data-range", before)
    return ends(grid)


def drag(page: Page, of: Locator, first: float, last: float) -> None:
    """Drag the mouse across a chart, from one share of its width to another."""
    hover(of, first)
    page.mouse.down()
    hover(of, (first + last) / 2)
    hover(of, last)
    page.mouse.up()


def hover(of: Locator, share: float) -> None:
    """Put the mouse on a chart, once that stands still and nothing lies on it: it moves for a while after a change of theme or size."""
    over = of.locator(".u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    assert box is not None
    over.hover(position={"x": share * box["width"], "y": box["height"] / 2})


def picture(of: Locator) -> str:
    return str(of.locator("canvas").evaluate("canvas => canvas.toDataURL()"))
