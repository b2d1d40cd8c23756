"""`plot`: a picture of a result, of a log, or of several of a kind beside each other."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Union

from . import pictures
from .model import Picture, Result
from .questions.jobless import log

__all__ = ["plot"]

Drawable = Union[Result, str, "os.PathLike[str]"]


def plot(what: Drawable | Mapping[str, Drawable], *, timeout: float = log.DEADLINE_S) -> Picture:
    """A picture of a result, or of a log: a file, a directory or a pattern. Of several logs, or of several configurations (results of
    `%preflight`), under names of yours: their losses, or their estimates of memory, beside each other.

    Reads each log for `timeout` seconds at most; drawn, in 0.4 s, where it is looked at. Raises `UsageError` where there is no picture of
    such a thing, `NoTarget` where there is nothing in it to draw, `BadLog` for what is no log.
    """
    if isinstance(what, Mapping):
        return pictures.of_several({name: _result(one, timeout) for name, one in what.items()})
    return pictures.of_result(_result(what, timeout))


def _result(what: Drawable, timeout: float) -> Result:
    return what if isinstance(what, Result) else log.ask(os.fspath(what), timeout=timeout)
