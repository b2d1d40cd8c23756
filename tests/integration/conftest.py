"""Fixtures of the integration tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import ssh_hosts
from agents import agent, ask_while  # noqa: F401 - fixtures
from checkpointing import client, gate  # noqa: F401 - fixtures
from ssh_hosts import Host

from jupyter_traindbg.hosts import remote


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Host]]:
    """Three that ssh reaches."""
    monkeypatch.setattr(remote, "_lines", {})
    with ssh_hosts.hosts(tmp_path / "ssh", ["alpha", "beta", "gamma"], [tmp_path]) as made:
        monkeypatch.setenv("TRAINDBG_SSH", ssh_hosts.command(tmp_path / "ssh"))
        try:
            yield made
        finally:
            remote.hang_up()
