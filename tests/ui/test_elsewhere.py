"""The live widget where it is not JupyterLab with the newest kernel: in Notebook 7, and on ipykernel 6."""

from __future__ import annotations

import json
import re
import sysconfig
from collections.abc import Callable, Iterator

import nbformat
import pytest
from browsers import LIMIT_MS, VIEWPORT, Lab, Notebook, collect_errors, running_lab
from kernels import ipykernel6_python  # noqa: F401 - a fixture
from playwright.sync_api import Browser, Locator, expect
from support import REPO, Start

pytestmark = pytest.mark.timeout(600)

OLDER = f"""
import sys
sys.path += [{str(REPO)!r}, {sysconfig.get_path("purelib")!r}]
from ipykernel.kernelapp import launch_new_instance
launch_new_instance()
"""
"""A kernel of the other environment, which has little more than ipykernel; all else comes from this one's."""


@pytest.fixture
def lab(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Lab]:
    """JupyterLab, or the application that the test names."""
    app = getattr(request, "param", "jupyterlab")
    with running_lab(tmp_path_factory.mktemp("elsewhere") / "server", app=app) as server:
        yield server


def check_watch(watch: Locator) -> None:
    """Curves of a process move, and the buttons and the slider are there and heard."""
    watch.locator(".tdb-chart canvas").first.wait_for()
    step = watch.locator(".tdb-state-step")
    expect(step).to_have_text(re.compile(r"step \d+"))
    expect(step).not_to_have_text(step.inner_text())
    watch.get_by_role("button", name="Pause").click()
    expect(watch.get_by_role("button", name="Resume")).to_be_visible()
    watch.get_by_role("tab", name="Learning rate").click()
    expect(watch.get_by_role("slider").first).to_be_visible()


def cells(pid: int) -> list[str]:
    return [f"%load_ext traindbg\n%attach {pid}", "%watch"]


@pytest.mark.parametrize("lab", ["notebook"], indirect=True)
def test_in_notebook_7(chromium: Browser, lab: Lab, start: Start) -> None:
    """By the keyboard, as a person does: this application shows tests nothing of itself."""
    training = start("train.py", "--sleep", "0.05")
    new = [nbformat.v4.new_code_cell(source) for source in cells(training.pid)]  # type: ignore[no-untyped-call]
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=new, metadata=spec), lab.root / "seen.ipynb")  # type: ignore[no-untyped-call]
    context = chromium.new_context(viewport=VIEWPORT)
    context.set_default_timeout(LIMIT_MS)
    page = context.new_page()
    errors = collect_errors(page)
    page.goto(lab.address("seen.ipynb"))
    page.locator(".jp-Cell .cm-content").first.click()
    page.keyboard.press("Shift+Enter")
    page.keyboard.press("Shift+Enter")
    check_watch(page.locator(".tdb-watch"))
    context.close()
    assert [e for e in errors if "(reading 'schema')" not in e] == [], (
        "Notebook 7.6 makes that one itself, without us, too"
    )


def test_on_ipykernel_6(
    open_notebook: Callable[..., Notebook],
    lab: Lab,
    start: Start,
    ipykernel6_python: str,  # noqa: F811
) -> None:
    spec = lab.directory / "data" / "kernels" / "older" / "kernel.json"
    spec.parent.mkdir(parents=True)
    argv = [ipykernel6_python, "-c", OLDER, "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": argv, "display_name": "ipykernel 6", "language": "python"}))
    training = start("train.py", "--sleep", "0.05")
    book = open_notebook(["import ipykernel\nprint(ipykernel.__version__)", *cells(training.pid)], kernel="older")
    book.run(0)
    assert book.text(0).startswith("6.")
    book.run(1)
    book.run(2)
    check_watch(book.output(2).locator(".tdb-watch"))
