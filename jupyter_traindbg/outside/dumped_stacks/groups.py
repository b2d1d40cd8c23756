"""What a rank was told that is on its way into a process group, and which group it makes beside the default one: by the locals of torch's
own frames, where they were dumped. A live rank is asked the same (`agent.probes.joining`).
"""

from __future__ import annotations

import json

from ...agent.probes.joining import GROUP, INIT, MAKERS, STORE
from ...frames.whose import bare
from ...model import Joining, Making
from .told import ToldThread

__all__ = ["C10D", "joining", "making"]

C10D = "torch/distributed/distributed_c10d.py"
_FILES = (C10D, "torch/distributed/rendezvous.py")
_TOLD = ({"address": "hostname", "port": "port"}, {"address": "master_addr", "port": "master_port"})
"""What the frames on the way to the store call where they are to meet."""


def joining(main: ToldThread) -> Joining | None:
    """None of a thread that is not in ``init_process_group``, and where none of its locals tell."""
    inside = _inside(main)
    if INIT not in inside:
        return None
    told = [
        inside[INIT],
        *(variables for function, variables in inside.items() if function != INIT),
        inside.get(STORE, {}),
    ]
    rank, world_size = _number(told, "rank"), _number(told, "world_size")
    places = [(_word(told, names["address"]), _number(told, names["port"])) for names in _TOLD]
    address, port = next((place for place in places if place[0]), (None, None))
    if rank is None and world_size is None and address is None:
        return None
    return Joining(rank, world_size, address, port, _word(told[:1], "backend"), serves=rank == 0)


def making(main: ToldThread) -> Making | None:
    """By the outermost of torch's functions that knows both the group's name and its ranks. None of one that makes the default group."""
    inside = _inside(main)
    if INIT in inside:
        return None
    known = [(variables.get(GROUP, ""), variables.get(MAKERS[f], "")) for f, variables in inside.items() if f in MAKERS]
    found = [group for name, ranks in known if (group := _group(name, ranks)) is not None]
    return found[-1] if found else None


def _inside(main: ToldThread) -> dict[str, dict[str, str]]:
    """The functions of torch.distributed that it is in, with their locals, the innermost first."""
    frames = zip(main.frames, main.variables, strict=False)
    return {bare(frame.function): variables for frame, variables in frames if frame.file.endswith(_FILES)}


def _group(name: str, ranks: str) -> Making | None:
    """A long list is cut off in a dump, and then tells nothing."""
    try:
        members = json.loads(ranks)
    except ValueError:
        return None
    told = bool(members) and isinstance(members, list) and all(isinstance(rank, int) for rank in members)
    return Making(_plain(name), tuple(members)) if told and name and name != "None" else None


def _number(told: list[dict[str, str]], name: str) -> int | None:
    """The last that is one; -1 says that it was not given."""
    values = [variables[name] for variables in told if name in variables]
    known = [int(value) for value in values if value.isdigit() and len(value) < 8]
    return known[-1] if known else None


def _word(told: list[dict[str, str]], name: str) -> str | None:
    values = [_plain(variables[name]) for variables in told if name in variables]
    known = [value for value in values if value and value != "None" and not value.startswith("<")]
    return known[-1] if known else None


def _plain(value: str) -> str:
    return value.strip("\"'")
