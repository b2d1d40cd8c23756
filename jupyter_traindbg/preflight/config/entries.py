"""The smallest thing that is read of a configuration: one key with its value, and where that stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Entry", "normal", "printable"]


@dataclass(frozen=True)
class Entry:
    """One value. `key` is as written (``--train-batch-size``, ``data.train_batch_size``), `path` as it is compared."""

    key: str
    value: Any
    file: str
    line: int | None = None

    @property
    def path(self) -> str:
        return normal(self.key)

    @property
    def last(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]


def normal(key: str) -> str:
    """``--Train-Batch-Size`` -> ``train_batch_size``: how option parsers and Hydra take the spellings for the same."""
    return key.lstrip("-+").replace("-", "_").lower()


def printable(words: str) -> str:
    """On one line, without what a terminal obeys: a value could otherwise add lines of its own to a verdict."""
    return "".join(c if c.isprintable() else " " for c in words)
