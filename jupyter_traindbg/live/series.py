"""What is drawn over the steps: the series, and how each follows from a step record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..language import later
from ..step_parts import PARTS
from .history import Bools, Floats

__all__ = ["COLUMNS", "LOSS_LIKE", "MEASURED_ASIDE", "SERIES", "Series", "row", "table"]

Unit = Literal["", "s", "B", "%"]


@dataclass(frozen=True)
class Series:
    """One curve per rank. ``label``: in English (`words.series` says it).

    ``unit``: ``""``, ``"s"`` (seconds), ``"B"`` (bytes) or ``"%"``; ``group``: what belongs into one chart.
    """

    name: str
    label: str
    unit: Unit
    group: str


SERIES: tuple[Series, ...] = (
    Series("loss", later("loss"), "", "loss"),
    Series("lr", later("learning rate, scheduled"), "", "lr"),
    Series("lr_effective", later("learning rate, effective"), "", "lr"),
    Series("grad_norm", later("gradient norm"), "", "grad_norm"),
    Series("clip_norm", later("clipped at"), "", "grad_norm"),
    Series("step_s", "step", "s", "time"),
    *(Series(part.field, part.name, "s", "time") for part in PARTS),
    Series("rss_bytes", later("resident"), "B", "memory"),
    Series("cuda_allocated_bytes", later("CUDA allocated"), "B", "memory"),
    Series("cuda_reserved_bytes", later("CUDA reserved"), "B", "memory"),
    Series("cuda_peak_bytes", later("CUDA peak"), "B", "memory"),
    Series("gpu_utilisation", later("GPU utilisation"), "%", "gpu"),
)
"""All that there can be, in the order in which they are shown. A job has those for which it gave a value."""

COLUMNS: tuple[str, ...] = ("time_s", *(s.name for s in SERIES))
"""What is kept of each step, `time_s` first."""

MEASURED_ASIDE = "gpu_utilisation"
"""Does not come with the steps: it is asked of the driver now and then, and put onto the step that is the latest then."""

LOSS_LIKE = ("loss", "grad_norm")
"""Where NaN and infinity are news, and not a measurement that is missing."""

_FIELD_OF = {"step_s": "duration_s"}


class _Places:
    """Where each column is in a record of an agent, which may be older or younger than we are."""

    def __init__(self, fields: Sequence[str]) -> None:
        at = {name: i for i, name in enumerate(fields)}
        self.step = at["step"]
        self.lr, self.scheduled = at.get("lr"), at.get("lr_scheduled")
        plain = [name for name in COLUMNS if name not in ("lr", "lr_effective")]
        self.plain = [
            (COLUMNS.index(name), at[_FIELD_OF.get(name, name)]) for name in plain if _FIELD_OF.get(name, name) in at
        ]


_places: dict[tuple[str, ...], _Places] = {}
_LR, _LR_EFFECTIVE = COLUMNS.index("lr"), COLUMNS.index("lr_effective")


def row(fields: Sequence[str], record: Sequence[Any]) -> tuple[int, list[float | None]]:
    """The step number of a record, and its values in the order of `COLUMNS`; of several param groups, the learning rate of the first."""
    key = tuple(fields)
    places = _places.get(key)
    if places is None:
        places = _places[key] = _Places(key)
    values: list[float | None] = [None] * len(COLUMNS)
    for column, at in places.plain:
        values[column] = record[at]
    effective = _first(record[places.lr]) if places.lr is not None else None
    scheduled = _first(record[places.scheduled]) if places.scheduled is not None else None
    values[_LR_EFFECTIVE] = effective
    values[_LR] = effective if scheduled is None else scheduled
    return record[places.step], values


def table(rows: Sequence[Sequence[float | None]]) -> tuple[Floats, Bools]:
    """Values of `row` as arrays for a `History`: by record and column the value (NaN: none), and whether it was there and not finite."""
    values = np.array(rows, dtype=float)
    bad = np.zeros(values.shape, bool)
    for column in (COLUMNS.index(name) for name in LOSS_LIKE):
        for i in np.flatnonzero(~np.isfinite(values[:, column])):
            bad[i, column] = rows[int(i)][column] is not None
    return values, bad


def _first(lr: Sequence[float | None] | None) -> float | None:
    return lr[0] if lr else None
