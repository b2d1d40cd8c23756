"""Blocks as HTML, through Jinja2. Autoescape is on and every printed string is cleaned first; no template marks anything as safe."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ..commands import command
from ..frames.whose import line_of, short_path, short_place
from ..language import language, text
from ..model import Excerpt, Frame
from .blocks import Block, Column, Image, Inline, Link, Span, Table, and_more, fitted, not_available, spans
from .chart import SVG_HEIGHT, SVG_WIDTH, drawing
from .clean import clean, finalize
from .columns import uniform
from .frames import runs
from .links import attributes
from .narrowing import JOINT, LONG, leaving
from .sorting import sorting

__all__ = ["draw", "page"]

_TEMPLATES = Path(__file__).parent / "templates"
ROOM = 68
"""Characters for what can be said in less: a line of code beside the side panel (640 px), and half of one without it."""
MOST_ROWS = 300
"""Of one table: a browser's patience and a notebook's size have limits. The result object has the rest."""


def draw(blocks: Sequence[Block], *, styled: bool = True) -> str:
    """`blocks` as one ``<div>``, with its style unless that is elsewhere on the page."""
    template = _environment().get_template("view.html.jinja")
    drawn = template.render(blocks=blocks, notes=_Notes(), style=_style() if styled else "", language=language())
    return re.sub(r"\n\s*\n", "\n", drawn)  # in Markdown, HTML ends at an empty line


def page(folder: Path, template: str, **values: object) -> str:
    """A whole page from the `template` in `folder`, which may import ``blocks.html.jinja`` and is given `notes` and `style`.

    Raises Jinja2's errors.
    """
    environment = _environment().overlay(loader=FileSystemLoader([folder, _TEMPLATES]))
    return environment.get_template(template).render(notes=_Notes(leads_to_files=False), style=_style(), **values)


@lru_cache(maxsize=1)
def _style() -> Markup:
    """The stylesheet of all views, without what is there for people. Markup already: it is a file of ours."""
    css = (_TEMPLATES / "style.css").read_text(encoding="utf-8")
    return Markup(re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)).strip())


class _Notes:
    """What the blocks of a page share. Footnotes: each reason once, numbered in the order of appearance. And whether it is read where the
    files are that it names.
    """

    def __init__(self, *, leads_to_files: bool = True) -> None:
        self.numbers: dict[str, int] = {}
        self._leads_to_files = leads_to_files

    def number(self, why: str) -> int:
        return self.numbers.setdefault(why, len(self.numbers) + 1)

    def leads(self, link: Link | None) -> dict[str, str]:
        """The attributes of an ``<a>`` to `link`; empty where there is nothing to open."""
        if link is None or not (self._leads_to_files or isinstance(link, str)):
            return {}
        return attributes(link)


def _shown(table: Table) -> Table:
    """`table` with no more rows than a page takes."""
    return replace(table, rows=table.rows[:MOST_ROWS])


def _spans(inline: Inline) -> Iterator[Span]:
    """The spans of `inline`, what stands between backticks as code (at a terminal the backticks themselves say so)."""
    for span in spans(inline):
        if span.tone == "code":
            yield replace(span, text=command(span.text))
            continue
        for i, part in enumerate(re.split("`([^`]+)`", span.text)):
            if part:
                yield (
                    replace(span, text=command(part), tone="code", why="")
                    if i % 2
                    else replace(span, text=part, why="")
                )
        if span.why:
            yield Span("", why=span.why)


def _breakable(words: str) -> Markup:
    """`words`, of which the long ones go on in the next line behind a joint: a path behind a slash. Markup already: all else is escaped."""
    return Markup(LONG.sub(lambda long: JOINT.sub("<wbr>", long[0]), escape(clean(words))))


def _cut(table: Table) -> str:
    """What stands below the rows that a page takes."""
    return text("{and_more}: see the result's `to_frame()`", and_more=and_more(table, MOST_ROWS))


def _without(column: Column) -> str:
    return text(" · without {name}", name=column.name)


def _innermost_first() -> str:
    return text("frames, innermost first")


def _path(at: Frame | Excerpt) -> str:
    """With its line: a library's from its package on, any other in full."""
    return line_of(at, short_path(at) if isinstance(at, Frame) else "")


def _svg(image: Image) -> Markup:
    """Markup already: of what a job wrote, only the letters' outlines are in it, and its name, which is escaped."""
    return Markup(image.drawn.svg(image.words))


def _png_data(image: Image) -> Markup:
    """Nothing to be escaped, and longer than any words."""
    return Markup(base64.b64encode(image.drawn.png()).decode())


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        spans=_spans, svg=_svg, png_data=_png_data, drawing=drawing, runs=runs, place=short_place, path=_path
    )
    environment.filters.update(uniform=uniform, sorting=sorting, shown=_shown)
    environment.filters.update(breakable=_breakable, without=_without, and_more=and_more, cut=_cut)
    environment.filters["not_available"] = not_available
    environment.globals["innermost_first"] = _innermost_first
    environment.globals["leaving"] = leaving
    environment.filters["fitted"] = partial(fitted, room=ROOM)
    environment.globals.update(svg_width=SVG_WIDTH, svg_height=SVG_HEIGHT)
    return environment
