"""How verdicts speak of places and commands, in both languages. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from ...command_lines import program
from ...frames import whose
from ...language import text
from ...model import Frame, HostPid

__all__ = [
    "alike",
    "and_list",
    "command_words",
    "notice_in_the_driver",
    "on_rank",
    "place",
    "process_words",
    "program_words",
    "short_place",
]

LONGEST_COMMAND = 80
_END_OF_PATH = re.compile(r"^/.*/([^/]+/[^/]+)$")
_ON_RANK = re.compile(r"rank|is_main|is_master|is_global_zero|is_world_process_zero|primary", re.IGNORECASE)
T = TypeVar("T")


def place(frame: Frame | None) -> str | None:
    """``/home/ada/train.py:42 train_step``: where a finding points."""
    return None if frame is None else whose.full_place(frame)


def short_place(frame: Frame | None) -> str:
    """``train.py:42 train_step``: how a sentence says it."""
    return whose.short_place(frame) if frame is not None else text("a place that could not be read")


def on_rank(condition: str) -> bool:
    """Whether a condition, as it is written, asks which rank this is."""
    return _ON_RANK.search(condition) is not None


def command_words(command: str) -> str:
    """A command line within a sentence: on one line, and not too long. Of one that is too long, the program at least is told, without the
    directories in which it lies.
    """
    words = command.split()
    whole = " ".join(words)
    if len(whole) <= LONGEST_COMMAND:
        return whole
    program_file = [_END_OF_PATH.sub(r"\1", word) for word in words[1:2]]
    short = " ".join([words[0].rpartition("/")[2], *program_file, *words[2:]])
    return short if len(short) <= LONGEST_COMMAND else f"{short[: LONGEST_COMMAND - 3]}..."


def program_words(command: str) -> str:
    """What a command line runs: ``engine.py``, ``vllm.entrypoints.openai.api_server``, ``gzip``."""
    parts = command.split()
    own = "".join(parts[:1]).rpartition("/")[2]
    if not own.startswith("python"):
        return own or command
    name = program(parts)[1].rpartition("/")[2]
    return name or ("multiprocessing" if "multiprocessing" in command else own)


def process_words(process: HostPid, runs: str, who: str) -> str:
    """``process 4711 (engine.py) on node2``; without what it `runs` where that is empty; ``Reward[0] (process 4711)`` of one that its job
    calls so.
    """
    host, pid = process
    if who and host:
        return text("{who} (process {pid} on {host})", who=who, pid=pid, host=host)
    if who:
        return text("{who} (process {pid})", who=who, pid=pid)
    if host:
        return text("process {pid}{runs} on {host}", pid=pid, runs=runs, host=host)
    return text("process {pid}{runs}", pid=pid, runs=runs)


def notice_in_the_driver() -> str:
    """What to do so that a call of Ray's which failed on one of several is seen."""
    return text(
        "Let the driver notice: take results as they come, `ray.wait(refs, num_returns=1)`, and end the others when one has failed."
    )


def and_list(items: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(items) < 2:
        return "".join(items)
    return text("{items} and {items2}", items=", ".join(items[:-1]), items2=items[-1], items3="、".join(items[:-1]))


def alike(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Items with the same key together, in the order in which the keys first appear."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())
