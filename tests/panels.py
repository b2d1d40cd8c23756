"""The side panel in a real JupyterLab whose server lets it change jobs: fixtures for the tests of tests/ui that look at it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browsers import IMAGES, VIEWPORT, Lab, running_lab, set_theme, smaller
from playwright.sync_api import Locator, Page
from support import Program, Start

Picture = Callable[[str], None]


class Panel:
    """The side panel in a browser's page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.node = page.locator("#traindbg-jobs")

    def entry(self, target: str | int) -> Locator:
        return self.node.locator(f'.jp-traindbg-job[data-target="{target}"]')

    def button(self, target: str | int, command: str) -> Locator:
        return self.entry(target).locator(f'[data-command="traindbg:{command}"]')

    def figure(self, target: str | int, name: str) -> str:
        """What stands beside `name` among the figures of a job; "" where it is not there."""
        found = self.entry(target).locator(f'dt:text-is("{name}") + dd')
        return found.inner_text() if found.count() else ""

    def steps(self, target: str | int) -> int:
        shown = self.figure(target, "step")
        return int(shown) if shown.isdigit() else 0

    def only(self, *targets: str | int) -> None:
        """Hide what else runs on this machine, for a picture."""
        names = ", ".join(f'[data-target="{target}"]' for target in targets)
        self.page.add_style_tag(content=f".jp-traindbg-job:not({names}), .jp-traindbg-host {{ display: none }}")


def opened(page: Page, lab: Lab) -> Panel:
    page.goto(f"{lab.url}lab/workspaces/{os.urandom(4).hex()}?token={lab.token}")
    page.wait_for_function("() => window.jupyterapp?.commands?.hasCommand('traindbg:show')")
    page.wait_for_function("() => window.jupyterapp.restored.then(() => true)")
    page.evaluate("() => window.jupyterapp.commands.execute('traindbg:show')")
    page.wait_for_selector("#traindbg-jobs:not(.lm-mod-hidden)")
    return Panel(page)


@pytest.fixture(scope="module")
def acting_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A server whose panel may change jobs."""
    with running_lab(tmp_path_factory.mktemp("panel") / "server", "--TraindbgServer.allow_actions=True") as server:
        yield server


@pytest.fixture
def panel(page: Page, acting_lab: Lab) -> Panel:
    return opened(page, acting_lab)


@pytest.fixture
def training(start: Start) -> Program:
    return start("train.py", "--sleep", "0.05")


@pytest.fixture
def picture(page: Page, tmp_path: Path) -> Picture:
    """``picture("panel-training")`` takes the whole page in both themes; into docs/images/ with TRAINDBG_SCREENSHOTS=1."""

    def take(name: str) -> None:
        page.set_viewport_size({"width": 1180, "height": 660})
        for theme in ("light", "dark"):
            set_theme(page, theme)
            page.wait_for_timeout(2500)  # one more look, in the new colours
            file = (IMAGES if os.environ.get("TRAINDBG_SCREENSHOTS") == "1" else tmp_path) / f"{name}-{theme}.png"
            page.screenshot(path=file, animations="disabled")
            smaller(file)
        set_theme(page, "light")
        page.set_viewport_size(VIEWPORT)

    return take
