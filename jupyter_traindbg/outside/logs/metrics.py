"""Metrics in lines: ``loss: 1.25``, ``{'loss': 1.25, 'epoch': 0.5}``, ``| lm loss: 6.5E+00 |``, ``actor/kl=0.1``, the speed of a bar."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator

from ...model import UNNAMED_SERIES, LogLine, LogSeries
from .columns import Columns

__all__ = ["SeriesBook", "values"]

MOST_POINTS = 2000
_MOST_SERIES = 2000
_LONGEST_NAME = 60
_MOST_TOGETHER = 150_000
"""Points of all series: 16 MB."""

_NUMBER = r"[-+]?(?:\d{1,30}(?:\.\d{0,30})?(?:[eE][-+]?\d{1,4})?|\.\d{1,30}(?:[eE][-+]?\d{1,4})?|nan|inf(?:inity)?)"
"""Bounded: a run of a thousand digits is no metric, and must not be looked at from each of them."""
_AFTER = r"(?!(?!(?:m?s|[GMK]i?B?)\b)[\w:/]|\.\d|%\||-[a-z])"
"""What may not follow a number that is the value of a metric: more of a word, but for a unit; a time of day; a version; a bar."""
_VALUE = (
    rf"(?:(?:tensor|array|np\.float\d+|np\.int\d+)\()?\[{{0,2}} {{0,8}}['\"]?(?P<value>{_NUMBER}){_AFTER}"
    r"(?:(?=\s?(?P<bytes>[GMK]i?B)\b))?"
)
_NAMED = re.compile(
    rf"(?<![\w/@.-])(?P<name>[a-z][\w/@.-]{{0,58}}(?: [a-z][\w/@.-]{{0,30}}){{0,2}})['\"]?\s{{0,24}}"
    rf"(?:\([\w%/ ]{{1,12}}\)\s?)?(?:[=:|]|(?<=\s)is(?=\s)|(?<=B\))\s)\s{{0,40}}{_VALUE}",
    re.IGNORECASE,
)
_BARE = re.compile(
    rf"(?<![\w/])(?P<name>(?:[\w/]{{1,40}}_)?(?:loss|grad_norm|gnorm|reward|kl|ppl|perplexity|lr|acc|accuracy|loss_scale|entropy|speed|fps|step))\s{{1,9}}{_VALUE}",
    re.IGNORECASE,
)
_COUNTED = re.compile(r"(?<![\w/])(?P<name>step|iter(?:ation)?) {1,9}(?P<value>\d{1,12})(?::|/ {0,6}\d)", re.IGNORECASE)
"""``iter 100: loss 2.5``, ``iteration   100/ 5000 |``: what the line is about stands first."""
_METER = re.compile(
    rf"(?<![\w/@.-])(?P<name>[a-z][\w@/-]{{0,24}}(?: (?:time|loss|norm))?) {{1,3}}{_VALUE} {{0,2}}\((?P<mean>{_NUMBER})%?\)",
    re.IGNORECASE,
)
"""``Data 0.336 (0.784)``: the value, and its mean so far, which is kept of times."""
_TIMES = {"data", "time", "batch", "data_time", "batch_time", "data time", "batch time"}
_VAGUE = {"current", "used", "in use", "alloc", "allocated", "reserved", "peak"}
"""What says only beside "memory" in its line of what it is."""
_PLACES = {"cpu", "gpu", "host", "process", "device"}
"""What has so many bytes of memory."""
_DARKNET = re.compile(rf"^\s{{0,4}}\d{{1,9}}: (?P<value>{_NUMBER}), {_NUMBER} avg", re.IGNORECASE)
_ALONE = re.compile(rf"^\s{{0,4}}tensor\((?P<value>{_NUMBER})[,)]", re.IGNORECASE)
"""``print(loss)``."""
_BAR = "it/s"
_QUOTES = str.maketrans("‘’“”", "''\"\"")
_SPEED = re.compile(r"(?<![\d.])(?P<value>\d{1,12}(?:\.\d{1,12})?) ?(?P<unit>it/s|s/it)\b")
_NO_METRICS = {
    *(
        "line",
        "pid",
        "port",
        "rank",
        "local_rank",
        "id",
        "ip",
        "gpu",
        "gpus",
        "node",
        "nodes",
        "version",
        "seed",
        "level",
    ),
    *(
        "thread",
        "block",
        "worker",
        "job",
        "size",
        "world_size",
        "info",
        "warning",
        "error",
        "debug",
        "file",
        "cuda",
        "device",
    ),
}
_LEADING = {"info", "warning", "error", "debug", "-", "at", "for", "of", "the", "and", "with", "in", "on", "is"}


def values(text: str) -> Iterator[tuple[str, float]]:
    """The names, in lower case as they are printed, and numbers in one line. A speed is ``it/s``, also where seconds are printed."""
    seen = set()
    plain = text.translate(_QUOTES)
    of_memory = "memory" in text.lower()
    for match in (*_NAMED.finditer(plain), *_BARE.finditer(plain), *_COUNTED.finditer(plain), *_METER.finditer(plain)):
        name = _name(match["name"])
        in_bytes = bool(match.groupdict().get("bytes"))
        if (in_bytes and name in _PLACES) or (of_memory and name in _VAGUE):
            name = f"memory {name}"
        if name and name not in seen and name not in _NO_METRICS:
            seen.add(name)
            yield name, float(match["value"])
            if match.re is _METER and name in _TIMES:
                yield f"{name} mean", float(match["mean"])
    if "loss" not in seen and (darknet := _DARKNET.search(plain)):
        yield "loss", float(darknet["value"])
    if not seen and (alone := _ALONE.search(plain)):
        yield UNNAMED_SERIES, float(alone["value"])
    speed = _SPEED.search(text)
    if speed is not None and (number := float(speed["value"])) > 0:
        yield _BAR, number if speed["unit"] == "it/s" else 1 / number


def _name(printed: str) -> str:
    words = printed.lower().rpartition(". ")[2].strip(" .-").split(" ")  # a sentence may end before it
    while words and words[0] in _LEADING:
        del words[0]
    name = " ".join(words)
    return name if len(name) <= _LONGEST_NAME and name.count("/") <= 3 and not name.endswith(".py") else ""


class _Series:
    """One metric of one rank, thinned as it grows: every second point goes, the extremes stay."""

    def __init__(self) -> None:
        self.points: list[tuple[int, float]] = []
        self.count = 0
        self.nonfinite = 0
        self.first_nonfinite: LogLine | None = None
        self._low: tuple[int, float] | None = None
        self._high: tuple[int, float] | None = None

    def add(self, line: LogLine, value: float) -> None:
        point = (line.number, value)
        self.count += 1
        if not math.isfinite(value):
            self.nonfinite += 1
            self.first_nonfinite = self.first_nonfinite or line
        else:
            self._low = point if self._low is None or value < self._low[1] else self._low
            self._high = point if self._high is None or value > self._high[1] else self._high
        self.points.append(point)

    def thin(self) -> None:
        del self.points[1:-1:2]

    def kept(self) -> tuple[tuple[int, float], ...]:
        """At most `MOST_POINTS`, in order."""
        while len(self.points) > MOST_POINTS - 3:
            self.thin()
        extremes = [p for p in (self._low, self._high) if p is not None and p not in self.points]
        if self.first_nonfinite is not None and all(math.isfinite(value) for _, value in self.points):
            extremes.append((self.first_nonfinite.number, math.nan))
        return tuple(sorted([*self.points, *extremes], key=lambda p: p[0]))


class SeriesBook:
    """All series of a log, in bounded memory."""

    def __init__(self) -> None:
        self._series: dict[tuple[int, int | None, str], _Series] = {}
        self._columns: dict[tuple[int, str], Columns] = defaultdict(Columns)
        self._points = 0

    def add(self, line: LogLine) -> None:
        """The metrics in a line, which may have none."""
        named = list(values(line.text))
        if all(name == _BAR for name, _ in named):
            named += self._columns[line.source, line.who].read(line.text)
        for name, value in named:
            key = (line.source, line.rank, name)
            series = self._series.get(key)
            if series is None:
                if len(self._series) >= _MOST_SERIES:
                    continue
                series = self._series[key] = _Series()
            series.add(line, value)
            self._points += 1
        if self._points > _MOST_TOGETHER:
            for series in self._series.values():
                series.thin()
            self._points = sum(len(series.points) for series in self._series.values())

    def series(self) -> list[LogSeries]:
        return [
            LogSeries(name, rank, s.kept(), s.count, s.nonfinite, s.first_nonfinite, source)
            for (source, rank, name), s in self._series.items()
        ]
