"""Bars for what takes its time, where somebody may be looking: a terminal or a notebook. Drawn by tqdm, on stderr or as a widget."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

__all__ = ["BytesBar", "PartsBar"]

AT_LEAST_BYTES = 200_000_000
"""Less is written before a bar has been read."""


class _Bar:
    """Draws nothing where nobody looks."""

    def __init__(self) -> None:
        self._bar: Any = None

    def _draw(self, **options: Any) -> None:
        if not (sys.stderr.isatty() or _in_notebook()):
            return
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return  # the bar is a comfort
        self._bar = tqdm(leave=False, **options)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BytesBar(_Bar):
    """Call it with how many bytes of how many are done; appears with the first call, and not for little."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title
        self._undecided = True

    def __call__(self, done: int, total: int) -> None:
        if self._undecided and total >= AT_LEAST_BYTES and done < total:
            self._undecided = False
            self._draw(total=total, desc=self._title, unit="B", unit_scale=True)
        if self._bar is not None:
            self._bar.update(done - self._bar.n)

    def __enter__(self) -> BytesBar:
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


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None
