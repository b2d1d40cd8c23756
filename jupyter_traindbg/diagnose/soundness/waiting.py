"""A line of the user's at which the training thread waits for much of the time, with the CPU idle: a file, a network, a child process.

A plain sleep in a loop is what somebody wants, and is told without a finding; one in a function that makes data is not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ...frames.whose import user_frame
from ...language import later, text
from ...model import Finding, Frame, NotAvailable, Place, Sampled, Soundness, rank_subjects
from ..hang.case import Case, Hit, View
from ..hang.words import place, short_place
from .seen import seen, unseen

__all__ = ["CODES", "TOPIC", "VERB", "rule", "words"]

TOPIC = later("waiting")
VERB = "slow"
CODES = frozenset({"host_wait"})

SHARE, LEAST_LOOKS = 0.3, 15
_CALLS = {
    "nanosleep": later("sleeps"),
    "clock_nanosleep": later("sleeps"),
    "read": later("reads a file or pipe"),
    "pread64": later("reads a file"),
    "openat": later("opens files"),
    "write": later("writes a file or pipe"),
    "fsync": later("writes to the disk"),
    "fdatasync": later("writes to the disk"),
    "recvfrom": later("waits for the network"),
    "recvmsg": later("waits for the network"),
    "connect": later("waits for a connection"),
    "accept4": later("waits for a connection"),
    "wait4": later("waits for a child process"),
    "waitid": later("waits for a child process"),
    "flock": later("waits for a file lock"),
}
"""Waits that a program asks for itself. A futex is left out: it may be the GIL, or a wait for other ranks or a GPU."""
_SLEEPS = ("nanosleep", "clock_nanosleep")
_DATA = re.compile(
    r"__getitem__|__iter__|__next__|batch|collate|data|sample|load|fetch|read|token|augment|transform|decode",
    re.IGNORECASE,
)
"""How functions are called that make data."""
_LIBRARIES_WAITS = ("torch/", "ray/")
"""What waits inside of these is told by the rules of hangs and of data."""


@dataclass(frozen=True)
class _Wait:
    view: View
    frame: Frame
    call: str
    share: float


def rule(case: Case) -> list[Hit]:
    """The ranks that make steps and yet wait at one line for much of the time."""
    waits = [w for v, s in seen(case) if s.steps_in_window and (w := _longest(v, s)) and w.share >= SHARE]
    found = [w for w in waits if w.call not in _SLEEPS or _DATA.search(w.frame.function)]
    if not found:
        return []
    worst = max(found, key=lambda w: w.share)
    does = _does(worst)
    finding = Finding(
        "host_wait",
        "warning",
        text(
            "The training thread {does} at {short_place} for {share:.0%} of the time",
            does=does,
            short_place=short_place(worst.frame),
            share=worst.share,
        ),
        rank_subjects(w.view.rank for w in found),
        place(worst.frame),
        [
            text(
                "rank {rank}: {does} at {short_place}, {share:.0%} of the time, the CPU idle",
                rank=w.view.rank,
                does=_does(w),
                short_place=short_place(w.frame),
                share=w.share,
            )
            for w in found[:8]
        ],
        text("Nothing is trained while this line waits."),
        [
            text(
                "Take it out of the loop, or do it beside the training: a DataLoader with workers for data, a "
                "thread for writing."
            )
        ],
    )
    return [Hit(finding, [w.view.rank for w in found])]


def words(case: Case) -> str | NotAvailable:
    """The longest wait of any rank."""
    ranks = [(v, s) for v, s in seen(case) if _sampled(s)]
    if not ranks:
        return unseen(case)
    waits = [w for v, s in ranks if (w := _longest(v, s))]
    worst = max(waits, key=lambda w: w.share, default=None)
    if worst is None or worst.share < 0.01:
        return text("at no line of its own")
    return text(
        "{share:.0%} of the time, mostly at {short_place}", share=worst.share, short_place=short_place(worst.frame)
    )


def _sampled(sound: Soundness) -> Sampled | None:
    """Where there are enough looks to speak of shares."""
    return sound.sampled if isinstance(sound.sampled, Sampled) and sound.sampled.looks >= LEAST_LOOKS else None


def _longest(view: View, sound: Soundness) -> _Wait | None:
    sampled = _sampled(sound)
    if sampled is None:
        return None
    idle: Counter[tuple[Frame, str]] = Counter()
    for one in sampled.places:
        frame = _waits_at(one)
        if frame is not None and not isinstance(one.idle_s, NotAvailable):
            idle[frame, one.call] += round(one.idle_s * 1e6)
    if not idle:
        return None
    (frame, call), microseconds = idle.most_common(1)[0]
    return _Wait(view, frame, call, microseconds / 1e6 / sampled.wall_s)


def _waits_at(one: Place) -> Frame | None:
    """The user's line that asked for the wait; None where it waits for something else, or within a library that has its own rules."""
    frame = user_frame(one.frames) if one.call in _CALLS else None
    if frame is None:
        return None
    inner = _within(one.frames, frame)
    return None if any(part in f.file for f in inner for part in _LIBRARIES_WAITS) else frame


def _within(frames: Sequence[Frame], frame: Frame) -> Sequence[Frame]:
    return frames[: list(frames).index(frame)]


def _does(wait: _Wait) -> str:
    return text(_CALLS[wait.call])
