"""The static picture: what it shows, that it is small, and that it touches nothing of the notebook's own figures."""

from __future__ import annotations

import io
import sys
import threading
import warnings

import pytest
from cases import each
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from synthetic import HOSTILE, Synthetic

from jupyter_traindbg.live import Feed
from jupyter_traindbg.pictures import canvas
from jupyter_traindbg.widgets import picture
from jupyter_traindbg.widgets.picture import png

MESSAGE_LIMIT = 48_000
"""In base64 it stays under the 64 KiB above which zmq wants to copy later, which it cannot while a kernel ends."""


def drawn(feed: Feed, title: str = "job") -> Image.Image:
    data = png(feed, title)
    assert len(data) < MESSAGE_LIMIT
    return Image.open(io.BytesIO(data)).convert("RGB")


@pytest.mark.parametrize(("ranks", "steps"), [(1, 0), (1, 1), (1, 500), (4, 3000), (20, 300)])
def test_a_picture_of_any_feed(ranks: int, steps: int) -> None:
    source = Synthetic(ranks, hz=1000, before=0, bad_step=20)
    feed = Feed(source)  # type: ignore[arg-type]
    source._began -= steps / 1000
    feed.round()
    image = drawn(feed)
    colours = image.getcolors(1 << 16)
    assert image.width == 800
    assert colours is not None
    assert len(colours) > (10 if steps else 1)


@each(("ahead", "first"), [(628, 629), (None, 1)])
def test_its_steps_are_the_optimizers_own_where_it_counts(ahead: int | None, first: int) -> None:
    feed = Feed(Synthetic(hz=1000, before=200, drop_step=70, bad_step=50, ahead=ahead))  # type: ignore[arg-type]
    feed.round()
    for group in ("loss", "time"):
        axes = Figure().add_subplot()
        picture._draw(axes, feed, group, [one for one in feed.series if one.group == group])
        assert axes.dataLim.x0 == first
        assert {line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == ":"} == {first + 49, first + 69}


def test_a_title_is_neither_mathematics_nor_markup() -> None:
    feed = Feed(Synthetic())  # type: ignore[arg-type]
    drawn(feed, rf"$\frac{{ {HOSTILE} \unknown$")


@each(
    ("fonts", "title", "chart"),
    [((), "job: training\nas of ", "gradient norm"), (("DejaVu Sans",), "job：训练中\n截至 ", "梯度范数")],
    ids=["no font", "a font"],
)
def test_it_is_in_chinese_where_a_font_has_it(
    fonts: tuple[str, ...], title: str, chart: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else in English, also what the feed has said in Chinese before."""
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    monkeypatch.setattr(canvas, "_chinese_fonts", lambda: fonts)
    written: list[str] = []
    for kind, name in ((Figure, "suptitle"), (Axes, "set_title")):
        monkeypatch.setattr(kind, name, lambda self, words, **_: written.append(words))
    feed = Feed(Synthetic(hz=1000, before=200))  # type: ignore[arg-type]
    feed.round()
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", r"Glyph \d+ .* missing from", UserWarning
        )  # DejaVu stands for a font that has them
        png(feed, "job")
    assert written[0].startswith(title)
    assert chart in written


def test_it_leaves_pyplot_and_the_settings_alone() -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    there = "matplotlib.pyplot" in sys.modules
    feed = Feed(Synthetic(hz=1000, before=200))  # type: ignore[arg-type]
    feed.round()
    errors: list[BaseException] = []

    def draw() -> None:
        try:
            drawn(feed)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=draw) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert dict(mpl.rcParams) == before
    assert ("matplotlib.pyplot" in sys.modules) == there
