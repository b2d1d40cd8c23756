"""A checkpoint of this very process, stage by stage as a client would ask for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_traindbg.agent.core import Agent

PATIENCE_S = 30.0


class Client:
    """Asks the agent for the stages of one checkpoint after another."""

    def __init__(self, agent: Agent, directory: Path) -> None:
        self.agent, self.directory = agent, directory
        self.ident = "0"

    def ask(self, do: str, **params: Any) -> dict[str, Any]:
        answer = self.agent.call("checkpoint", {"do": do, **params})
        assert isinstance(answer, dict)
        return answer

    def stage(self, do: str, **params: Any) -> dict[str, Any]:
        return self.ask(do, ident=self.ident, **params)

    def begin(self, *, overwrite: bool = False, nbytes: int = 1000) -> None:
        self.ident = str(int(self.ident) + 1)
        self.stage("begin", directory=str(self.directory), bytes=nbytes, overwrite=overwrite)

    def written(self) -> dict[str, Any]:
        """Have it written; the last progress."""
        self.stage("write")
        ends = time.monotonic() + PATIENCE_S
        while True:
            progress = self.stage("progress")
            if progress["done"]:
                return progress
            assert time.monotonic() < ends
            time.sleep(0.002)

    def commit(self, progress: dict[str, Any], **manifest: Any) -> None:
        assert progress["error"] is None
        self.stage("commit", manifest=manifest, files=progress["files"])

    def save(self, step: Callable[[], object] | None = None, *, overwrite: bool = False) -> dict[str, Any]:
        """A whole checkpoint: at the boundary that `step` comes to, or of a training that stands still."""
        self.begin(overwrite=overwrite)
        if step is None:
            taken = self.stage("take", directory=str(self.directory))
        else:
            self.stage("prepare", directory=str(self.directory), after_step=self.agent.recorder.step)
            step()
            outcome = self.stage("outcome", wait_s=5.0)
            assert outcome["done"]
            taken = outcome["value"]
        self.commit(self.written())
        return dict(taken)


@pytest.fixture
def client(agent: Agent, tmp_path: Path) -> Client:
    return Client(agent, tmp_path / "ck")
