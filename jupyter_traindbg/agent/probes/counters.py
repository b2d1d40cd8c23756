"""Plain values in the running code that tell progress: attributes of the actor, or variables of the user's frames."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING, Any, Dict, Iterator, Sequence, Tuple

from .. import reachable
from ..attributes import MISSING, OUR_THREADS, attribute, class_name, is_library, place, threads
from ..saying import Text, said

if TYPE_CHECKING:
    from ..core import Agent

COST = "0.1 ms; reads instance dicts and locals, never a property"
LONGEST = 80


def run(agent: Agent, *, names: Sequence[str] = ()) -> Dict[str, Any]:
    """``{"actor": {"class", "actor_id"} or None, "values": {name: {"value", "from"} or {"missing": why}}}`` for `names` like
    ``"self.games"``.

    ``self`` is the actor of this process, also while it is in ``__init__``; where there is none (a task, a driver), or it has no such
    attribute, and for any other first name, it is looked up among the locals, then the globals, of the user's running frames, innermost
    first, those of the main thread first. (A worker of Ray Train runs the user's function in a thread: name its variables.) A name may
    have several dots, which also step through the text keys of dicts. ``value`` is an int, a float, a bool, None, or a text of 80
    characters at most; for any other object there is the reason why it is not shown. ``from`` says where it was found: ``"actor"`` or
    ``"file:line function"``.
    """
    actor_id, actor = _actor()
    told = None if actor is MISSING else {"class": class_name(actor), "actor_id": actor_id}
    return {"actor": told, "values": {str(name): _value(str(name), actor) for name in names}}


def _actor() -> Tuple[str, Any]:
    """The id and the instance of the actor in this process. Ray puts it there before it calls ``__init__``."""
    module = sys.modules.get("ray._private.worker")
    actors = attribute(vars(module).get("global_worker"), "actors") if module is not None else MISSING
    for ident, instance in list(actors.items()) if type(actors) is dict else []:
        return str(type(ident).hex(ident)), instance
    return "", MISSING


def _value(name: str, actor: Any) -> Dict[str, Any]:
    first, *rest = name.split(".")
    why: Text = ""
    for found, origin in _named(first, actor):
        value = found
        for step in rest:
            value, holder = _step(value, step), value
            if value is MISSING:
                why = why or said("{kind} has no plain attribute {name}", kind=class_name(holder), name=step)
                break
        else:
            return _shown(value, origin)
    return {"missing": why or said("there is no {name} in the user's running functions", name=first)}


def _named(first: str, actor: Any) -> Iterator[Tuple[Any, str]]:
    if first == "self" and actor is not MISSING:
        yield actor, "actor"
    for frame, local in _users_frames():
        if first in local:
            yield local[first], place(frame)
        elif first in frame.f_globals:
            yield frame.f_globals[first], place(frame)


def _users_frames() -> Iterator[Tuple[FrameType, Dict[str, Any]]]:
    frames = reachable.frames_of_others()
    for ident, (name, _) in threads().items():
        if name in OUR_THREADS:
            frames.pop(ident, None)
    main = threading.main_thread().ident
    for ident in sorted(frames, key=lambda ident: ident != main):
        for frame, local in reachable.look_at_stack(frames[ident]):
            if not is_library(frame.f_code.co_filename):
                yield frame, local


def _step(value: Any, name: str) -> Any:
    return dict.get(value, name, MISSING) if type(value) is dict else attribute(value, name)


def _shown(value: Any, origin: str) -> Dict[str, Any]:
    if value is None or type(value) in (int, float, bool):
        return {"value": value, "from": origin}
    if type(value) is str:
        return {"value": value[:LONGEST], "from": origin}
    return {"missing": said("it is no number and no text, but of class {kind}", kind=class_name(value))}


__all__ = ["COST", "run"]
