"""All parts at once, each in a thread of its own that may be left behind: a disk or a driver that hangs costs nobody else anything."""

from __future__ import annotations

import pkgutil
import queue
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from .. import questions
from ..errors import TraindbgError
from ..model import Silent
from ..questions.base import InReport
from . import parts
from .context import Collected, Context, Part, Unavailable

if TYPE_CHECKING:
    from ..render.blocks import Block

__all__ = ["Collected", "Collector", "absent", "collect", "collectors", "drawn", "machine_readers", "missing_of"]


class Collector(Protocol):
    """What a module of `jupyter_traindbg.report.parts` defines; its docstring says what it collects and what it costs. A question to a job
    that has an ``IN_REPORT`` is a part as well (`_OfQuestion`).
    """

    TITLE: str
    ORDER: int
    """Where it stands in the index."""
    FROM_JOB: bool
    """Whether it asks a job: without one it is left out. The others read a machine: of a job on several, each of these."""
    AFTER: str
    """The part that it waits for (``""``: none). What asks a job's agents takes turns: a diagnosis must not take an agent that answers
    somebody else for one that hangs."""
    # ASKS: str, where a part has it, is a question that only some jobs can be asked: for others the part is left out
    # HERE_ONLY: bool, where a part has it: it needs what no helper on another host has
    # draw(data) -> the blocks that the index shows besides the results, where a part has it: of its `Part.data`, without secrets

    def collect(self, context: Context) -> Part:
        """Collect it within ``context.left_s()``. Raises `Unavailable`, a `TraindbgError` or an `OSError` where it cannot be had."""


class _OfQuestion:
    """The answer to a question as a part. It waits for the diagnosis."""

    FROM_JOB = True
    AFTER = "diagnosis"

    def __init__(self, question: str, told: InReport) -> None:
        self.__doc__ = questions.load(question).__doc__
        self._question = question
        self.TITLE, self.ORDER = told.title, told.order

    def collect(self, context: Context) -> Part:
        """The answer; the ranks that gave none are told as missing."""
        result = context.ask(self._question)
        silent: Sequence[Silent] = getattr(result, "silent", ())
        ranks: Sequence[object] = getattr(result, "ranks", ())
        return Part(
            f"answers of {len(ranks)} rank{'s' * (len(ranks) != 1)}",
            results=[result],
            missing=[f"rank {s.rank} (pid {s.pid}): {s.reason}" for s in silent],
        )


def collectors() -> dict[str, Collector]:
    """Every part by name, in the order of the index."""
    found = _modules()
    for name in questions.names():
        told = getattr(questions.load(name), "IN_REPORT", None)
        if told is not None:
            found[told.title.lower().replace(" ", "_")] = _OfQuestion(name, told)
    return dict(sorted(found.items(), key=lambda item: item[1].ORDER))


def machine_readers() -> dict[str, Collector]:
    """The parts that tell of a machine, and work wherever a helper is."""
    return {
        name: part for name, part in _modules().items() if not part.FROM_JOB and not getattr(part, "HERE_ONLY", False)
    }


def _modules() -> dict[str, Collector]:
    return {m.name: import_module(f"{parts.__name__}.{m.name}") for m in pkgutil.iter_modules(parts.__path__)}


def drawn(one: Collected) -> Sequence[Block]:
    """What the index shows of a part besides its results."""
    draw = getattr(collectors().get(one.name), "draw", None)
    return draw(one.part.data) if draw is not None and one.part is not None else ()


def collect(
    context: Context, chosen: dict[str, Collector], finished: Callable[[str], None] = lambda name: None
) -> list[Collected]:
    """All `chosen` parts, at the latest when ``context.ends``. `finished` is called with the name of each that is done."""
    done: queue.Queue[Collected] = queue.Queue()
    ended = {name: threading.Event() for name in chosen}
    for name, collector in chosen.items():
        run = threading.Thread(
            target=_one, args=(name, collector, context, ended, done), name=f"traindbg-report-{name}", daemon=True
        )
        run.start()
    found = _gather(done, set(chosen), context.ends, finished)
    late = [
        Collected(name, chosen[name].TITLE, None, f"it did not come within {context.timeout:g} s")
        for name in chosen
        if name not in found
    ]
    return sorted([*found.values(), *late], key=lambda c: list(chosen).index(c.name))


def _gather(
    done: queue.Queue[Collected], wanted: set[str], ends: float, finished: Callable[[str], None]
) -> dict[str, Collected]:
    found: dict[str, Collected] = {}
    while wanted - found.keys():
        try:
            one = done.get(timeout=max(0.0, ends - time.monotonic()))
        except queue.Empty:
            return found
        found[one.name] = one
        finished(one.name)
    return found


def _one(
    name: str,
    collector: Collector,
    context: Context,
    ended: Mapping[str, threading.Event],
    done: queue.Queue[Collected],
) -> None:
    if collector.AFTER in ended:
        ended[collector.AFTER].wait(context.left_s(float("inf")))
    began = time.monotonic()
    part, problem, trace = None, "", ""
    try:
        part = collector.collect(context)
    except (Unavailable, TraindbgError, OSError) as e:
        problem = _reason(e)
    except Exception as e:  # noqa: BLE001 - a report is for when things are broken: told in the index, with the traceback
        problem = f"collecting it failed: {type(e).__name__}: {e}"
        trace = traceback.format_exc()
    ended[name].set()
    done.put(Collected(name, collector.TITLE, part, problem, trace, time.monotonic() - began))


def _reason(error: Exception) -> str:
    if isinstance(error, TraindbgError):
        return error.cause
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error)


def absent(collected: Sequence[Collected]) -> list[tuple[str, str]]:
    """The titles of the parts that are not there, with why; those of one reason together."""
    by_reason: dict[str, list[str]] = {}
    for one in collected:
        if one.part is None:
            by_reason.setdefault(one.problem, []).append(one.title)
    return [(", ".join(titles), problem) for problem, titles in by_reason.items()]


def missing_of(collected: Sequence[Collected]) -> list[str]:
    """What is not there, in one line each."""
    return [
        *(f"{titles}: {problem}" for titles, problem in absent(collected)),
        *(f"{c.title}: {words}" for c in collected if c.part is not None for words in c.part.missing),
    ]
