"""The colours of all pictures. One set serves light and dark pages: each is told from white and from black by a contrast of 3 at least
(WCAG 2.2, 1.4.11); text and lines take the colours of the page.
"""

from __future__ import annotations

__all__ = ["BAD", "FAINT", "GOOD", "INK", "LINE", "PAPER", "PARTS", "SERIES", "WARN", "of_page"]

INK, FAINT, LINE, PAPER = "#24292f", "#5f6770", "#d0d7de", "#ffffff"
"""Text, what is said aside, grid and axes, the ground: as drawn on white. A page has its own."""

SERIES = ("#2f7fc1", "#c8641a", "#2a9163", "#b0568f", "#927a1a", "#7d6bc4", "#4f8a9b", "#808080")
"""Told apart also by those who see colours differently (after Okabe and Ito); each curve has its name beside it all the same."""

PARTS = ("#2f7fc1", "#2a9163", "#927a1a", "#b0568f", "#808080", "#c8641a")
"""Parts of a whole."""

GOOD, WARN, BAD = "#2e9560", "#bf7410", "#d43d3d"

_PAGE = {
    INK: "currentColor",
    FAINT: "var(--traindbg-faint, currentColor)",
    LINE: "var(--traindbg-line, #8884)",
    PAPER: "var(--jp-layout-color0, var(--vscode-editor-background, Canvas))",
}


def of_page(svg: str) -> str:
    """`svg`, drawn on white, in the colours of the page that it stands in."""
    for drawn, on_page in _PAGE.items():
        svg = svg.replace(drawn, on_page)
    return svg
