"""An SVG file of matplotlib as an element of a page: named, without rules or names that reach beyond it, and a third smaller."""

from __future__ import annotations

import hashlib
import html
import re

from ..render.clean import clean

__all__ = ["embedded"]

PX_OF_PT = 4 / 3
_COMMENT, _METADATA = re.compile(r"<!--.*?-->", re.DOTALL), re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_RULES = re.compile(r"<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL)
"""For all elements of whatever page they stand in; `_OPENING` says the same for this one."""
_OPENING = (
    '<svg viewBox="0 0 {width} {height}" width="100%" style="max-width: {px:.0f}px; stroke-linejoin: round; stroke-linecap: butt" '
    'role="img" aria-label="{alt}" xmlns="http://www.w3.org/2000/svg">'
)
_SIZE = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
_LONG = re.compile(r"\b([1-9]\d*\.\d\d)\d+")
"""A coordinate; what begins with a zero may be the scale of a letter."""
_NAME = re.compile(r'(id="|href="#|url\(#)([^")]*)(["\)])')
_PLACED = re.compile(r'(<use [^>]*?)transform="translate\(([-\d.]+) ([-\d.]+)\)"')


def embedded(svg: str, alt: str) -> str:
    """The ``<svg>`` element of the file `svg`, as wide as there is room but not wider than it was drawn; `alt` is its name."""
    element = svg[svg.index("<svg") :]
    size = _SIZE.search(element)
    assert size is not None
    width, height = size.groups()
    for superfluous in (_METADATA, _RULES, _COMMENT):
        element = superfluous.sub("", element)
    opening = _OPENING.format(width=width, height=height, px=float(width) * PX_OF_PT, alt=html.escape(clean(alt)))
    element = re.sub(r"<svg[^>]*>", lambda _: opening, element, count=1)
    return _smaller(_named_apart(element)).strip()


def _named_apart(element: str) -> str:
    """With names that no other picture in the page has: the glyphs of another version of a font would be taken for these."""
    element = re.sub(r'<g id="[^"]*">', "<g>", element)
    own = hashlib.sha256(element.encode()).hexdigest()[:6]
    names = {name: f"t{own}{n}" for n, name in enumerate(dict.fromkeys(re.findall(r'id="([^"]*)"', element)))}
    return _NAME.sub(lambda m: f"{m[1]}{names.get(m[2], m[2])}{m[3]}", element)


def _smaller(element: str) -> str:
    """A hundredth of a point is seen by nobody."""
    element = _LONG.sub(r"\1", element).replace("xlink:href", "href")
    element = _PLACED.sub(r'\1x="\2" y="\3"', element).replace(' y="0"', "")
    return re.sub(r"\s*\n\s*", "\n", element.replace(" \n", " "))
