"""The guide's scene: a driver that says "Collecting trajectories..." and waits for its self-play workers, of which two never answer.

One has deadlocked with its own thread 'stats': each holds a lock and waits for the other's. One is stuck in ``__init__``. The rest play
for long. The driver prints ``deadlocked INDEX PID``, ``stuck INDEX PID`` and ``healthy INDEX PID`` and, once all that is so, ``READY``.

--workers N; --deadlocked I, --stuck I (-1: none; by default the third from the end and the last but one); --cpus C of each worker;
--games N: a healthy worker ends after so many (0: none ends).
"""

import argparse
import os
import socket
import tempfile
import threading
import time
from pathlib import Path

import ray


class Engine:
    """Plays; a second thread keeps its statistics."""

    def __init__(self, deadlocks):
        self.a, self.b = threading.Lock(), threading.Lock()
        self.moves = 0
        self.deadlocks = deadlocks
        self.now, self.both_hold_one = threading.Event(), threading.Barrier(2)
        threading.Thread(target=self.count, name="stats", daemon=True).start()

    def load(self):
        ours, self.never_answers = socket.socketpair()
        return ours.recv(1)  # STUCK

    def step(self):
        with self.b:
            if self.deadlocks and self.moves == 20:
                self.now.set()
                self.both_hold_one.wait()
            with self.a:  # DEADLOCK
                self.moves += 1
        time.sleep(0.02)  # HEALTHY

    def count(self):
        if self.deadlocks:
            self.now.wait()
            with self.a:
                self.both_hold_one.wait()
                with self.b:  # STATS
                    pass
        threading.Event().wait()


@ray.remote
class SelfPlayWorker:
    def __init__(self, index, role, folder):
        self.index, self.role, self.folder = index, role, Path(folder)
        self.games = 0
        self.engine = Engine(deadlocks=role == "deadlocked")
        if role == "stuck":
            self.tell()
            self.engine.load()

    def tell(self):
        """The driver waits for this; it does not change with the worker's place."""
        made = self.folder / f".{self.index}"
        made.write_text(f"{self.role} {self.index} {os.getpid()}")
        made.rename(self.folder / str(self.index))

    def run(self, games):
        while self.games != games or not games:
            self.play()
        return self.games

    def play(self):
        for _ in range(40):
            self.engine.step()
            if self.engine.moves == 20:
                self.tell()
        self.games += 1


def watch(folder, count):
    told = set()
    while len(told) < count:
        time.sleep(0.05)
        for file in sorted(folder.glob("[0-9]*")):
            if file.name not in told:
                told.add(file.name)
                print(file.read_text(), flush=True)
    time.sleep(0.2)  # from telling it to the lock
    print("READY", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--workers", type=int, default=8)
    p.add_argument("--deadlocked", type=int, default=None)
    p.add_argument("--stuck", type=int, default=None)
    p.add_argument("--cpus", type=float, default=1)
    p.add_argument("--games", type=int, default=0)
    args = p.parse_args()
    roles = {
        args.workers - 3 if args.deadlocked is None else args.deadlocked: "deadlocked",
        args.workers - 2 if args.stuck is None else args.stuck: "stuck",
    }
    ray.init(log_to_driver=False)
    folder = Path(tempfile.mkdtemp(dir=os.environ.get("RAY_TMPDIR")))
    make = SelfPlayWorker.options(num_cpus=args.cpus)
    workers = [make.remote(i, roles.get(i, "healthy"), str(folder)) for i in range(args.workers)]
    futures = [worker.run.remote(args.games) for worker in workers]
    threading.Thread(target=watch, args=(folder, args.workers), daemon=True).start()
    print("Collecting trajectories...", flush=True)
    done, waiting = ray.wait(futures, num_returns=len(futures), timeout=1800)  # DRIVER
    print(f"{len(done)} done, {len(waiting)} not", flush=True)


if __name__ == "__main__":
    main()
