"""What all data have in common: measurements that may be missing, verdicts, silences, and results that know how to be shown.

Units are in the names (``rss_bytes``, ``duration_s``). A measurement that could not be taken is a `NotAvailable`
value with its reason, never an exception and never a zero.

A `Result` is what a verb returns. It knows how to turn itself into plain data (`Result.to_dict`); how it looks
is the business of `jupyter_traindbg.render`, which is reached through `set_renderer` so that this module imports nothing
of the package.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, Union

from .finding import Finding, Phrase

__all__ = [
    "NA",
    "Maybe",
    "NotAvailable",
    "Problem",
    "Result",
    "Silent",
    "StepNumber",
    "Worded",
    "available",
    "set_plotter",
    "set_renderer",
    "set_tables",
    "step_number",
]

T = TypeVar("T")
R = TypeVar("R", bound="Result")


@dataclass(frozen=True)
class NotAvailable:
    """A measurement that does not exist here, with the reason. Falsy, so ``value or default`` reads naturally."""

    reason: str

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"not available ({self.reason})"


NA = NotAvailable
Maybe = Union[T, NotAvailable]  # noqa: UP007 - an alias with a type variable needs it on Python 3.10


def available(value: Maybe[T]) -> bool:
    """True where a measurement exists (``0`` and ``""`` exist)."""
    return not isinstance(value, NotAvailable)


class Problem(Phrase):
    """Why something could not be measured, and what to do about it: the line ``cause; next step``, and its parts."""

    cause: str
    next_step: str

    def __new__(cls, cause: str, next_step: str = "") -> Problem:
        made = super().__new__(cls, f"{cause}; {next_step}" if next_step else cause)
        made.cause, made.next_step = cause, next_step
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Problem, (self.cause, self.next_step)


class Worded:
    """A value that rules read by its parts and people as words: in JSON and in tables it is ``str()`` of it, in English."""


def _plain(value: Any) -> Any:
    """Dataclasses to dicts, `NotAvailable` to ``{"not_available": reason}``, non-finite floats to strings (JSON has none)."""
    if isinstance(value, NotAvailable):
        return {"not_available": value.reason}
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, Worded)):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value) if not f.name.startswith("_")}
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, Worded) else value


@dataclass(frozen=True)
class StepNumber:
    """Which step: ``own`` is the optimizer's own count (None where it keeps none), ``since_attach`` how many our agent has seen (None where
    there was none: a checkpoint on disk). `jupyter_traindbg.step_numbers` has the words.
    """

    since_attach: int | None
    own: int | None


def step_number(since_attach: Maybe[int], own: Maybe[int]) -> StepNumber | None:
    """The number of a step; None where there is none."""
    if isinstance(since_attach, NotAvailable):
        return None
    return StepNumber(since_attach, None if isinstance(own, NotAvailable) else own)


# --- results -------------------------------------------------------------------------------------------------------

MimeBundle = dict[str, Any]
_renderer: Callable[[Any], MimeBundle] | None = None


def set_renderer(renderer: Callable[[Any], MimeBundle]) -> None:
    """Install the function that turns a `Result` into a mimebundle (done once, by the package's ``__init__``)."""
    global _renderer
    _renderer = renderer


_plotter: Callable[[Any], Any] | None = None


def set_plotter(plotter: Callable[[Any], Any]) -> None:
    """Install the function that draws a `Result` (done once, by the package's ``__init__``)."""
    global _plotter
    _plotter = plotter


_to_arrow: Callable[[Any], Any] | None = None
_to_frame: Callable[[Any], Any] | None = None


def set_tables(to_arrow: Callable[[Any], Any], to_frame: Callable[[Any], Any]) -> None:
    """Install the functions that make tables of a `Result` (done once, by the package's ``__init__``)."""
    global _to_arrow, _to_frame
    _to_arrow, _to_frame = to_arrow, to_frame


class Result:
    """What a verb returns: plain data with `to_dict`, a table with `to_frame`, text at a terminal, HTML in a notebook."""

    _rows: ClassVar[str] = ""
    """Where the rows of its table are: see `jupyter_traindbg.model.records`."""
    asked_about: str | None = None
    """The target that the commands in this result have to name; None where they mean the right job by themselves."""

    def about(self: R, target: str | None) -> R:
        """This result, known to be about `target`. Not a part of its data."""
        object.__setattr__(self, "asked_about", target)
        return self

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong according to this result alone, root cause first; empty where nothing is."""
        return ()

    @property
    def failure(self) -> Problem | None:
        """Why nothing could be measured at all; None where something was."""
        return None

    @property
    def undecided(self) -> str | None:
        """Why what was measured settles nothing, in one line; None where it does."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """This result as JSON-ready plain data."""
        plain: dict[str, Any] = _plain(self)
        plain["findings"] = [_plain(f) for f in self.findings]
        return plain

    def to_arrow(self) -> Any:
        """This result as a ``pyarrow.Table``: a row for each thing that it lists, such as each gradient of each rank.

        Columns are called as the fields are, with the unit in the name (``rss_bytes``), and are the same for all results of a class. What
        was not measured is null, and ``NAME_missing`` says why; NaN is a value. A rank that gave no answer has the reason in ``silent``.
        These two columns are there only where they say something. What is about the whole result is in the schema's metadata, as JSON, by
        the name ``traindbg``. A column in which something is not what it should be, or an integer has more than 64 bits, is text.

        Asks nobody; 100,000 rows take about 2 s. Raises `MissingPiece` without pyarrow.
        """
        assert _to_arrow is not None
        return _to_arrow(self)

    def to_frame(self) -> Any:
        """The same as a ``pandas.DataFrame``, with Arrow's types: null is ``pd.NA``, which is not NaN, and integers stay integers. What is
        about the whole result is in ``frame.attrs``. Raises `MissingPiece` without pandas or pyarrow.
        """
        assert _to_frame is not None
        return _to_frame(self)

    def plot(self) -> Any:
        """A `jupyter_traindbg.model.Picture` of this result. Raises `UsageError` where there is none of such a result."""
        assert _plotter is not None
        return _plotter(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> MimeBundle:
        if _renderer is None:
            return {"text/plain": object.__repr__(self)}
        return _renderer(self)

    def __str__(self) -> str:
        return str(self._repr_mimebundle_()["text/plain"])


@dataclass(frozen=True)
class Silent:
    """A rank that gave no answer, and why. ``host``: a whole host that gave none, whichever ranks it has; ``pid`` is 0 then."""

    rank: int | None
    pid: int
    reason: str
    next_step: str = ""
    host: str = ""
