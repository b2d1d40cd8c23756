"""Command lines and paths in the room that there is: what tells a job from others stays, what all have in common goes. Pure functions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..command_lines import launched_by, program, words

__all__ = ["same_program", "short_command", "short_path"]

_SCRIPT = re.compile(r"[^-].*\.(py|sh)")
_HOW_MANY = re.compile(r"--?(nproc[-_]per[-_]node|nnodes|num[-_](processes|gpus|nodes|machines))(=.*)?")
"""A launcher's options that say how many ranks there are."""
_OWN_NUMBER = re.compile(r"--local[-_]rank(=\d+| \d+)?(?= |$)")
_NO_WORK = re.compile(r"\s*(from\s|import\s|#|$)")
_LEAST = 12
"""Characters that arguments need to say anything; at the cost of a launcher's options they have twice that."""


def short_command(line: str, room: int) -> str:
    """A command line in `room` characters: the interpreter without its directory and options, the end of the script's path, as much of a
    launcher's options and of the arguments as there is room for. The script's name stays whole, also where it alone is longer than `room`.
    """
    parts = _parts(line)
    arguments = " ".join(parts.arguments)
    leads = list(_leads(parts, room))
    for lead, least in leads:
        left = room - len(lead) - bool(arguments)
        if left >= min(len(arguments), least):
            return f"{lead} {_cut(arguments, left)}".strip()
    if not parts.script:
        return _cut(parts.head, room)
    return next((f"{lead} …" for lead, _ in leads if len(lead) + 2 <= room), leads[-1][0])


def short_path(path: str, room: int) -> str:
    """A path in `room` characters: as much of its end as fits. The file's name stays whole, also where it alone is longer."""
    names = path.split("/")
    tails = [path, *("…/" + "/".join(names[n:]) for n in range(1, len(names)))]
    return next((tail for tail in tails if len(tail) <= room), names[-1])


def same_program(line: str, other: str) -> bool:
    """Whether the command line of a rank says no more than its launcher's: the same program and arguments, but for its own number."""
    if "multiprocessing" in line[:200]:
        return True  # it goes on with what the launcher has loaded
    rank, launcher = _parts(_OWN_NUMBER.sub("", line)), _parts(other)
    return (rank.script, list(rank.arguments)) == (launcher.script, list(launcher.arguments))


# --- what a command line consists of --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Parts:
    """``head`` is the interpreter or the launcher, ``options`` are the launcher's own, ``script`` is a path, or ``-m`` and a module."""

    head: str
    script: str
    arguments: Sequence[str]
    options: Sequence[str] = ()


@lru_cache(maxsize=64)  # hundreds of ranks have the same one
def _parts(line: str) -> _Parts:
    command = words(line)
    first = os.path.basename(command[0]) if command else ""
    if "python" not in first:
        return _Parts(first, "", command[1:])
    launcher = launched_by(command)
    if launcher is not None:
        return _launched(*launcher)
    kind, name, arguments = program(command)
    if not kind:
        return _Parts("python", "", _inline(command))
    folder, base = os.path.split(name)
    if "ipykernel" in base:
        return _Parts("ipykernel", "", ())  # its arguments are about its connection
    if os.path.basename(folder) == "bin" and "." not in base:
        return _Parts(base, "", arguments)  # an installed command
    return _Parts("python", f"-m {name}" if kind == "module" else name, arguments)


def _launched(head: str, words: Sequence[str]) -> _Parts:
    """Of a launcher's words. Where no script can be told from its options, all of them are arguments."""
    for i, word in enumerate(words):
        if word in ("-m", "--module") and i + 1 < len(words):
            return _Parts(head, f"-m {words[i + 1]}", words[i + 2 :], words[:i])
        if _SCRIPT.fullmatch(word):
            return _Parts(head, word, words[i + 1 :], words[:i])
    return _Parts(head, "", words)


def _inline(command: Sequence[str]) -> Sequence[str]:
    """The arguments of a Python that runs no file, of its program (``-c``) only the first line that does something."""
    if "-c" not in command[:-1]:
        return command[1:]
    at = command.index("-c") + 1
    lines = [line.strip() for line in re.split("[;\n]", command[at])]
    does = next((line for line in lines if not _NO_WORK.match(line)), lines[0])
    return ["-c", *(["…"] if does != command[at].strip() else []), does, *command[at + 1 :]]


# --- and in how little room it is told ------------------------------------------------------------------------------


def _leads(parts: _Parts, room: int) -> Iterator[tuple[str, int]]:
    """What may stand before the arguments, with ever less of a launcher's options and of the script's path; and for how many characters of
    arguments at least: all of the launcher's options only where the arguments are whole, too.
    """
    script, few = _tail(parts.script), _how_many(parts.options)
    gap = [] if script.startswith("…") or not parts.options else ["…"]
    if parts.options:
        yield " ".join([parts.head, *parts.options, script]), room
        yield " ".join([parts.head, *few, *(gap if len(few) < len(parts.options) else []), script]), 2 * _LEAST
    name = os.path.basename(parts.script)
    for said in ([parts.head, *gap, script], [parts.head, name], [name or parts.head]):
        yield " ".join(word for word in said if word), _LEAST


def _how_many(options: Sequence[str]) -> list[str]:
    found: list[str] = []
    for i, word in enumerate(options):
        if _HOW_MANY.fullmatch(word):
            found += [word] if "=" in word else options[i : i + 2]
    return found


def _tail(script: str) -> str:
    """A script's path from its package on, or its last directory."""
    packaged = re.split("/(?:site|dist)-packages/", script)
    short = "…/" + "/".join(script.split("/")[-2:])
    return packaged[-1] if len(packaged) > 1 else short if len(short) < len(script) else script


def _cut(text: str, room: int) -> str:
    """`text` with as much of its middle left out as has to be, between two options (two words, where there are none) if they are short."""
    if len(text) <= room:
        return text
    borders = [match.start() for match in re.finditer(" (?=-)" if " -" in text else " ", text)]
    ends = [text[at:] for at in borders if len(text) - at <= room // 3]
    end = ends[0] if ends else "" if borders else text[len(text) - room // 3 :]
    left = room - 1 - len(end)
    starts = [text[: at + 1] for at in borders if _LEAST <= at < left]
    return f"{starts[-1] if starts else text[:left]}…{end}"
