"""How verdicts speak of places, commands and times, in both languages. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from ...frames import whose
from ...language import text
from ...model import Frame

__all__ = ["alike", "and_list", "command_words", "place", "seconds", "short_place", "span"]

LONGEST_COMMAND = 80
T = TypeVar("T")


def place(frame: Frame | None) -> str | None:
    """``/home/ada/train.py:42 train_step``: where a finding points."""
    return None if frame is None else whose.full_place(frame)


def short_place(frame: Frame | None) -> str:
    """``train.py:42 train_step``: how a sentence says it."""
    return whose.short_place(frame) if frame is not None else text("a place that could not be read", "无法读取的位置")


def command_words(command: str) -> str:
    """A command line within a sentence: on one line, and not too long."""
    words = " ".join(command.split())
    return words if len(words) <= LONGEST_COMMAND else f"{words[: LONGEST_COMMAND - 3]}..."


def seconds(value: float) -> str:
    """``40 ms``, ``0.8 s``, ``12 s``, ``3 min 5 s``, ``2 h 10 min``."""
    if value < 0.0995:
        return text(f"{value * 1000:.0f} ms", f"{value * 1000:.0f} 毫秒")
    if value < 9.95:
        return text(f"{value:.1f} s", f"{value:.1f} 秒")
    whole = round(value)
    if whole < 60:
        return text(f"{whole} s", f"{whole} 秒")
    if whole < 3600:
        return text(f"{whole // 60} min {whole % 60} s", f"{whole // 60} 分 {whole % 60} 秒")
    return text(f"{whole // 3600} h {whole % 3600 // 60} min", f"{whole // 3600} 小时 {whole % 3600 // 60} 分")


def span(value: float) -> str:
    """``41.3 ms``, ``1.05 s``: what a part of a step takes."""
    return f"{value * 1000:.1f} ms" if value < 1 else f"{value:.2f} s"


def and_list(items: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(items) < 2:
        return "".join(items)
    return text(f"{', '.join(items[:-1])} and {items[-1]}", f"{'、'.join(items[:-1])}和{items[-1]}")


def alike(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Items with the same key together, in the order in which the keys first appear."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())
