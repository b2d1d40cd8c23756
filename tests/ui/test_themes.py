"""What results look like outside JupyterLab: in the colours of VS Code and Colab, set here, and on a page that has none."""

from __future__ import annotations

import pytest
from browsers import PALE
from playwright.sync_api import Browser
from render_scenes import LARGE, SMALL

from jupyter_traindbg import render

pytestmark = pytest.mark.timeout(600)

THEMES = {
    "VS Code, dark modern": ("#1f1f1f", "#cccccc", True),
    "VS Code, light modern": ("#ffffff", "#3b3b3b", True),
    "VS Code, high contrast": ("#000000", "#ffffff", True),
    "VS Code, Monokai": ("#272822", "#cccccc", True),
    "Colab, light": ("#ffffff", "#1f1f1f", False),
    "Colab, dark": ("#383838", "#d5d5d5", False),
    "Colab, dark, newer": ("#1e1e1e", "#e3e3e3", False),
    "a page without colours": ("#ffffff", "#000000", False),
}
"""Ground, text, and whether the text has the name that VS Code gives it."""


@pytest.mark.parametrize("theme", THEMES)
def test_every_text_has_enough_contrast(chromium: Browser, theme: str) -> None:
    ground, text, named = THEMES[theme]
    scenes = {**SMALL, **LARGE}
    views = [render.html(result, styled=number == 0) for number, result in enumerate(scenes.values())]
    variables = f":root {{ --vscode-foreground: {text} }}" if named else ""
    page = chromium.new_page()
    try:
        page.set_content(
            f"<!doctype html><style>{variables} body {{ background: {ground}; color: {text} }}</style>{''.join(views)}"
        )
        shown = page.locator(".traindbg-view")
        pale = {name: shown.nth(number).evaluate(PALE) for number, name in enumerate(scenes)}
    finally:
        page.close()
    assert {name: texts for name, texts in pale.items() if texts} == {}
