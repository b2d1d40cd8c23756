"""A real JupyterLab server and a real Chromium for the tests of what is seen. Every test fails on an error in the browser's console."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, ViewportSize, expect, sync_playwright
from support import REPO, jupyter_server, need

LIMIT_MS = 90_000
"""For one thing to show up in the browser, on a machine that is busy."""
expect.set_options(timeout=LIMIT_MS)
IMAGES = REPO / "docs" / "images"
MOST_IMAGE_BYTES = 150_000
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
APPS = {"jupyterlab": "LabApp", "notebook": "JupyterNotebookApp"}
VIEWPORT: ViewportSize = {"width": 1280, "height": 900}
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-color-profile=srgb",
]
NOT_OURS = re.compile(
    r"favicon\.ico"
    r"|/api/kernels/[^ ]+ .*(404|410)"  # JupyterLab asks once more after a kernel that the test has ended
    r"|Could not restore the debugger state: Canceled future"  # JupyterLab's debugger asks a kernel that the test has ended
    r"|WebSocket connection to .*/api/(kernels|events)"  # closed under it by a reload, or with its kernel
)
"""Console errors that JupyterLab makes by itself."""


class Lab:
    """A JupyterLab (or Notebook 7) server with directories of its own."""

    def __init__(self, directory: Path, url: str, token: str, process: subprocess.Popen[bytes], app: str) -> None:
        self.root, self.url, self.token, self.process = directory / "root", url, token, process
        self.directory, self.app = directory, app

    def address(self, path: str) -> str:
        """The URL that opens `path` (below the root): in JupyterLab, in a workspace of its own."""
        page = f"lab/workspaces/{secrets.token_hex(4)}/tree" if self.app == "jupyterlab" else "notebooks"
        return f"{self.url}{page}/{path}?token={self.token}"


@contextlib.contextmanager
def running_lab(
    directory: Path, *options: str, env: dict[str, str] | None = None, app: str = "jupyterlab"
) -> Iterator[Lab]:
    """A server of JupyterLab (`app` ``notebook``: of Notebook 7) on a free port of loopback; it and its kernels are gone afterwards."""
    root = directory / "root"
    root.mkdir(parents=True)
    homes = {
        "JUPYTER_CONFIG_DIR": directory / "config",
        "JUPYTER_DATA_DIR": directory / "data",
        "JUPYTER_RUNTIME_DIR": directory / "runtime",
        "JUPYTERLAB_WORKSPACES_DIR": directory / "workspaces",
        "IPYTHONDIR": directory / "ipython",
        "MPLCONFIGDIR": directory / "mpl",
    }
    settings = directory / "config" / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    quiet = {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": False}
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(quiet))
    token = secrets.token_hex(16)
    command = [
        *(sys.executable, "-m", app, "--no-browser", f"--{APPS[app]}.expose_app_in_browser=True"),
        *(
            "--ServerApp.ip=127.0.0.1",
            "--ServerApp.port=0",
            f"--ServerApp.root_dir={root}",
            "--ServerApp.allow_root=True",
        ),
        *(
            f"--{APPS[app]}.extension_manager=readonly",
            f"--IdentityProvider.token={token}",
            "--ServerApp.log_level=INFO",
        ),
        *options,
    ]
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("TRAINDBG", "JUPYTER"))}
    own = {k: str(v) for k, v in homes.items()} | {"JUPYTER_PREFER_ENV_PATH": "1", "OMP_NUM_THREADS": "1"}
    with jupyter_server(command, directory, {**inherited, **own, **(env or {})}) as (url, process):
        yield Lab(directory, url, token, process, app)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("lab") / "server") as server:
        yield server


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Ends with its module: while it lives, Playwright's event loop counts as running in this thread, for every other test too."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    need("chromium", path is not None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page in a context of its own; whatever an error it wrote to the console fails the test."""
    yield from watched_page(chromium)


def watched_page(chromium: Browser, but: str = "$^") -> Iterator[Page]:
    """The fixture `page`, for tests in which errors that match `but` have to come."""
    context = chromium.new_context(viewport=VIEWPORT, reduced_motion="reduce")
    context.set_default_timeout(LIMIT_MS)
    opened = context.new_page()
    errors = collect_errors(opened)
    yield opened
    context.close()
    if errors := [error for error in errors if not re.search(but, error)]:
        pytest.fail("errors in the browser's console:\n" + "\n".join(errors))


def collect_errors(page: Page) -> list[str]:
    """Fills with what goes wrong in `page` from now on."""
    errors: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        words = f"{message.text} ({message.location.get('url', '')})"
        if message.type == "error" and not NOT_OURS.search(words):
            errors.append(words)

    page.on("console", on_console)
    page.on("pageerror", lambda error: errors.append(f"{error.message}\n{error.stack}"))
    return errors


class Notebook:
    """A notebook open in JupyterLab."""

    def __init__(self, page: Page, lab: Lab, name: str) -> None:
        self.page, self.lab, self.name = page, lab, name

    def open(self) -> None:
        """Open it, and wait until its kernel has answered."""
        self.page.goto(self.lab.address(self.name))
        self.wait_until_ready()

    def reload(self) -> None:
        """Reload the browser's page, as a person does; the kernel runs on."""
        self.page.reload()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        self.page.wait_for_selector(".jp-NotebookPanel .jp-Cell")
        self.page.wait_for_function(
            "() => { const k = window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel;"
            " return k && k.connectionStatus === 'connected'; }"
        )

    def cell(self, index: int) -> Locator:
        return self.page.locator(f".jp-NotebookPanel .jp-Cell[data-windowed-list-index='{index}']")

    def output(self, index: int) -> Locator:
        return self.cell(index).locator(".jp-Cell-outputArea")

    def show(self, index: int) -> None:
        """Scroll to a cell: those far away are not on the page."""
        self.page.evaluate("index => window.jupyterapp.shell.currentWidget.content.scrollToItem(index, 'start')", index)
        self.cell(index).wait_for()

    def run(self, index: int, *, wait: bool = True) -> None:
        """Run a cell; with `wait`, to its end."""
        self.page.evaluate(
            "async index => { const app = window.jupyterapp; const book = app.shell.currentWidget.content;"
            " book.activeCellIndex = index; void app.commands.execute('notebook:run-cell'); }",
            index,
        )
        if wait:
            self.wait_for(index)

    def wait_for(self, index: int) -> None:
        """Wait until a cell that was run has ended."""
        self.page.wait_for_function(
            "index => { const cell = window.jupyterapp.shell.currentWidget.content.widgets[index].model;"
            " return cell.executionState === 'idle' && cell.executionCount !== null; }",
            arg=index,
        )

    def running(self, index: int) -> bool:
        """Whether a cell runs just now."""
        return bool(
            self.page.evaluate(
                "index => window.jupyterapp.shell.currentWidget.content.widgets[index].model.executionState === 'running'",
                index,
            )
        )

    def text(self, index: int) -> str:
        """What the cell printed."""
        return "\n".join(self.output(index).locator(".jp-OutputArea-output pre").all_inner_texts()).strip()

    def save(self) -> nbformat.NotebookNode:
        """Save it as a person does, and read the file."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
        return nbformat.read(self.lab.root / self.name, as_version=4)  # type: ignore[no-untyped-call]


@pytest.fixture
def open_notebook(lab: Lab, page: Page) -> Iterator[Callable[..., Notebook]]:
    """``open_notebook(["x = 1", "x"])`` opens a new notebook with these cells and a kernel of its own, which ends with the test.

    ``kernel=`` names another kernel than ``python3``.
    """
    yield from notebooks_of(lab, page)


def notebooks_of(lab: Lab, page: Page) -> Iterator[Callable[..., Notebook]]:
    """The fixture `open_notebook`, of another server."""
    numbers = itertools.count()
    opened: list[Notebook] = []

    def make(cells: Sequence[str], kernel: str = "python3") -> Notebook:
        content = nbformat.v4.new_notebook(  # type: ignore[no-untyped-call]
            cells=[nbformat.v4.new_code_cell(source) for source in cells],  # type: ignore[no-untyped-call]
            metadata={"kernelspec": {"name": kernel, "display_name": kernel, "language": "python"}},
        )
        name = f"test-{secrets.token_hex(4)}-{next(numbers)}.ipynb"
        nbformat.write(content, lab.root / name)  # type: ignore[no-untyped-call]
        notebook = Notebook(page, lab, name)
        notebook.open()
        opened.append(notebook)
        return notebook

    yield make
    for _ in opened:
        with contextlib.suppress(Exception):  # the test may have ended the kernel, or the page
            page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")


@pytest.fixture
def screenshot(page: Page, tmp_path: Path) -> Callable[..., None]:
    """``screenshot("watch-curves", locator)`` takes it in both themes.

    Into docs/images/ with TRAINDBG_SCREENSHOTS=1, else into the test's own directory.
    """

    def take(name: str, of: Locator | None = None, themes: Sequence[str] = ("light", "dark")) -> None:
        page.set_viewport_size({"width": 1280, "height": 1500})  # so that nothing of it is scrolled away
        for theme in themes:
            set_theme(page, theme)
            directory = IMAGES if os.environ.get("TRAINDBG_SCREENSHOTS") == "1" else tmp_path
            directory.mkdir(parents=True, exist_ok=True)
            file = directory / f"{name}-{theme}.png"
            if of is not None:
                of.scroll_into_view_if_needed()
            page.wait_for_timeout(600)  # one more update, drawn in the new colours
            photograph(of or page, file)
        set_theme(page, "light")
        page.set_viewport_size(VIEWPORT)

    return take


PALE = """
view => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const parts = colour => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].map(part => part / 255);
  };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const behind = node => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) layers.unshift(parts(getComputedStyle(at).backgroundColor));
    return layers.reduce((below, top) => over(top, below), [1, 1, 1, 1]);
  };
  const light = colour => {
    const [r, g, b] = colour.slice(0, 3).map(c => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const pale = [];
  let seen = 0;
  const texts = document.createTreeWalker(view, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || node.closest('svg, style') || !node.checkVisibility()) continue;
    seen += 1;
    const ground = behind(node);
    const [a, b] = [light(over(parts(getComputedStyle(node).color), ground)), light(ground)];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) pale.push(`${contrast.toFixed(2)} ${node.className}: ${texts.currentNode.data.trim().slice(0, 60)}`);
  }
  return seen > 0 ? pale : ['nothing is seen'];
}
"""
"""The texts below `view` whose contrast is less than 4.5 (WCAG 2.2, 1.4.3), with what it is."""


def set_theme(page: Page, theme: str) -> None:
    """Switch JupyterLab to the light or the dark theme."""
    page.evaluate(
        "name => window.jupyterapp.commands.execute('apputils:change-theme', { theme: name })",
        THEMES[theme],
    )
    page.wait_for_function(
        "light => document.body.dataset.jpThemeLight === light", arg="true" if theme == "light" else "false"
    )


def photograph(what: Locator | Page, file: Path) -> None:
    """Its picture, as it is now; one that is empty or too large for docs/ fails the test."""
    what.screenshot(path=file, animations="disabled")
    smaller(file)
    assert 2_000 < file.stat().st_size < MOST_IMAGE_BYTES, f"{file}: {file.stat().st_size} bytes"


def smaller(file: Path) -> None:
    """Write a PNG again with a palette of 256 colours: screens have few."""
    from PIL import Image

    with Image.open(file) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(file, optimize=True)


def eventually(ask: Callable[[], Any], limit_s: float = 90.0) -> Any:
    """The first true answer of `ask`; fails with the last one past the limit."""
    deadline = time.monotonic() + limit_s
    while not (answer := ask()):
        assert time.monotonic() < deadline, f"still {answer!r} after {limit_s:.0f} s"
        time.sleep(0.2)
    return answer
