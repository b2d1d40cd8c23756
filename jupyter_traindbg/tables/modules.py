"""A module of a model of a rank: what it holds, and how long its forward and backward take, watched for up to five steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..language import later, text
from ..model import NotAvailable
from .base import Column, Probe, Row, Told

COST = later(
    "waits for five steps, at most the whole time; in these the training thread takes 20 µs more for each call of a module"
)
ASKS = (Probe("modules", waits=True),)
_TIMES = ("calls", "backwards", "forward_s", "forward_self_s", "backward_s", "backward_self_s")
COLUMNS = (
    Column("rank", int, later("the rank")),
    Column("pid", int, later("its process")),
    Column("model", int, later("which model of the rank, from 0")),
    Column("module", str, later("its name in the model; empty for the model itself")),
    Column("kind", str, later("its class: `Linear`")),
    Column("depth", int, later("how deep in the model it is: 0 is the model itself")),
    Column("parent", str, later("the name of the module that it is in")),
    Column("parameters", int, later("how many parameters are its own")),
    Column("elements", int, later("how many numbers these have")),
    Column("parameters_bytes", int, later("how much memory these take")),
    Column("device", str, later("where they are")),
    Column("dtype", str, later("the type of the first of them")),
    Column("training", bool, later("whether it is in training mode")),
    Column("steps_watched", int, later("in so many steps it was watched; the columns below are of these")),
    Column("calls", float, later("how often a step calls it; a call that raises is none")),
    Column("backwards", float, later("how often a step goes backward through it")),
    Column("forward_s", float, later("seconds of a step in its forward, with all modules in it")),
    Column("forward_self_s", float, later("of these without the modules in it")),
    Column(
        "backward_s",
        float,
        later("seconds of a step from the gradient of its output to the last one of its inputs and parameters"),
    ),
    Column("backward_self_s", float, later("of these without the modules in it")),
)
_ON_GPU = later("a call on a GPU returns before its kernels have run: the host's clock says nothing of them")
_NO_BACKWARD = later("its backward was not seen to begin and to end")


def rows(told: Told) -> Iterator[Row]:
    for rank, pid, answer in told.answers:
        for module in answer["modules"]:
            name = module["name"]
            yield {
                "rank": rank,
                "pid": pid,
                "module": name,
                "depth": name.count(".") + 1 if name else 0,
                "parent": name.rpartition(".")[0] if name else None,
                "parameters_bytes": module["bytes"],
                "steps_watched": answer["steps"],
                **{
                    key: module[key]
                    for key in ("model", "kind", "parameters", "elements", "device", "dtype", "training")
                },
                **_times(module["times"], answer),
            }


def _times(times: Mapping[str, Any] | None, answer: Mapping[str, Any]) -> dict[str, Any]:
    """A step's."""
    steps = answer["steps"]
    if times is None or not steps:
        why = answer["note"] if not steps else text("it was not called in the steps that were watched")
        return dict.fromkeys(_TIMES, NotAvailable(why))
    told: dict[str, Any] = {name: times[name] / steps for name in _TIMES}
    if times["on_device"] not in ("cpu", ""):
        told |= dict.fromkeys(_TIMES[2:], NotAvailable(text(_ON_GPU)))
    elif not times["backwards"]:
        told |= dict.fromkeys(_TIMES[4:], NotAvailable(text(_NO_BACKWARD)))
    return told
