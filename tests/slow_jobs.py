"""The programs of tests/programs/slow/: each a training with one cause of slowness planted, or none; asked by `traindbg slow`, and judged.

A program has a ``MANIFEST``: the ``code`` of its cause (None: it is sound), on how many ``ranks`` it may run, which ``rank`` is to blame
(-1: the last), what ``part`` of the step, and how many steps of its ``past`` have to be known: it is attached to before them. The line to
find ends with ``# the slow line``; ``"line": None`` where none is to blame.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import PROGRAMS, REPO, Program, launch, torchrun

import traindbg

SLOW = PROGRAMS / "slow"
MARK = "# the slow line"
STEP = re.compile(r"step_s (\d+\.\d+)")


@dataclass(frozen=True)
class Planted:
    """One program and what is to be found in it."""

    name: str
    manifest: dict[str, Any]
    line: int | None

    @property
    def sound(self) -> bool:
        return self.manifest["code"] is None

    @property
    def path(self) -> str:
        return f"slow/{self.name}.py"

    @property
    def past(self) -> int:
        return int(self.manifest.get("past", 0))

    def rank(self, ranks: int) -> int | None:
        rank: int | None = self.manifest.get("rank")
        return None if rank is None else rank % ranks


def planted(name: str) -> Planted:
    text = (SLOW / f"{name}.py").read_text()
    (value,) = (
        node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "MANIFEST"
    )
    manifest = ast.literal_eval(value)
    lines = [n for n, line in enumerate(text.splitlines(), 1) if line.endswith(MARK)]
    return Planted(name, manifest, lines[0] if lines and manifest.get("line", 0) is not None else None)


def all_planted() -> list[Planted]:
    return [planted(file.stem) for file in sorted(SLOW.glob("*.py")) if file.stem != "small"]


@contextlib.contextmanager
def running(one: Planted, ranks: int, folder: Path, port: str, *args: str) -> Iterator[Program]:
    """It, from its tenth step on, or from the end of the past that has to be known."""
    command = torchrun(ranks, port) if ranks > 1 else None
    program = launch(folder, one.path, *args, command=command)
    try:
        program.wait_for("0 10 0x" if ranks > 1 else "\n10 0x", 90)
        if not one.past:
            yield program
            return
        with traindbg.attach(target(program, ranks)):
            program.wait_for(f"0 {one.past} 0x" if ranks > 1 else f"\n{one.past} 0x", 120)
            yield program
    finally:
        program.stop()


def step_s(one: Planted, ranks: int, folder: Path, port: str, *args: str, steps: int) -> float:
    """What a step takes where nobody looks."""
    command = torchrun(ranks, port) if ranks > 1 else None
    program = launch(folder, one.path, "--steps", str(steps), *_warm(one), *args, command=command)
    try:
        program.wait(120)
        found = STEP.findall(program.output())
        assert found, program.output()
        return max(map(float, found))
    finally:
        program.stop()


def _warm(one: Planted) -> tuple[str, ...]:
    return ("--warm", str(one.past)) if one.past else ()


def target(program: Program, ranks: int) -> str:
    return f"torchrun:{program.pid}" if ranks > 1 else str(program.pid)


def ask(where: str, *options: str) -> dict[str, Any]:
    """What `traindbg slow` says, as its JSON; ``exit`` is its status and ``seconds`` what it took."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "jupyter_traindbg.cli", "slow", where, "--json", *options],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env={**os.environ, "PYTHONPATH": str(REPO)},
    )
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return {**answer, "exit": done.returncode, "seconds": time.monotonic() - began}


def wrong(one: Planted, ranks: int, answer: dict[str, Any]) -> str:
    """What is wrong with the answer; empty where it is right."""
    findings: Sequence[dict[str, Any]] = answer["findings"]
    codes = [finding["code"] for finding in findings]
    if one.sound:
        return f"found {codes}" if codes else ""
    if not codes:
        return "found nothing"
    first = findings[0]
    if first["code"] != one.manifest["code"]:
        return f"first is {first['code']} at {first['where']}"
    if one.line is not None and f"{one.name}.py:{one.line} " not in (first["where"] or ""):
        return f"at {first['where']}, not at line {one.line}"
    rank = one.rank(ranks)
    if rank is not None and first["who"] != [f"rank {rank}"]:
        return f"blames {first['who']}, not rank {rank}"
    parts = {"backward": "in backward", "forward": "in forward:", "before": "in forward and all before it:"}
    part = {**parts, "rest": "in the rest"}.get(one.manifest.get("part", ""), "")
    return "" if part in first["title"] else f"not {part}: {first['title']}"
