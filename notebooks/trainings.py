"""Runs the trainings of notebooks as processes of their own, and stops them however the notebook ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import traindbg

BESIDE = Path(__file__).resolve().parent
LIMIT_S = 120.0
WITH_TORCH_BYTES = 150 * 2**20
"""A process that has loaded torch has more than that resident, one that has not, less."""


class Training:
    """A program of this folder, running; with `ranks`, under torchrun. Its log goes to a file in `directory`."""

    def __init__(self, directory: Path, program: str, *args: object, ranks: int = 1, prepared: bool = False) -> None:
        descriptor, name = tempfile.mkstemp(".log", f"{Path(program).stem}-", directory)
        self.log = Path(name)
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
        environment = {k: v for k, v in os.environ.items() if k != "TRAINDBG"} | {"OMP_NUM_THREADS": "1"}
        os.close(descriptor)
        with self.log.open("ab") as log:  # appending: two ranks write to it
            self._process = subprocess.Popen(
                [sys.executable, *launcher, str(BESIDE / program), *map(str, args)],
                cwd=directory,
                env=environment | ({"TRAINDBG": "1"} if prepared else {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid, self.prepared, self._ranks = self._process.pid, prepared, ranks
        self.target = f"torchrun:{self.pid}" if ranks > 1 else str(self.pid)
        atexit.register(self.stop)

    def losses(self, rank: int = 0) -> dict[int, str]:
        """Loss of every step in its own log; nine digits, so equal text is equal to the last bit."""
        return {int(words[1]): words[5] for words in self._lines(rank)}

    def rates(self) -> dict[int, float]:
        """Learning rate of every step in its own log."""
        return {int(words[1]): float(words[7]) for words in self._lines(0)}

    def weights(self, rank: int = 0) -> dict[int, str]:
        """Hash of all parameters, of the steps whose line has one."""
        return {int(words[1]): words[9] for words in self._lines(rank) if len(words) > 9}

    def step(self) -> int:
        """The last step in its log; 0 before the first."""
        return max(self.losses(), default=0)

    def wait_for_step(self, step: int) -> int:
        """Wait until rank 0 has logged `step`; the step it is at by then."""
        self._wait(lambda: self.step() >= step, f"step {step}")
        return self.step()

    def wait_for(self, words: str) -> None:
        """Wait until its log has these words."""
        self._wait(lambda: words in self.log.read_text(), repr(words))

    def wait_until_quiet(self, seconds: float) -> None:
        """Wait until all its ranks are there, have loaded torch, and then use hardly any CPU for so long."""
        seen: list[tuple[float, float]] = []

        def quiet() -> bool:
            ranks = psutil.Process(self.pid).children() if self._process.poll() is None else []
            times = [process.cpu_times() for process in ranks]
            used = [of.user + of.system for of in times]
            seen.append((time.monotonic(), sum(used)))
            before = [cpu for at, cpu in seen if at <= seen[-1][0] - seconds]
            there = len(ranks) >= self._ranks and all(process.memory_info().rss > WITH_TORCH_BYTES for process in ranks)
            return there and bool(before) and seen[-1][1] - before[-1] < 0.05 * seconds

        self._wait(quiet, "silence")

    def last_line(self) -> str:
        """Of its log; empty where there is none yet."""
        return "".join(self.log.read_text().splitlines()[-1:])

    def finish(self) -> int:
        """Wait until it ends by itself; the last step in its log."""
        if self._process.wait(LIMIT_S):
            raise RuntimeError(f"the training ended with status {self._process.returncode}:\n{self.log.read_text()}")
        return self.step()

    def stop(self) -> None:
        """Kill it with all its ranks and DataLoader workers. A hung process does not listen to anything milder."""
        atexit.unregister(self.stop)
        family: list[psutil.Process] = []
        if self._process.poll() is None:
            with contextlib.suppress(psutil.NoSuchProcess):
                launcher = psutil.Process(self.pid)
                family = [launcher, *launcher.children(recursive=True)]  # torchrun gives its ranks sessions of their own
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)  # psutil looks first whether the pid is still that process's
        psutil.wait_procs(family, timeout=10)
        self._process.poll()

    def _lines(self, rank: int) -> list[list[str]]:
        rows = [line.split() for line in self.log.read_text().splitlines(keepends=True) if line.startswith("step ") and line.endswith("\n")]
        return [row for row in rows if row[3] == str(rank)]

    def _wait(self, done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not done():
            if self._process.poll() is not None and not done():
                raise RuntimeError(f"the training ended with status {self._process.returncode}:\n{self.log.read_text()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"no {what} in {LIMIT_S:.0f} s:\n{self.log.read_text()}")
            time.sleep(0.05)


def start(directory: Path, program: str, *args: object, ranks: int = 1) -> Training:
    """An unprepared training; where this system lets nobody into one, a prepared one (``TRAINDBG=1``), and a line says so."""
    training = Training(directory, program, *args, ranks=ranks)
    training.wait_for_step(1)
    reason = next((t.why_not for t in traindbg.targets() if t.pid == training.pid), None)
    if reason is None:
        return training
    print(f"this system lets nobody into an unprepared process ({reason}); starting it with TRAINDBG=1")
    training.stop()
    training = Training(directory, program, *args, ranks=ranks, prepared=True)
    training.wait_for_step(1)
    return training
