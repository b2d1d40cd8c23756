"""The side panel and the live widget for whoever reads Chinese: nothing that we say there is English, to the eye or to a screen reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from browsers import Lab, Notebook, eventually, notebooks_of, running_lab
from panels import Panel, opened
from playwright.sync_api import Locator, Page, expect
from support import REPO, Start

pytestmark = pytest.mark.timeout(600)

Open = Callable[[list[str]], Notebook]

SAID = """
root => {
  const said = [];
  const attributes = ['aria-label', 'aria-description', 'aria-roledescription', 'aria-valuetext', 'title', 'placeholder', 'alt'];
  for (const node of [root, ...root.querySelectorAll('*')]) {
    if (!node.checkVisibility() && node.tagName !== 'OPTION' || node.closest('code, pre, script, style')) continue;
    for (const name of attributes) if (node.hasAttribute(name)) said.push(node.getAttribute(name));
    for (const child of node.childNodes) if (child.nodeType === Node.TEXT_NODE && child.data.trim()) said.push(child.data.trim());
  }
  return said;
}
"""
"""What is read or heard of an element: its texts, but for code, and what is told of it."""
NAMES = """
    SGD CosineAnnealingLR GIL GPU CUDA CPU Inf NaN Python Ray Loss loss rank ranks pid norm lr job group main
    notebook kernel worker traindbg attach all dtype step torch torchrun zip float GiB MiB KiB ms min
"""
"""Words of other languages that a Chinese engineer uses, units, and what the trainings of these tests are called."""
AGENT = "learning rate the schedule scale is not in use in this process"
"""What comes from inside of the training process, where there are no translations."""
CODE = re.compile(r"\S*[/_\d=%]\S*|[\w-]+(\.[\w-]+)+\S*|`[^`]*`")
"""Paths, names of modules, numbers, calls, commands: what is spelled alike everywhere."""


@pytest.fixture(scope="module")
def chinese_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(
        tmp_path_factory.mktemp("chinese") / "server",
        "--TraindbgServer.allow_actions=True",
        env={"TRAINDBG_LANG": "zh"},
    ) as server:
        yield server


@pytest.fixture
def chinese_panel(page: Page, chinese_lab: Lab) -> Panel:
    return opened(page, chinese_lab)


@pytest.fixture
def notebook_in(page: Page, chinese_lab: Lab) -> Iterator[Open]:
    yield from notebooks_of(chinese_lab, page)


def english(node: Locator, *names: str) -> list[str]:
    """What is said of `node` that has words of English in it, besides `names`."""
    known = {*NAMES.split(), *names}

    def odd(said: str) -> bool:
        return bool(set(re.findall(r"[A-Za-z]{2,}", CODE.sub(" ", said))) - known)

    return [said for said in node.evaluate(SAID) if odd(said)]


def test_the_panel(chinese_panel: Panel, start: Start, page: Page) -> None:
    panel = chinese_panel
    healthy, stalled = start("train.py", "--sleep", "0.05"), start("hung_after_steps.py")
    panel.only(healthy.pid, stalled.pid)
    expect(panel.entry(healthy.pid)).to_contain_text("未附加")
    assert english(panel.node, "sleep") == []
    panel.button(healthy.pid, "follow").click()
    panel.button(stalled.pid, "follow").click()
    expect(panel.entry(stalled.pid).locator(".jp-traindbg-state")).to_have_text(re.compile("停滞|卡死"))
    eventually(lambda: panel.figure(healthy.pid, "步"))
    expect(page.locator(".Toastify__toast").first).to_be_visible()
    bar = page.locator(".jp-traindbg-status")
    assert english(panel.node, "sleep") + english(bar) == []
    assert (
        english(page.locator(".Toastify__toast").first, "Hide", "notification", "timer") == []
    )  # what JupyterLab says of it
    labels = page.evaluate(
        "() => { const { commands } = window.jupyterapp;"
        " return commands.listCommands().filter(id => id.startsWith('traindbg:')).map(id => commands.label(id)); }"
    )
    assert len(labels) == 10
    assert [label for label in labels if not re.search("[\u4e00-\u9fff]", label)] == []

    panel.button(stalled.pid, "diagnose").click()
    result = page.locator(".jp-traindbg-result")
    expect(result.locator(".jp-traindbg-card").first).to_contain_text("怎么做")
    assert english(result, "lock", "acquire") == []

    panel.button(healthy.pid, "checkpoint").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("该处可用空间")
    assert english(dialog.locator(".jp-Dialog-content")) == []
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.keyboard.press("Control+Shift+C")
    page.locator(".lm-CommandPalette-input:visible").fill("写报告")
    expect(page.locator(".lm-CommandPalette-item:visible").filter(has_text="为训练任务写报告")).to_have_count(1)


def test_the_live_widget(notebook_in: Open, start: Start, page: Page) -> None:
    trained = start("watched.py")
    attach = f"import traindbg\njob = traindbg.attach({trained.pid}, timeout=60)\nw = job.watch()\nw"
    book = notebook_in([attach])
    book.run(0)
    watch = book.output(0).locator(".tdb-watch")
    watch.locator(".tdb-chart canvas").first.wait_for()
    tabs = watch.get_by_role("tab")
    assert tabs.all_inner_texts() == ["曲线", "梯度", "学习率", "检查点", "诊断"]
    assert english(watch) == []

    tabs.nth(1).click()
    page.wait_for_function("() => Number(document.querySelector('canvas.tdb-heat').dataset.looks) >= 2")
    page.locator("canvas.tdb-heat").focus()
    page.keyboard.press("ArrowRight")
    expect(watch.locator(".tdb-read")).to_contain_text("均为有限值")
    assert english(watch, "embed", "pace") == []

    tabs.nth(2).click()
    watch.get_by_role("button", name="× 0.5").first.click()
    expect(watch.get_by_role("button", name="应用")).to_be_visible()
    assert english(watch) == []
    watch.get_by_role("button", name="应用").click()
    expect(watch.get_by_text("修改记录，最新的在前")).to_be_visible()
    assert english(watch, *AGENT.split()) == []

    tabs.nth(3).click()
    watch.get_by_role("button", name="保存紧急检查点…").click()
    expect(watch.get_by_text("保存这个检查点？")).to_be_visible()
    assert english(watch) == []

    tabs.nth(4).click()
    expect(watch.locator(".tdb-verdict")).to_be_visible()
    for name in ("堆栈", "集合通信"):
        watch.get_by_role("button", name=name, exact=True).click()
        expect(watch.get_by_role("button", name=name, exact=True)).to_be_enabled()
    expect(watch.get_by_role("list", name="堆栈")).to_be_visible()
    assert english(watch, *AGENT.split()) == []


def test_each_widget_of_a_page_speaks_as_its_kernel_did_when_it_was_made(notebook_in: Open) -> None:
    cells = [
        f"import os, sys\nsys.path.insert(0, {str(REPO / 'tests')!r})\n"
        "from synthetic import Synthetic\nfrom jupyter_traindbg.widgets import watch",
        "watch(Synthetic(1, before=100))",
        "os.environ['TRAINDBG_LANG'] = 'en'\nwatch(Synthetic(1, before=100))",
    ]
    book = notebook_in(cells)
    for cell in range(3):
        book.run(cell)
    chinese, other = (book.output(cell).locator(".tdb-watch") for cell in (1, 2))
    expect(other.get_by_role("tab").first).to_have_text("Curves")
    chinese.get_by_role("button", name="暂停").click()
    expect(chinese.get_by_role("button", name="继续")).to_be_visible()
    chinese.get_by_role("tab", name="检查点").click()
    expect(chinese.get_by_role("button", name="保存紧急检查点…")).to_be_visible()
    other.get_by_role("tab", name="Checkpoint").click()
    expect(other.get_by_role("button", name="Save an emergency checkpoint…")).to_be_visible()
