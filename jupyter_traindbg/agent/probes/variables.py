"""The variables of the functions that the training thread is in, innermost first: what the line that waits may be waiting for, and what is
different on one rank alone.
"""

from __future__ import annotations

import itertools
import sys
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from .. import values
from ..attributes import attributes, class_name, is_library
from ..reachable import CO_OPTIMIZED, OUTPUT, frames_of_others, look_at_stack
from ..training_thread import training_thread

if TYPE_CHECKING:
    from ..core import Agent

COST = "0.5 ms of the GIL for a few functions, 14 ms the first time; reads no tensor, runs no code of the program's"
MOST_FRAMES = 16
MOST_VARIABLES = 64
"""Of each function."""
LOCK_FILE = "lock_filename"
"""What the package filelock calls the file that it waits for, in all of its versions."""
BATON_FILE = "lock_file_path"
"""And torch's FileBaton, as an attribute of itself."""
MOST_ERRORS, MOST_ARGS = 3, 4
"""So many exceptions, and of each so many arguments."""
_args_of: Any = BaseException.__dict__["args"].__get__
_traceback_of: Any = BaseException.__dict__["__traceback__"].__get__
_context_of: Any = BaseException.__dict__["__context__"].__get__
"""Past what a class of the program's own may have made of these."""
_HIDDEN = ("In", "Out", "get_ipython", "exit", "quit")
Variables = List[Tuple[str, Any]]


def run(agent: Agent) -> Dict[str, Any]:
    """``{"frames": [...], "handled": ...}``, the frames of the program's own functions, and of those that wait for a lock file: ``file``,
    ``line``, ``function``, and ``depth``, which counts all frames from the innermost, 0, outwards.

    ``reach``: from which line and column to which the expression reaches that is under way there, as Python 3.11 and later know it, else
    None. ``variables`` are ``[name, value]`` by their names, with values as `values.Teller` has them; ``globals`` those variables of its
    module that the function names.

    ``handled`` are the exceptions in whose ``except`` or ``finally`` the thread is, the innermost first, as far as Python 3.10 and later
    know them: of each the name of its ``type``, what it was given as ``args``, and ``at`` where it was raised: file, line, function.
    """
    training = training_thread(agent)
    innermost = frames_of_others().get(training) if training is not None else None
    if innermost is None:
        return {"frames": [], "handled": []}
    stack = enumerate(look_at_stack(innermost))
    wanted = ((depth, frame, local) for depth, (frame, local) in stack if _is_wanted(frame))
    return {"frames": [_told(*one) for one in itertools.islice(wanted, MOST_FRAMES)], "handled": _handled(training)}


def _handled(thread: Optional[int]) -> List[Dict[str, Any]]:
    of_threads: Any = getattr(sys, "_current_exceptions", dict)
    known = of_threads().get(thread)
    error = known[1] if isinstance(known, tuple) else known  # a tuple until Python 3.11
    told: List[Dict[str, Any]] = []
    while error is not None and len(told) < MOST_ERRORS:
        told.append(_error(error))
        error = _context_of(error)
    return told


def _error(error: Any) -> Dict[str, Any]:
    raised, teller = _traceback_of(error), values.Teller()
    while raised is not None and raised.tb_next is not None:
        raised = raised.tb_next
    code = None if raised is None else raised.tb_frame.f_code
    return {
        "type": class_name(error),
        "args": [teller.told(one) for one in _args_of(error)[:MOST_ARGS]],
        "at": None
        if code is None
        else [code.co_filename, raised.tb_lineno, getattr(code, "co_qualname", code.co_name)],
    }


def _is_wanted(frame: FrameType) -> bool:
    return not is_library(frame.f_code.co_filename) or _waits_for_a_file(frame)


def _waits_for_a_file(frame: FrameType) -> bool:
    home = str(frame.f_globals.get("__name__"))
    if home == "torch.utils.file_baton":
        return frame.f_code.co_name == "wait"
    return LOCK_FILE in frame.f_code.co_varnames and home.startswith("filelock")


def _lock_file(local: Dict[str, Any]) -> Dict[str, Any]:
    if LOCK_FILE in local:
        return {LOCK_FILE: local[LOCK_FILE]}
    return {BATON_FILE: attributes(local.get("self")).get(BATON_FILE)}


def _told(depth: int, frame: FrameType, local: Dict[str, Any]) -> Dict[str, Any]:
    code = frame.f_code
    if _waits_for_a_file(frame):
        local = _lock_file(local)
    of_function = code.co_flags & CO_OPTIMIZED or frame.f_locals is not frame.f_globals
    return {
        "file": code.co_filename,
        "line": frame.f_lineno or code.co_firstlineno,
        "function": getattr(code, "co_qualname", None) or code.co_name,
        "depth": depth,
        "reach": _reach(code, frame.f_lasti),
        "variables": _variables(local, outputs=bool(of_function)),
        "globals": _variables({n: frame.f_globals[n] for n in code.co_names if n in frame.f_globals}, outputs=False)
        if of_function
        else [],
    }


def _variables(namespace: Dict[str, Any], *, outputs: bool) -> Variables:
    """Small values first. Without modules, functions that were defined there, and, but for `outputs`, the names under which IPython keeps
    the outputs of its cells.
    """
    teller = values.Teller()
    shown = [pair for pair in list(namespace.items()) if _is_shown(pair[0], outputs)]
    shown.sort(key=lambda pair: type(pair[1]) not in values.PLAIN)
    told = ((name, teller.told(value)) for name, value in shown)
    return list(itertools.islice((pair for pair in told if not _is_called_so(*pair)), MOST_VARIABLES))


def _is_shown(name: Any, outputs: bool) -> bool:
    if type(name) is not str or name.startswith("__") or name in _HIDDEN:
        return False
    return outputs or not OUTPUT.fullmatch(name)


def _is_called_so(name: str, told: Any) -> bool:
    """Whether that is merely what the program calls a module or a function of its own."""
    return isinstance(told, dict) and (told["is"] == "module" or (told["is"] == "function" and told["words"] == name))


def _reach(code: CodeType, lasti: int) -> Optional[List[int]]:
    positions = getattr(code, "co_positions", None)
    if positions is None or lasti < 0:
        return None
    reach = next(itertools.islice(positions(), lasti // 2, None), (None,) * 4)
    known = [number for number in reach if number is not None]
    return [known[0], known[2], known[1], known[3]] if len(known) == 4 else None


__all__ = ["COST", "run"]
