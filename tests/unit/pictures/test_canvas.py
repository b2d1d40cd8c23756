"""What holds for every picture: drawn when it is looked at, in the page's colours, harmless, small, and nobody else's settings touched."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases import each
from render_scenes_pictures import picture_of_loss

from jupyter_traindbg.errors import MissingPiece
from jupyter_traindbg.pictures import canvas, inks
from jupyter_traindbg.pictures.canvas import Canvas, drawing, new_figure

HOSTILE = "$\\frac</text><script>alert('1')</script>--><!--\"'\x1b[31m\x00\udc80\u202etxt"


def with_text(words: str) -> Canvas:
    def draw() -> Any:
        figure = new_figure(2)
        axes = figure.subplots()
        axes.set_title(words)
        axes.set_yticks([0, 1], [words, "1"], fontsize=4)
        axes.text(0.5, 0.5, f"{words}\n{words}")
        return figure

    return Canvas(draw)


def in_a_process(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout


def test_what_is_only_told_needs_no_matplotlib() -> None:
    code = "import sys, jupyter_traindbg.pictures, jupyter_traindbg.magics.plot; print('matplotlib' in sys.modules)"
    assert in_a_process(code).strip() == "False"
    picture = picture_of_loss(1, 20)
    assert "figure" not in vars(picture.drawn)
    assert picture.words


def test_an_svg_is_in_the_colours_of_the_page_and_has_a_name() -> None:
    svg = picture_of_loss().drawn.svg('loss "now" <b>')
    root = ET.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == 'loss "now" <b>'
    for ink in (inks.INK, inks.FAINT, inks.LINE, inks.PAPER):
        assert ink not in svg
    assert "currentColor" in svg
    assert "var(--traindbg-line" in svg


def test_an_svg_has_no_rule_for_the_whole_page_and_no_names_that_may_clash() -> None:
    svg = picture_of_loss().drawn.svg("")
    assert "<style" not in svg
    for name in re.findall(r'id="([^"]*)"', svg):
        assert f"#{name}" in svg, (
            "it is referred to, so it is the name of what is drawn again, the same in each picture"
        )


def test_the_same_picture_is_the_same_text() -> None:
    assert picture_of_loss().drawn.svg("a") == picture_of_loss().drawn.svg("a")


def test_names_are_shown_and_not_obeyed() -> None:
    drawn = with_text(HOSTILE)
    svg = drawn.svg(HOSTILE)
    root = ET.fromstring(svg)
    assert not [element for element in root.iter() if element.tag.endswith("script")]
    assert "<script>alert('1')</script>" in root.attrib["aria-label"]
    assert "\\x1b" in svg
    assert not re.search("[\x00-\x08\x0e-\x1f\u202e\ud800-\udfff]", svg)

    assert drawn.png().startswith(b"\x89PNG")


def test_nothing_is_left_of_an_svg_whose_elements_are_stripped() -> None:
    assert "".join(ET.fromstring(picture_of_loss().drawn.svg("the loss")).itertext()).strip() == ""


def test_letters_keep_their_size() -> None:
    assert re.findall(r"scale\(([\d.]+)\)", picture_of_loss().drawn.svg(""))[0] == "0.015625", (
        "64ths of a unit of the font"
    )


def test_pictures_in_one_page_share_no_names() -> None:
    one, other = (set(re.findall(r'id="([^"]*)"', picture_of_loss(ranks).drawn.svg(""))) for ranks in (1, 2))
    assert one
    assert not one & other


def test_what_no_font_here_has_is_drawn_without_a_warning() -> None:
    drawn = with_text("\U0001f6f8 \u5b66\u4e60\u7387")
    assert drawn.svg("")
    assert drawn.png()


def test_a_png_is_small_and_on_white() -> None:
    from PIL import Image

    data = picture_of_loss(8, bad=300).drawn.png()
    image = Image.open(io.BytesIO(data)).convert("RGB")
    assert len(data) < 64_000
    assert image.getpixel((0, 0)) == (255, 255, 255)
    assert image.width == 990


def test_drawing_brings_no_pyplot_in() -> None:
    code = (
        "import sys; from jupyter_traindbg.pictures.canvas import Canvas, new_figure; drawn = Canvas(lambda: new_figure(1));"
        "drawn.svg(''); drawn.png(); print('matplotlib' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    assert in_a_process(code).split() == ["True", "False"]


def test_settings_of_the_notebook_are_left_alone_and_do_not_matter() -> None:
    import matplotlib as mpl

    plain = picture_of_loss().drawn.svg("")
    with mpl.rc_context({"lines.linewidth": 20, "font.size": 30, "svg.fonttype": "path", "axes.facecolor": "black"}):
        before = dict(mpl.rcParams)
        assert picture_of_loss().drawn.svg("") == plain
        assert dict(mpl.rcParams) == before


def test_threads_draw_one_after_the_other() -> None:
    drawn: list[str] = []
    threads = [threading.Thread(target=lambda: drawn.append(picture_of_loss().drawn.svg(""))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(drawn) == 4
    assert len(set(drawn)) == 1


def test_without_matplotlib_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.style", None)
    with pytest.raises(MissingPiece, match="pictures need matplotlib"), drawing():
        pass


@each(
    ("fonts", "label"),
    [((), "mean of 18 steps"), (("DejaVu Sans",), "18 步的均值")],
    ids=["no font", "a font"],
)
def test_chinese_is_drawn_where_a_font_has_it(
    fonts: tuple[str, ...], label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    monkeypatch.setattr(canvas, "_chinese_fonts", lambda: fonts)
    picture = picture_of_loss()
    assert "的 loss" in picture.title
    assert label in [text.get_text() for legend in picture.figure.legends for text in legend.get_texts()]


def test_a_font_is_believed_when_it_has_chinese_characters(tmp_path: Path) -> None:
    from matplotlib import font_manager

    (tmp_path / "broken.ttf").write_bytes(b"no font")
    for file in (font_manager.findfont("DejaVu Sans"), str(tmp_path / "gone.ttf"), str(tmp_path / "broken.ttf")):
        assert not canvas._draws_chinese(file)


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@each("ground", ["#ffffff", "#111111"])
@each("colour", [*inks.SERIES, *inks.PARTS, inks.GOOD, inks.WARN, inks.BAD])
def test_colours_are_told_from_a_light_and_from_a_dark_page(colour: str, ground: str) -> None:
    assert contrast(colour, ground) >= 3.0


@each("colour", [inks.INK, inks.FAINT])
def test_text_is_read_on_white(colour: str) -> None:
    assert contrast(colour, inks.PAPER) >= 4.5


def test_drawing_again_draws_the_same_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = 0

    def draw(make: Callable[[float], Any] = new_figure) -> Any:
        nonlocal drawn
        drawn += 1
        return make(1.0)

    one = Canvas(draw)
    assert one.figure is one.figure
    one.svg("")
    one.png()
    assert drawn == 1
