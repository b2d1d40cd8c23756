"""A bar for what takes its time, where somebody may be looking: a terminal or a notebook."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

AT_LEAST_BYTES = 200_000_000
"""Less is written before a bar has been read."""


class BytesBar:
    """A progress bar of bytes, drawn by tqdm on stderr or as a widget. Draws nothing where nobody looks, or for little."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._bar: Any = None
        self._wanted = sys.stderr.isatty() or _in_notebook()

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None:
            if not self._wanted or total < AT_LEAST_BYTES or done >= total:
                return
            try:
                from tqdm.auto import tqdm
            except ImportError:
                self._wanted = False  # the bar is a comfort
                return
            self._bar = tqdm(total=total, desc=self._title, unit="B", unit_scale=True, leave=False)
        self._bar.update(done - self._bar.n)

    def __enter__(self) -> BytesBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None
