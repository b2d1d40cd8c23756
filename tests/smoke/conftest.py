"""Trainings that run as long as the smoke tests do. A test that changes one of them puts it back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browsers import chromium, lab, open_notebook, page  # noqa: F401 - fixtures
from support import Program, running


@pytest.fixture(scope="session")
def trainee(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """One unprepared process."""
    with running(tmp_path_factory.mktemp("trainee"), "train.py", "--sleep", "0.01") as program:
        yield program


@pytest.fixture(scope="session")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Two DDP ranks over gloo, children of one process."""
    with running(tmp_path_factory.mktemp("ranks"), "tuned.py", "--sleep", "0.005") as program:
        yield program
