"""A job is attached to in mid-epoch, saved while it runs, its rate changed, saved again when it hangs: each resume goes on bit-identically.

The reference is a run that nobody touched, with the same change written into its code.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from support import PROGRAMS, Program, Start, torchrun

import traindbg

HANGS_AT, STEPS = 25, 30
STILL_S = 1.3
"""A job that made quick steps counts as hung after a second without one."""
Losses = dict[tuple[int, int], str]


def losses(text: str) -> Losses:
    """``(rank, step)`` -> the loss as hex."""
    rows = [line.split() for line in text.splitlines()]
    return {(int(r[0]), int(r[1])): r[2] for r in rows if len(r) == 3 and r[0].isdigit() and "0x" in r[2]}


def told(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("notes ")]


def by_itself(program: str, *args: str, ranks: int, port: str) -> list[str]:
    """What a program of ours prints that runs to its end in `ranks` processes, one text for each."""
    command = [sys.executable, "-u", str(PROGRAMS / program), *args]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    if ranks > 1:
        env.update(WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    environments = [{**env, "RANK": str(r)} if ranks > 1 else env for r in range(ranks)]
    started = [subprocess.Popen(command, env=e, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for e in environments]
    try:
        texts = [p.communicate(timeout=90)[0].decode() for p in started]
    finally:
        for p in started:
            p.kill()
            p.wait(10)
    assert [p.returncode for p in started] == [0] * ranks, texts
    return texts


def runs_to_the_end(ranks: int, port: str, *args: str) -> list[str]:
    """What `resumable.py` prints in `ranks` processes: a text for each of its ``--resume``, the ranks' one after the other."""
    texts = by_itself("resumable.py", *args, "--steps", str(STEPS), ranks=ranks, port=port)
    parts = [re.split(r"^run\n", text, flags=re.MULTILINE)[1:] for text in texts]
    return ["".join(of_ranks) for of_ranks in zip(*parts, strict=True)]


def wait_for_step(program: Program, step: int) -> None:
    deadline = time.monotonic() + 30
    while max((s for _, s in losses(program.output())), default=0) < step:
        assert time.monotonic() < deadline, program.output()
        time.sleep(0.02)


def goes_on(start: Start, tmp_path: Path, free_port: str, *, ranks: int, how: Sequence[str] = ()) -> None:
    """Attach, save, change the rate, save again when it hangs, and resume from both; `how` are further words for resumable.py."""
    healthy, hung, attached = str(tmp_path / "healthy"), str(tmp_path / "hung"), tmp_path / "attached"
    program = start(
        "resumable.py",
        *how,
        "--hang-at",
        str(HANGS_AT),
        "--hold",
        str(attached),  # later in the pass its order is not known any more, and it hangs before long
        "--sleep",
        "0.15",
        **({"command": torchrun(ranks, free_port)} if ranks > 1 else {}),
    )
    with traindbg.attach(f"torchrun:{program.pid}" if ranks > 1 else program.pid) as job:
        attached.touch()
        first = job.checkpoint(healthy)
        assert (first.taken, first.exact, first.inexact) == ("loop boundary", True, ())
        (saved_at,) = {rank.steps[0] for rank in first.ranks}  # type: ignore[index]
        wait_for_step(program, saved_at + 3)
        (changed_at,) = {rank.optimizer_step for rank in job.set_lr(scale=0.5).ranks}
        program.wait_for("hung")
        time.sleep(STILL_S)
        second = job.checkpoint(hung)
        assert (second.taken, second.exact, second.inexact) == ("hung", True, ())
        assert {rank.steps[0] for rank in second.ranks} == {HANGS_AT - 1}  # type: ignore[index]
    interrupted = losses(program.output())
    program.stop()
    changed = ["--change-at", str(changed_at)]
    untouched, from_healthy, from_hung = runs_to_the_end(
        ranks, free_port, *how, *changed, "--resume", "", "--resume", healthy, "--resume", hung
    )
    reference = losses(untouched)
    assert len(reference) == (STEPS + 1) * ranks
    assert {key: reference[key] for key in interrupted} == interrupted
    assert told(from_healthy) == [f"notes {rank} [] actions False" for rank in range(ranks)]
    assert losses(from_healthy) == {key: loss for key, loss in reference.items() if key[1] > saved_at}
    assert told(from_hung) == [f"notes {rank} [] actions True" for rank in range(ranks)]
    assert losses(from_hung) == {key: loss for key, loss in reference.items() if key[1] >= HANGS_AT}
