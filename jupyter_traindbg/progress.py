"""Bars for what takes its time, where somebody may be looking: a terminal or a notebook. Drawn by tqdm, on stderr or as a widget.

A bar leaves nothing behind, also not in the notebook's file.
"""

from __future__ import annotations

import math
import sys
import time
from types import TracebackType
from typing import Any

from .notebook import NOTHING, in_notebook

__all__ = ["BytesBar", "CountBar", "PartsBar", "SecondsBar"]

AT_LEAST_BYTES = 200_000_000
"""Less is written before a bar has been read."""
SHOW_AFTER_S = 2.0


class _Bar:
    """Draws nothing where nobody looks. `widget`: also in a notebook, below the cell that runs."""

    def __init__(self, widget: bool = True) -> None:
        self._widget = widget
        self._bar: Any = None
        self._place: Any = None

    def _draw(self, **options: Any) -> None:
        try:
            if in_notebook() and self._widget:
                self._draw_widget(options)
            elif sys.stderr is not None and sys.stderr.isatty():
                from tqdm import tqdm

                self._bar = tqdm(leave=False, **options)
        except ImportError:
            return  # the bar is a comfort

    def _draw_widget(self, options: dict[str, Any]) -> None:
        from IPython.display import display
        from tqdm.notebook import tqdm

        self._bar = tqdm(leave=False, display=False, **options)
        self._place = display(self._bar.container, display_id=True)

    def _reach(self, done: int) -> None:
        if self._bar is not None:
            self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        if self._place is not None:
            self._place.update(NOTHING, raw=True)  # else an export shows the words that the bar began with
            self._place = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BytesBar(_Bar):
    """Call it with how many bytes of how many are done; appears with the first call, and not for little."""

    def __init__(self, title: str, at_least: int = AT_LEAST_BYTES, widget: bool = True) -> None:
        super().__init__(widget)
        self._title, self._at_least = title, at_least
        self._undecided = True

    def __call__(self, done: int, total: int) -> None:
        if self._undecided and total >= self._at_least and done < total:
            self._undecided = False
            self._draw(total=total, desc=self._title, unit="iB", unit_scale=True, unit_divisor=1024)
        self._reach(done)

    def __enter__(self) -> BytesBar:
        return self


class CountBar(_Bar):
    """Call it with how many of `total` are done; appears where they take more than a moment."""

    def __init__(self, title: str, total: int, unit: str) -> None:
        super().__init__()
        self._options: dict[str, Any] = {"total": total, "desc": title, "unit": unit}
        self._show_at: float | None = time.monotonic() + SHOW_AFTER_S

    def __call__(self, done: int) -> None:
        if self._show_at is not None and time.monotonic() > self._show_at:
            self._show_at = None
            self._draw(initial=done, **self._options)
        self._reach(done)

    def __enter__(self) -> CountBar:
        return self


class SecondsBar(CountBar):
    """Call it with how many of so many seconds have passed; appears where they are more than a moment."""

    def __init__(self, title: str, seconds: float) -> None:
        super().__init__(title, math.ceil(seconds), "s")
        self._options["bar_format"] = "{desc}: {bar} {n_fmt} / {total_fmt} s"

    def __call__(self, passed: float) -> None:
        super().__call__(min(int(passed), self._options["total"]))

    def __enter__(self) -> SecondsBar:
        return self


class PartsBar(_Bar):
    """Call it with the name of each part that is done."""

    def __init__(self, title: str, total: int) -> None:
        super().__init__()
        self._draw(total=total, desc=title, unit="part")

    def __call__(self, name: str) -> None:
        if self._bar is not None:
            self._bar.set_postfix_str(name, refresh=False)
            self._bar.update(1)

    def __enter__(self) -> PartsBar:
        return self
