"""Every object that can be reached from running frames, or that the garbage collector tracks, without harming what is looked at.

The values are held only while the caller iterates, and tensors never: a step's activations must be freed when the step is done with them.
"""

from __future__ import annotations

import dis
import functools
import gc
import itertools
import re
import sys
import threading
import types
from collections import deque
from typing import Any, Callable, Container, Deque, Dict, Iterator, List, Set, Tuple

from . import notebook
from .attributes import attributes, class_name

CO_OPTIMIZED = 0x1
OUTPUT = re.compile(r"_+|_\d+|_oh")
"""The names by which IPython keeps what cells have shown."""
ATTRIBUTE_DEPTH = 3
MOST_OBJECTS = 20_000
MOST_ITEMS = 64
LEAVES = (
    type,
    types.ModuleType,
    types.BuiltinFunctionType,
    types.CodeType,
    types.FrameType,
    str,
    bytes,
    bool,
    int,
    float,
    type(None),
)
OURS = (
    __package__,
    f"{__package__}.probes",
    f"{__package__}.actions",
    f"{__package__}.checkpoint",
    f"{__package__}.growth",
)
"""Packages whose frames hold objects only because somebody asked for them."""
EVENTS = ("RESUME", "RETURN", "YIELD", "GEN_START", "RETURN_GENERATOR")
"""Where a frame stands when a profiler or tracer written in Python is called for it, other than at a line."""


def from_frames() -> Iterator[Any]:
    """What the locals and globals of all running frames hold, by a few attributes, nearest first. About 1 us an object.

    Without what IPython keeps of the outputs of earlier cells.
    """
    main = vars(sys.modules["__main__"])
    seen: Set[int] = {id(main), *map(id, notebook.shelves())}
    queue: Deque[Tuple[Any, int]] = deque()
    leaves = _leaves()
    is_leaf: Dict[int, bool] = {}  # by id: a metaclass may run user code when its class is hashed or compared

    def add(values: List[Any], depth: int) -> None:
        for value in values:
            cls = type(value)
            if id(cls) not in is_leaf:
                is_leaf[id(cls)] = issubclass(cls, leaves)
            if not is_leaf[id(cls)] and id(value) not in seen:
                seen.add(id(value))
                queue.append((value, depth))

    namespaces = _look_at_frames(lambda values: add(values, 0))
    for namespace in [main, *namespaces]:
        add([value for _, value in _variables(namespace)], 0)
    while queue and len(seen) < MOST_OBJECTS:
        value, depth = queue.popleft()
        yield value
        if depth < ATTRIBUTE_DEPTH:
            add(parts(value), depth + 1)


def from_gc(classes: List[type]) -> List[Any]:
    """The instances of `classes` and their subclasses among all that the garbage collector tracks. 0.1 us an object, the GIL held.

    It is one stretch of C on purpose. Walking the list in Python would be kinder to other threads (0.1 s for a million objects), but
    the list holds everything alive, also a step's activations, until it is gone: a step that runs meanwhile would need twice its memory.
    """
    wanted: Set[int] = set()
    pending = list(classes)
    while pending:
        cls = pending.pop()
        if id(cls) not in wanted:
            wanted.add(id(cls))
            pending.extend(type.__subclasses__(cls))
    everything = gc.get_objects()
    found = list(itertools.compress(everything, map(wanted.__contains__, map(id, map(type, everything)))))
    del everything
    return found


def _look_at_frames(add: Callable[[List[Any]], None]) -> List[Dict[str, Any]]:
    """Add the locals of every running function but our own; the globals of all of them are returned."""
    namespaces = {}
    for frame in (*frames_of_others().values(), sys._getframe(1)):
        for f, local in look_at_stack(frame):
            ours = f.f_globals.get("__package__") in OURS
            if not ours and (f.f_code.co_flags & CO_OPTIMIZED or f.f_locals is not f.f_globals):
                add(list(local.values()))
            namespaces[id(f.f_globals)] = f.f_globals
    del frame, f, local
    return list(namespaces.values())


def _variables(namespace: Dict[str, Any]) -> List[Tuple[Any, Any]]:
    """The names of a module and what they stand for; in IPython's without its outputs."""
    items = list(namespace.items())
    if "Out" in namespace and "In" in namespace:
        items = [(name, value) for name, value in items if not (isinstance(name, str) and OUTPUT.fullmatch(name))]
    return items


def _leaves() -> Tuple[type, ...]:
    """What nothing of interest hangs on; tensors among them, which must not be held."""
    return (*LEAVES, sys.modules["torch"].Tensor) if hasattr(sys.modules.get("torch"), "Tensor") else LEAVES


def names(wanted: Container[int]) -> Dict[int, str]:
    """By ``id``, what the program calls those objects: ``"ema"``, or by one step from a variable ``"trainer.ema"``, ``"nets[1]"``.

    As long as `from_frames`; objects that no variable is so near to are not in it.
    """
    found: Dict[int, str] = {}
    known = [pair for pairs in _named_variables(wanted) for pair in pairs if isinstance(pair[0], str)]
    for name, value in known:
        if id(value) in wanted:
            found.setdefault(id(value), name)
    for name, value in known:
        for step, held in _steps(value):
            if id(held) in wanted:
                owner = class_name(value) if name == "self" else name
                found.setdefault(id(held), f"{owner}{step}")
    return found


def _named_variables(wanted: Container[int]) -> Iterator[List[Tuple[Any, Any]]]:
    """The variables of ``__main__``, then those of all functions but our own that run, outermost first, then those of their modules."""
    yield _variables(vars(sys.modules["__main__"]))
    modules = {}
    leaves = _leaves()
    for innermost in (*frames_of_others().values(), sys._getframe(1)):
        of_stack: List[List[Tuple[Any, Any]]] = []
        for frame, local in look_at_stack(innermost):
            if frame.f_globals.get("__package__") not in OURS:
                modules[id(frame.f_globals)] = frame.f_globals
                if frame.f_code.co_flags & CO_OPTIMIZED:
                    of_stack.append(
                        [
                            pair
                            for pair in local.items()
                            if id(pair[1]) in wanted or not issubclass(type(pair[1]), leaves)
                        ]
                    )
        yield from reversed(of_stack)
    for module in modules.values():
        yield _variables(module)


def _steps(value: Any) -> List[Tuple[str, Any]]:
    """What hangs on `value` directly, and how one gets there."""
    cls = type(value)
    if issubclass(cls, dict):
        return [(f"[{key!r}]", held) for key, held in list(dict.items(value))[:MOST_ITEMS] if isinstance(key, str)]
    if issubclass(cls, (list, tuple)):
        return [(f"[{i}]", held) for i, held in enumerate(parts(value))]
    return [(f".{key}", held) for key, held in list(attributes(value).items())]


def frames_of_others() -> Dict[int, types.FrameType]:
    """``ident -> innermost frame`` of every thread but the one that asks.

    A function with its own frame in a local is a cycle. Until the garbage collector comes by, which in a training may take minutes, it
    would keep the frames of all the others, and with them what their functions held: activations, a DataLoader's iterator with its
    worker's pipes.
    """
    frames = sys._current_frames()
    frames.pop(threading.get_ident(), None)
    return frames


def look_at_stack(innermost: types.FrameType) -> Iterator[Tuple[types.FrameType, Dict[str, Any]]]:
    """``(frame, its locals)`` of every running function from `innermost` outwards, leaving the frames as they were."""
    stack = list(_stack(innermost))
    traced = any(f.f_trace is not None for f in stack)
    called: Dict[str, Any] = {}
    for f in stack:
        # What this frame calls just now was given the frame: a tracer, a profiler.
        reported = any(value is f for value in called.values())
        called = _locals(f, leave=traced or reported or _at_event(f))
        yield f, called


def _stack(frame: Any) -> Iterator[types.FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _locals(frame: types.FrameType, *, leave: bool) -> Dict[str, Any]:
    """A copy of a frame's locals, leaving the frame as it was.

    Before Python 3.13 reading ``f_locals`` of a function leaves a dict on the frame that keeps all its values alive; where nobody
    else holds that dict it is emptied again. (Module and class frames hand out their real namespace.) With `leave` it is not: under
    a debugger written in Python the interpreter copies that dict back into the frame, and an empty one would unset the variables.
    """
    local = frame.f_locals
    values = dict(local)
    if sys.version_info < (3, 13) and frame.f_code.co_flags & CO_OPTIMIZED:
        if not leave and sys.getrefcount(local) <= 3:
            local.clear()
    return values


def _at_event(frame: types.FrameType) -> bool:
    """True where a Python tracer might be at work for `frame` just now."""
    if frame.f_lasti < 0:
        return True
    return dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith(EVENTS)


def parts(value: Any) -> List[Any]:
    """What hangs on `value`, without running any code of its class."""
    cls = type(value)
    if issubclass(cls, dict):
        return list(dict.values(value))[:MOST_ITEMS]
    if issubclass(cls, (list, tuple)):
        items = list if issubclass(cls, list) else tuple
        return list(itertools.islice(items.__iter__(value), MOST_ITEMS))
    if id(cls) in CALLABLES:
        return CALLABLES[id(cls)](value)
    try:
        attributes = object.__getattribute__(value, "__dict__")  # past any user-defined __getattr__
    except Exception:  # there is none, or it is a property of the user's
        return []
    return list(dict.values(attributes)) if isinstance(attributes, dict) else []


def _of_generator(generator: Any) -> List[Any]:
    return (
        list(_locals(generator.gi_frame, leave=generator.gi_running).values()) if generator.gi_frame is not None else []
    )


CALLABLES: Dict[int, Callable[[Any], List[Any]]] = {
    id(types.FunctionType): lambda function: [c.cell_contents for c in function.__closure__ or () if _filled(c)],
    id(types.MethodType): lambda method: [method.__self__],
    id(functools.partial): lambda partial: [partial.func, *partial.args, *partial.keywords.values()],
    id(types.GeneratorType): _of_generator,
}


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # not assigned yet
        return False
