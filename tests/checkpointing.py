"""What the tests of checkpoints share: the command, what a good one is, that a job goes on as if nothing had been; one of this process."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import PROGRAMS, Program, Start

from jupyter_traindbg import checkpoints
from jupyter_traindbg.agent.checkpoint import reading
from jupyter_traindbg.agent.core import Agent

TWO_RANKS = [sys.executable, str(PROGRAMS / "torchrun")]
CLI = [sys.executable, "-m", "jupyter_traindbg.cli", "checkpoint"]
PATIENCE_S = 30.0


def command(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """``traindbg checkpoint WORDS``."""
    return subprocess.run([*CLI, *words], check=False, capture_output=True, text=True, timeout=60, cwd=cwd)


def losses(program: Program) -> list[str]:
    """The lines with a step and its loss."""
    return [line for line in program.output().splitlines() if "0x" in line]


def unwatched(start: Start, program: Program, *args: str) -> None:
    """What `program` has printed until now and a little later is what train.py prints with `args` when nobody looks."""
    n = len(losses(program)) + 10
    program.wait_for(f"\n{n} ")
    reference = start("train.py", *args, "--steps", str(n), ready=None)
    assert reference.wait() == 0
    assert losses(program)[:n] == losses(reference)


def good(directory: Path, *, step: int | None = None) -> checkpoints.Manifest:
    """The manifest of a complete, undamaged checkpoint with no unfinished one beside it."""
    assert checkpoints.verify(directory).findings == ()
    manifest = checkpoints.read_manifest(directory)
    assert step is None or manifest.step == step
    assert unfinished(directory) == []
    return manifest


def unfinished(directory: Path) -> list[str]:
    """Names of what was begun beside `directory` and not finished."""
    return [p.name for p in directory.parent.iterdir() if ".partial-" in p.name]


class Client:
    """Asks the agent in this very process for the stages of one checkpoint after another, as a client would."""

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
        return self.finished()

    def finished(self) -> dict[str, Any]:
        """The last progress of what is being written."""
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


class Gate:
    """The write waits before its first tensor until the gate is opened."""

    def __init__(self) -> None:
        self.reached, self._open = threading.Event(), threading.Event()

    def wait(self) -> None:
        self.reached.set()
        assert self._open.wait(20)

    def open(self) -> None:
        self._open.set()

    def open_soon(self) -> None:
        threading.Timer(0.05, self.open).start()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    shut, pieces = Gate(), reading.from_live

    def waiting(store: Any) -> Iterator[memoryview]:
        shut.wait()
        yield from pieces(store)

    monkeypatch.setattr(reading, "from_live", waiting)
    yield shut
    shut.open()


def begun(client: Client, gate: Gate) -> None:
    client.begin()
    client.stage("take", directory=str(client.directory))
    client.stage("write")
    assert gate.reached.wait(10)


# --- keys ---


def keys(
    layers: int = 2, width: int = 16, vocabulary: int = 64, dtype: str = "float32", prefix: str = "model."
) -> list[list[Any]]:
    """A small Llama's, as the agent's probe gives them."""
    made: list[list[Any]] = [[f"{prefix}embed_tokens.weight", [vocabulary, width], dtype, None]]
    for i in range(layers):
        made += [[f"{prefix}layers.{i}.self_attn.{p}_proj.weight", [width, width], dtype, None] for p in "qkvo"]
        made += [[f"{prefix}layers.{i}.mlp.{p}.weight", [2 * width, width], dtype, None] for p in ("up", "gate")]
        made += [[f"{prefix}layers.{i}.norm.weight", [width], dtype, None]]
    return [*made, [f"{prefix}norm.weight", [width], dtype, None], ["lm_head.weight", [vocabulary, width], dtype, None]]


def renamed(old: list[list[Any]], change: Any) -> list[list[Any]]:
    return [[change(name), *rest] for name, *rest in old]
