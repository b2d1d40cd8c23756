"""From where in the program this process issued its collectives: the Python stacks that torch's flight recorder keeps of its calls."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Dict, List

from .. import flight, notebook
from ..saying import Said, said
from .collectives import NOT_IN_USE, dumps, groups

if TYPE_CHECKING:
    from ..core import Agent

COST = "about 25 ms for a full recorder (2000 calls), half of them with the GIL; 1 ms for 100 calls"
COMPILER = "_inductor"
"""torch asks it what compiled code stands for, and imports it where no optimizer, or DDP, has: a second, and 70 MiB of somebody else's."""
NOT_IMPORTED = said("not read: torch would import its compiler into the training for it")
WITH_C_STACKS = ("TORCH_FR_CPP_STACK", "TORCH_NCCL_TRACE_CPP_STACK")
"""Set, the recorder keeps C++ frames, too, and looks up their names in torch's libraries when it is dumped: seconds."""
NO_STACKS = said("the flight recorder has no stacks of collectives")


def run(agent: Agent) -> Dict[str, Any]:
    """What `flight.call_sites` says, with ``note``: why there is nothing. A place is ``[file, line, function]``, of a cell with number."""
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    world = getattr(c10d, "_world", None)
    known = [] if world is None else groups(world)
    if not known:
        return _nothing(NOT_IN_USE)
    slow = next(
        (name for name in WITH_C_STACKS if os.environ.get(name, "0").lower() in ("1", "t", "true", "y", "yes")), None
    )
    if slow is not None:
        return _nothing(
            said(
                "not read: {variable} is set, and the names of C++ frames would be looked up for seconds", variable=slow
            )
        )
    if COMPILER not in vars(sys.modules["torch"]):  # it is there once it has been imported whole
        return _nothing(NOT_IMPORTED)
    cells = notebook.cells()

    def place(frame: Dict[str, Any]) -> List[Any]:
        file, line, function = str(frame.get("filename", "")), int(frame.get("line") or 0), str(frame.get("name", ""))
        return list(notebook.numbered(file, line, function, cells))

    recorded = [content for _, content in dumps(known, stacks=True) if content is not None]
    found = flight.call_sites(recorded, known, place)
    return {**found, "note": "" if found["at"] else NO_STACKS}


def _nothing(note: Said) -> Dict[str, Any]:
    return {"sites": [], "at": {}, "note": note}


__all__ = ["COST", "run"]
