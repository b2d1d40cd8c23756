"""`%targets` in a browser: nothing has to be scrolled sideways, however wide the output is, and what was shortened is on hover."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page
from render_scenes import LARGE, SMALL, SPACED, TRAIN, kernel, ranks_of

from jupyter_traindbg import render
from jupyter_traindbg.model import Targets

LONG = kernel("8f3a21b0-1234", 4194303, "/home/ada/llm/twentysix-characters.ipynb")
COMMON = ".jp-RenderedHTMLCommon :is(td, th, tr) { max-width: none; padding: 0.5em; text-align: right; vertical-align: middle; }"
"""How JupyterLab draws tables, as far as it is in our way."""


def show(page: Page, html: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 700})
    page.set_content(
        f"<!doctype html><style>body {{ margin: 0; font-size: 14px }} {COMMON}</style><div class='jp-RenderedHTMLCommon'>{html}</div>"
    )


@pytest.mark.parametrize("width", [448, 640, 900, 1100, 1600])
@pytest.mark.parametrize(
    "result",
    [
        SMALL["targets"],
        SMALL["targets, many kinds"],
        LARGE["targets"],
        Targets((LONG, *ranks_of(4190000, 300, first=4191000))),
    ],
    ids=["small", "many kinds", "300 ranks", "long names"],
)
def test_nothing_has_to_be_scrolled_sideways(page: Page, result: Targets, width: int) -> None:
    show(page, render.html(result), width)
    wide, room = page.locator(".traindbg-scroll").evaluate("e => [e.scrollWidth, e.clientWidth]")
    assert wide <= room == width
    for words in ("torchrun:", "running", "answers", "none yet"):
        assert page.get_by_text(words).first.is_visible()


def test_what_it_runs_stands_beside_where_there_is_room_and_else_below(page: Page) -> None:
    show(page, render.html(Targets((TRAIN, SPACED))), 1100)
    name, runs = page.locator("tbody tr:first-child th"), page.locator("tbody tr:first-child td:last-child")

    def beside() -> bool:
        left, right = name.bounding_box(), runs.bounding_box()
        assert left is not None
        assert right is not None
        return right["y"] < left["y"] + left["height"]

    assert beside()
    assert runs.locator("code").get_attribute("title") == TRAIN.command
    page.set_viewport_size({"width": 640, "height": 700})
    assert not beside()
