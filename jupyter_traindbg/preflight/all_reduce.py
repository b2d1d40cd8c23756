"""A real all_reduce among some processes of this machine: does the backend work here, how long does it take to come up, how fast is it?"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ..model import AllReduce, AllReduceSize, NotAvailable

__all__ = ["all_reduce"]

WORKER = str(Path(__file__).with_name("worker.py").resolve())
OTHER_JOBS = re.compile(
    r"(RANK|WORLD_SIZE|MASTER_\w+|LOCAL_\w+|GROUP_\w+|ROLE_\w+|TORCHELASTIC_\w+|NCCL_COMM_ID|TRAINDBG)$"
)
"""Variables that would make our processes part of the job whose shell this is. All others stay: it is that environment which is tried."""
LINES = 12
POLL_S = 0.02


@dataclass
class _Rank:
    """One of the processes, and what it has said so far."""

    process: subprocess.Popen[bytes]
    log: IO[bytes]
    said: list[dict[str, Any]] = field(default_factory=list)
    partial: bytes = b""

    def listen(self) -> None:
        """Take in what has come since."""
        assert self.process.stdout is not None
        *lines, self.partial = (self.partial + (self.process.stdout.read() or b"")).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):  # libraries print to stdout as well
                said = json.loads(line)
                if isinstance(said, dict):
                    self.said.append(said)

    def heard(self, what: str) -> dict[str, Any] | None:
        return next((said for said in self.said if said.get("what") == what), None)

    def stage(self) -> str:
        """The last thing it was known to do."""
        return str(self.said[-1]["what"]) if self.said else "importing torch"


def all_reduce(backend: str, processes: int, deadline_s: float) -> AllReduce:
    """Start the processes, let them sum tensors of growing sizes, and end them; at most `deadline_s`.

    Costs one import of torch per process (some seconds together), 64 MiB per process, and as many GPUs as processes with nccl.
    """
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        ranks = _start(backend, processes, deadline_s, stack)
        ended = _await(ranks, began + deadline_s)
        problem = (
            ""
            if ended and all(rank.heard("done") for rank in ranks)
            else _problem(ranks, ended, time.monotonic() - began)
        )
        lines = _last_lines(ranks) if problem else ()
    sizes = _sizes(ranks, processes)
    unknown = NotAvailable("it did not come so far")
    ups = [up["at"] - up["started"] for rank in ranks if (up := rank.heard("first result"))]
    inits = [up["init_s"] for rank in ranks if (up := rank.heard("joined"))]
    return AllReduce(
        backend,
        processes,
        start_s=max(ups) if len(ups) == processes else unknown,
        init_s=max(inits) if len(inits) == processes else unknown,
        sizes=sizes,
        problem=problem,
        last_lines=lines,
    )


def _start(backend: str, processes: int, deadline_s: float, stack: contextlib.ExitStack) -> list[_Rank]:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    clean = {name: value for name, value in os.environ.items() if not OTHER_JOBS.match(name)}
    ranks = []
    for rank in range(processes):
        log = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
        process = subprocess.Popen(
            [sys.executable, "-u", WORKER, backend, str(rank), str(processes), str(port), f"{deadline_s:.1f}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env={"OMP_NUM_THREADS": "1", **clean},
            start_new_session=True,  # an interrupt of the notebook is not for it
        )
        assert process.stdout is not None
        stack.callback(_end, process)
        os.set_blocking(process.stdout.fileno(), False)
        ranks.append(_Rank(process, log))
    return ranks


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill it with all it may have started, and wait for it; the kernel may not let one go that sits in a driver."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            process.returncode = -signal.SIGKILL  # it is no longer ours to wait for; says so to Popen.__del__
    assert process.stdout is not None
    process.stdout.close()


def _await(ranks: Sequence[_Rank], ends: float) -> bool:
    """Listen until all have ended, or one has failed and the others are hopeless; False where the time was up."""
    while True:
        running = [rank for rank in ranks if rank.process.poll() is None]
        for rank in ranks:
            rank.listen()
        if not running or any(rank.process.returncode for rank in ranks):
            return True
        if time.monotonic() > ends:
            return False
        time.sleep(POLL_S)


def _problem(ranks: Sequence[_Rank], ended: bool, took_s: float) -> str:
    for number, rank in enumerate(ranks):
        failed = rank.heard("failed")
        if failed is not None:
            return f"rank {number}, {failed['while']}: {failed['error']}"
    for number, rank in enumerate(ranks):
        code = rank.process.returncode
        if code:
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
            return f"rank {number} {how} while it was at: {rank.stage()}"
    stages = "; ".join(f"rank {number}: {rank.stage()}" for number, rank in enumerate(ranks[:8]))
    return (
        f"it was not done after {took_s:.0f} s ({stages})" if not ended else f"not all ranks came to the end ({stages})"
    )


def _last_lines(ranks: Sequence[_Rank]) -> tuple[str, ...]:
    """Of the first rank that failed, else of the first that wrote anything."""
    for rank in sorted(ranks, key=lambda r: not r.process.returncode):
        rank.log.seek(0, os.SEEK_END)
        rank.log.seek(max(0, rank.log.tell() - 8192))
        lines = [line for line in rank.log.read().decode(errors="replace").splitlines() if line.strip()]
        if lines:
            return tuple(lines[-LINES:])
    return ()


def _sizes(ranks: Sequence[_Rank], processes: int) -> tuple[AllReduceSize, ...]:
    """The sizes that all ranks came through; what the slowest of them measured counts."""
    measured: dict[int, list[dict[str, Any]]] = {}
    for rank in ranks:
        for said in rank.said:
            if said.get("what") == "size":
                measured.setdefault(said["bytes"], []).append(said)
    found = []
    for size, all_ranks in sorted(measured.items()):
        median = max(said["median_s"] for said in all_ranks)
        if len(all_ranks) == processes and median > 0:
            found.append(
                AllReduceSize(size, all_ranks[0]["calls"], median, 2 * (processes - 1) / processes * size / median)
            )
    return tuple(found)
