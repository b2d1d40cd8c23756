"""A bar for a report's parts, where somebody is looking: a terminal or a notebook."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

__all__ = ["Progress"]


class Progress:
    """Call it with the name of each part that is done."""

    def __init__(self, total: int) -> None:
        self._bar: Any = None
        if not (sys.stderr.isatty() or _in_notebook()):
            return
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return  # the bar is a comfort
        self._bar = tqdm(total=total, desc="report", unit="part", leave=False)

    def __call__(self, name: str) -> None:
        if self._bar is not None:
            self._bar.set_postfix_str(name, refresh=False)
            self._bar.update(1)

    def __enter__(self) -> Progress:
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
