"""When was a line written? The timestamps that loggers, launchers and container runtimes put before their lines."""

from __future__ import annotations

import calendar
import re

__all__ = ["Clock"]

_ANY = re.compile(r"\d\d:\d\d:\d\d")
_HEAD = 110
"""A timestamp further into the line is somebody's data."""

_TIME = r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?"
_ZONE = r"(?: ?(?P<z>Z|UTC|[+-]\d\d:?\d\d)\b)?"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FORMS = tuple(
    re.compile(form)
    for form in (
        rf"(?<!\d)(?P<Y>\d{{4}})[-/.](?P<M>\d\d)[-/.](?P<D>\d\d)(?:T| +|[:_-]){_TIME}{_ZONE}",  # ISO 8601 and its relatives
        rf"(?<!\d)(?P<M>\d\d)/(?P<D>\d\d)/(?P<Y>\d{{4}}),? {_TIME}",  # logging's American form
        rf"(?<!\d)(?P<y>\d\d)/(?P<M>\d\d)/(?P<D>\d\d) {_TIME}",  # Spark, rich
        rf"\b(?P<b>[A-Z][a-z]{{2}}) +(?P<D>\d{{1,2}}) {_TIME}(?: (?P<Y>\d{{4}}))?",  # syslog, dmesg -T, ctime
        rf"(?:^|[^\w])[IWEFVC](?P<M>\d{{1,2}})(?P<D>\d\d) {_TIME}",  # glog: torch, gRPC, Ray's C++ parts
        rf"(?<![\d-])(?P<M>\d\d)-(?P<D>\d\d) {_TIME}",  # vLLM
        rf"^\W{{0,2}}{_TIME}(?![\d:<])",
    )
)


class Clock:
    """Reads the times of one source's lines, in their order. `year` is assumed where a date has none, until one with a year is seen."""

    def __init__(self, year: int) -> None:
        self._year = year
        self._midnight: float | None = None

    def read(self, text: str) -> float | None:
        """Seconds since the epoch (UTC where no zone is written), or since midnight while no date was seen; None without a timestamp."""
        head = text[:_HEAD]
        if _ANY.search(head) is None:
            return None
        for form in _FORMS:
            match = form.search(head)
            if match is not None:
                return self._seconds(match.groupdict())
        return None

    def _seconds(self, seen: dict[str, str | None]) -> float | None:
        hour, minute, second = (int(seen[k] or 0) for k in "hms")
        if hour > 23 or minute > 59 or second > 60:
            return None
        of_day = hour * 3600 + minute * 60 + second + float(f"0.{seen['f'] or 0}")
        if not seen.get("D"):
            return of_day if self._midnight is None else self._midnight + of_day
        midnight = self._day(seen)
        if midnight is None:
            return None
        self._midnight = midnight
        return midnight + of_day - _offset_s(seen.get("z"))

    def _day(self, seen: dict[str, str | None]) -> float | None:
        name = (seen.get("b") or "").lower()
        month = _MONTHS.index(name) + 1 if name in _MONTHS else int(seen.get("M") or 0)
        day = int(seen.get("D") or 0)
        if not (1 <= month <= 12 and 1 <= day <= 31):
            return None
        if seen.get("Y"):
            self._year = int(seen["Y"] or 0)
        elif seen.get("y"):
            self._year = 2000 + int(seen["y"] or 0)
        return float(calendar.timegm((self._year, month, day, 0, 0, 0)))


def _offset_s(zone: str | None) -> float:
    if zone is None or zone in ("Z", "UTC"):
        return 0.0
    digits = zone[1:].replace(":", "")
    return (1 if zone[0] == "+" else -1) * (int(digits[:2]) * 3600 + int(digits[2:]) * 60)
