"""What holds for all unit tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _a_terminal_of_a_hundred_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """As without any: processes of pytest-xdist, and some shells, say that they have a narrower one."""
    monkeypatch.setenv("COLUMNS", "100")
