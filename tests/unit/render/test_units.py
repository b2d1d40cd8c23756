"""Numbers as people read them; control characters as nobody should meet them; charts without a chart library."""

from __future__ import annotations

import math

from cases import each

from jupyter_traindbg.frames.whose import short_place
from jupyter_traindbg.model import Frame
from jupyter_traindbg.render import units
from jupyter_traindbg.render.chart import SVG_HEIGHT, SVG_WIDTH, drawing, sparkline
from jupyter_traindbg.render.clean import LONGEST, clean
from jupyter_traindbg.render.common import spread
from jupyter_traindbg.render.frames import runs

GIB = 1024**3


@each(
    ("value", "words"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536 * 1024**2, "1.5 GiB"), (GIB - 1, "1 GiB"), (1000 * 1024**2, "1000 MiB"),
     (80 * GIB, "80 GiB"), (123.4 * GIB, "123 GiB"), (2**60 * 5, "5120 PiB"), (-2048, "-2 KiB"), (math.nan, "NaN")],
)  # fmt: skip
def test_size(value: float, words: str) -> None:
    assert units.size(value) == words


@each(
    ("value", "short", "four"),
    [(0.0, "0", "0"), (1e-4, "1e-4", "1e-4"), (3e-4, "3e-4", "3e-4"), (0.00025, "2.5e-4", "2.5e-4"), (0.13, "0.13", "0.1300"),
     (1.0, "1", "1.000"), (12.3, "12.3", "12.30"), (1204.0, "1204", "1204"), (99999.0, "99999", "99,999"), (320000.0, "3.2e+5", "3.2e+5"),
     (3.2e38, "3.2e+38", "3.2e+38"), (-0.5, "-0.5", "-0.5000"), (math.nan, "NaN", "NaN"), (math.inf, "Inf", "Inf"),
     (-math.inf, "-Inf", "-Inf"), (5e-324, "4.94e-324", "4.94e-324")],
)  # fmt: skip
def test_number_and_steady(value: float, short: str, four: str) -> None:
    assert units.number(value) == short
    assert units.steady(value) == four


def test_percent_does_not_round_something_to_nothing_or_all() -> None:
    words = [units.percent(x) for x in (0.0, 0.001, 0.42, 0.999, 1.0, math.nan)]
    assert words == ["0 %", "<1 %", "42 %", ">99 %", "100 %", "NaN"]


def test_count() -> None:
    assert [units.count(n) for n in (0, 9876, 124_000_000, 70_000_000_000)] == ["0", "9,876", "124 M", "70 G"]


# --- clean -----------------------------------------------------------------------------------------------------------


def test_steering_characters_are_spelled_out() -> None:
    assert clean("a\x1b[31mb\nc\u202ed\x9be\udc80\u2028") == "a\\x1b[31mb\\nc\\u202ed\\x9be\\udc80\\u2028"


@each("harmless", ["", "ünïcödé", "模型.层", "مرحبا", "🔥", "<b>&", "tab\u00a0less"])
def test_everything_else_stays(harmless: str) -> None:
    assert clean(harmless) == harmless


def test_long_texts_are_cut() -> None:
    assert clean("x" * LONGEST) == "x" * LONGEST
    assert clean("x" * 10**6) == "x" * (LONGEST - 1) + "…"


# --- charts ----------------------------------------------------------------------------------------------------------


def test_sparkline() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([1.0, math.nan, 2.0]) == "▁×█"
    assert sparkline([]) == ""
    assert len(sparkline(range(10_000), 40)) == 40
    assert set(sparkline([3.0] * 5)) == {"▅"}
    assert sparkline([-1.7e308, 1.7e308]) == "▁█"


def test_noise_looks_flat() -> None:
    assert set(sparkline([310.0, 310.1, 310.0, 310.2])) == {"▄", "▅"}
    (line,) = drawing([310.0, 310.1]).lines
    heights = [float(point.split(",")[1]) for point in line]
    assert abs(heights[0] - heights[1]) < 3


def test_drawing_breaks_at_what_is_not_finite() -> None:
    drawn = drawing([1.0, 2.0, math.inf, 3.0])
    assert [len(line) for line in drawn.lines] == [2, 2], "a lone point is doubled, so that it is seen"
    assert drawn.marks == (240.0,)
    assert drawing([]).lines == ()
    assert drawing([math.nan]).lines == ()


def test_drawing_stays_in_its_box_and_keeps_spikes() -> None:
    values = [1.0] * 5000 + [100.0] + [1.0] * 5000
    (line,) = drawing(values).lines
    points = [tuple(map(float, point.split(","))) for point in line]
    assert all(0 <= x <= SVG_WIDTH and 0 <= y <= SVG_HEIGHT for x, y in points)
    assert min(y for _, y in points) == 4, "the spike reaches the top"
    assert len(points) < 200


# --- words shared by views -------------------------------------------------------------------------------------------


def test_spread_names_the_ranks_at_the_ends() -> None:
    assert spread([(0, 3.0), (1, 1.0), (2, 8.0)], str) == "min 1.0 (rank 1) · median 3.0 · max 8.0 (rank 2)"
    assert spread([(0, 3.0), (1, 3.0), (2, math.nan)], str) == "3.0"


def test_runs_fold_library_frames_and_what_was_inherited() -> None:
    user, library = (
        Frame("/home/a/t.py", 1, "f"),
        Frame("/v/lib/python3.11/site-packages/torch/nn/m.py", 2, "g", library=True),
    )
    fork = Frame("/usr/lib/python3.11/multiprocessing/popen_fork.py", 71, "_launch", library=True)
    found = runs([library, library, user, library, fork, user])
    assert [(r.folded, len(r.frames)) for r in found] == [(True, 2), (False, 1), (True, 1), (True, 2)]
    assert found[0].summary == "2 library frames, innermost torch/nn/m.py:2 g"
    assert (
        found[-1].summary
        == "2 frames that its parent had at the fork, innermost multiprocessing/popen_fork.py:71 _launch"
    )
    assert short_place(user) == "t.py:1 f"
