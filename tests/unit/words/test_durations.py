"""How long something took, or has been going on."""

from __future__ import annotations

import math

from cases import each

from jupyter_traindbg.language import speaking
from jupyter_traindbg.words.durations import age, duration, time_words


@each(
    ("value", "words"),
    [(0.0, "0 s"), (0.00085, "850 µs"), (0.0123, "12.3 ms"), (0.9996, "1 s"), (1.25, "1.25 s"), (59.9, "59.9 s"), (59.96, "1 min"),
     (125.0, "2 min 5 s"), (3600.0, "1 h"), (11520.0, "3 h 12 min"), (183600.0, "2 d 3 h"), (-1.5, "-1.5 s"), (math.inf, "Inf"),
     (math.nan, "NaN")],
)  # fmt: skip
def test_duration(value: float, words: str) -> None:
    assert duration(value) == words


def test_an_age_is_told_in_whole_seconds_or_coarser() -> None:
    assert [age(s) for s in (-1.0, 0.4, 26.2, 59.6, 185.0)] == ["0 s", "0 s", "26 s", "1 min", "3 min 5 s"]
    assert [age(s) for s in (7800.0, 86400.0, 273600.0, math.inf, math.nan)] == [
        "2 h 10 min",
        "1 d",
        "3 d 4 h",
        "Inf",
        "NaN",
    ]


@each(
    ("value", "english", "chinese"),
    [(0.04, "40 ms", "40 毫秒"), (0.84, "0.8 s", "0.8 秒"), (12.2, "12 s", "12 秒"), (185, "3 min 5 s", "3 分 5 秒"),
     (300, "5 min", "5 分"),
     (7800, "2 h 10 min", "2 小时 10 分"), (183600.0, "2 d 3 h", "2 天 3 小时"), (math.inf, "Inf", "Inf"), (math.nan, "NaN", "NaN")],
)  # fmt: skip
def test_a_time_in_a_sentence(value: float, english: str, chinese: str) -> None:
    assert time_words(value) == english
    with speaking("zh"):
        assert time_words(value) == chinese
