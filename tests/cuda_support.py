"""What tests on a GPU share. Importing it skips the module that does so where there is no CUDA device."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

__all__ = ["never_synchronising"]


@contextlib.contextmanager
def never_synchronising() -> Iterator[None]:
    """Whatever waits for the GPU in here raises."""
    torch.cuda.synchronize()
    _debug("error")
    try:
        yield
    finally:
        _debug("default")


def _debug(mode: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls this mode a prototype
        torch.cuda.set_sync_debug_mode(mode)
