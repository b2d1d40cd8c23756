"""Whose code the frames of a stack are, which of them says where somebody is, and how that is called.

Frames are innermost first, here as everywhere. Python writes them as ``(file, line, function)``; function names may be qualified
(``Queue.get``, Python >= 3.11) or bare (``get``). An agent adds the number of a notebook's cell.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from ..model import Excerpt, Frame

__all__ = [
    "RawFrame",
    "asks_us",
    "at_place",
    "bare",
    "cells_of",
    "frames_of",
    "full_place",
    "inside",
    "library_frame",
    "line_of",
    "own_frames",
    "short_path",
    "short_place",
    "shortened",
    "user_frame",
    "where",
]

RawFrame = tuple[str, int, str]

_CELL = re.compile(r"(.*[/\\]ipykernel_\d+)[/\\]\d+\.py")
_TYPED = re.compile(r"<ipython-input-(\d+)-\w+>")
"""What IPython at a terminal, and kernels before 6, call a cell."""
_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?: (?P<function>.+))?", re.DOTALL)
_STANDARD = re.compile(r"^<|/lib(?:64)?/(?:python|pypy)\d(?:\.\d+)?t?/(?!(?:site|dist)-packages/)|/python\d+\.zip/")
"""The standard library of any interpreter, and generated code (``<frozen ...>``)."""
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/jupyter_traindbg/|/_traindbg_agent/")
"""Installed packages, and our own agent, also from its zip."""
_OF_OUR_AGENT = "/_traindbg_agent/"
_ASKS_US = re.compile(r"/jupyter_traindbg/(?:magics|questions|actions|attach)/")
"""Where a command of ours has its way through: in a process that trains somebody asks there."""
_COMPILED = re.compile(r"^.*/(?P<folder>[a-z2-7]{2})/(?P<name>c(?P=folder)[a-z2-7]{6})[a-z2-7]{43}\.py$")
"""TorchInductor writes what it compiles into its cache, as 51 letters of the SHA-256 in base 32 (torch/_inductor/codecache.py)."""
_TYPED_BY_A_PERSON = ("<string>", "<stdin>", "<console>", "<ipython-input", "<cell")
_INSTALLED = re.compile(r"^.*/(?:(?:site|dist)-packages|lib(?:64)?/python\d+\.\d+t?)/")
_TOLD = re.compile(r"-packages/(?:torch|ray)/")
_STARTS = re.compile(r"/multiprocess(?:ing)?/(?:spawn|forkserver|resource_tracker)\.py$")
"""``python -c "from multiprocessing.spawn import spawn_main; ..."`` begins with a line that nobody typed."""
_AT_THE_FORK = re.compile(r"/multiprocess(?:ing)?/popen_fork\.py$")
_WRITTEN_BY_PYTHON = re.compile(r"^__\w+__$|^_make$")
"""The methods that dataclasses and named tuples write for themselves, as ``<string>``."""
_GATHERS = re.compile(r"-packages/torch/distributed/(?:fsdp|_composable)/")
"""It gathers the parameters of a module where it is called: any line of a model may wait in that, and none of them asked for it."""
_MODULE = re.compile(r"-packages/torch/nn/modules/module\.py$")
_RESUMED = re.compile(r"torch_dynamo_resume_in_(\w+)_at_\d+|<resume in (\w+)>")
"""torch.compile's name for the rest of a function after a graph break, at the function's own lines (torch/_dynamo/resume_execution.py)."""


def cells_of(file: str) -> str | None:
    """What the names that frames in the cells of one kernel have begin with: these are one module, and in no file. None for any other."""
    match = _CELL.fullmatch(file)
    return match[1] if match else None


def library_frame(file: str) -> bool:
    """True for code that the user did not write: installed packages, any interpreter's standard library, and what Python
    (``<frozen ...>``) or a compiler has generated.

    ``<string>`` (``python -c``), ``<stdin>`` and notebook cells are the user's.
    """
    if file.startswith("<"):
        return not file.startswith(_TYPED_BY_A_PERSON)
    return any(kind.search(file) for kind in (_STANDARD, _LIBRARY, _COMPILED))


def frames_of(raw: Iterable[Sequence[Any]]) -> tuple[Frame, ...]:
    """A stack as Python, or an agent, tells it, with what is known of each frame from its neighbours, too."""
    told = list(raw)
    stack: list[RawFrame] = [(str(file), int(line), str(function)) for file, line, function, *_ in told]
    typed = any(
        f[0] == "<string>" and f[2] == "<module>" and not _starts_a_child(stack, n) for n, f in enumerate(stack)
    )
    return tuple(
        Frame(
            file,
            line,
            _named(function),
            library_frame(file) or (file == "<string>" and _nobodys(stack, i, typed=typed)),
            next(iter(told[i][3:]), _typed_as(file)),
        )
        for i, (file, line, function) in enumerate(stack)
    )


def _typed_as(file: str) -> int | None:
    match = _TYPED.fullmatch(file)
    return int(match[1]) if match else None


def _nobodys(stack: Sequence[RawFrame], i: int, *, typed: bool) -> bool:
    """Whether no person typed the ``<string>`` at `i`: the start of a child process, or a method that Python or a library has written, as
    those of a manager's proxies, where a file of the user's calls it. `typed`: the program itself is a ``<string>``.
    """
    if _starts_a_child(stack, i):
        return True
    called_by = stack[i + 1][0] if i + 1 < len(stack) else "<string>"
    if _WRITTEN_BY_PYTHON.match(bare(stack[i][2])):
        return called_by != "<string>"
    return not typed and not called_by.startswith("<") and not library_frame(called_by)


def _starts_a_child(stack: Sequence[RawFrame], i: int) -> bool:
    return i > 0 and _STARTS.search(stack[i - 1][0]) is not None


def _named(function: str) -> str:
    return _RESUMED.sub(lambda found: found[1] or found[2], function)


def bare(function: str) -> str:
    """``Queue.get`` as Python before 3.11 has it: ``get``."""
    return function.rsplit(".", 1)[-1]


# --- where somebody is ----------------------------------------------------------------------------------------------------


def asks_us(frames: Sequence[Frame]) -> bool:
    """Whether a thread runs one of our commands, as a notebook's does that asks about its own kernel: it trains nothing meanwhile."""
    return any(_ASKS_US.search(frame.file) for frame in frames)


def own_frames(frames: Sequence[Frame]) -> Sequence[Frame]:
    """Without what a forked process inherited: below its start lie its parent's frames, which say nothing of it."""
    fork = (i for i, f in enumerate(frames) if bare(f.function) == "_launch" and _AT_THE_FORK.search(f.file))
    return frames[: next(fork, len(frames))]


def user_frame(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame of the user's code."""
    return next((f for f in own_frames(frames) if not f.library), None)


def where(frames: Sequence[Frame]) -> Frame | None:
    """The one frame that says where a thread is: the user's innermost; of library code alone the innermost of an installed package, for
    which Python's own sockets and queues merely work. None of an empty stack.

    A wait for the parameters of a sharded model is where the program has called the model.
    """
    here = own_frames(frames)
    packages = (f for f in here if not _STANDARD.search(f.file))
    return _calls_the_model(here) or user_frame(frames) or next(packages, here[0] if here else None)


def _calls_the_model(frames: Sequence[Frame]) -> Frame | None:
    """The user's frame that called the outermost module; None where no parameters are being gathered."""
    inner = next((i for i, f in enumerate(frames) if not f.library), len(frames))
    if not any(_GATHERS.search(f.file) for f in frames[:inner]):
        return None
    outermost = max((i for i, f in enumerate(frames) if _MODULE.search(f.file)), default=len(frames))
    return next((f for f in frames[outermost:] if not f.library), None)


def inside(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame of a package within the user's line, whose call is under way there: ``requests/adapters.py:589 send``. None
    where that is torch's or Ray's, which the words of a wait tell, or Python's own.
    """
    for frame in own_frames(frames):
        if not frame.library:
            return None
        if not _STANDARD.search(frame.file) and not _TOLD.search(frame.file):
            return frame
    return None


# --- how that is called --------------------------------------------------------------------------------------------------


def short_path(frame: Frame, *, name_only: bool = False) -> str:
    """A library's file from its package on (``torch/nn/modules/module.py``); the user's in full, or by name only."""
    if frame.library:
        return _COMPILED.sub(r"torchinductor/\g<name>….py", _INSTALLED.sub("", frame.file))
    return os.path.basename(frame.file) or frame.file if name_only else frame.file


def of_our_agent(frames: Sequence[Frame]) -> bool:
    """Whether a thread is one that our agent has started."""
    return any(_OF_OUR_AGENT in f.file for f in frames) and all(f.library for f in frames)


def line_of(at: Frame | Excerpt, path: str = "") -> str:
    """``/home/ada/train.py:42``, with another `path` where that is given; of a notebook's cell ``In [4], line 11``, with a question mark
    where its number is not known.
    """
    if at.cell is not None or cells_of(at.file) is not None:
        return f"In [{'?' if at.cell is None else at.cell}], line {at.line}"
    return f"{path or at.file}:{at.line}"


def short_place(frame: Frame) -> str:
    """``train.py:42 train_step``, ``torch/nn/modules/linear.py:125 Linear.forward``: how a sentence says it."""
    return f"{line_of(frame, short_path(frame, name_only=True))} {frame.function}"


def full_place(frame: Frame) -> str:
    """``/home/ada/train.py:42 train_step``: where a finding points."""
    return f"{line_of(frame)} {frame.function}"


def at_place(place: str) -> Frame | None:
    """The frame of which `full_place` says so; None of a cell's, whose file is not in it, and of words that are no place."""
    match = _PLACE.fullmatch(place)
    return match and Frame(match["file"], int(match["line"]), match["function"] or "", library_frame(match["file"]))


def shortened(place: str) -> str:
    """What `full_place` says, as a sentence says it: ``train.py:42 train_step``."""
    frame = at_place(place)
    return place if frame is None else f"{os.path.basename(frame.file)}:{frame.line} {frame.function}".rstrip()
