"""A Ray job whose workers play for ever: ``--busy`` of ``--workers`` compute all the time, the others wait as if for a game server.

Each writes how many steps it has done into its own 8 bytes of the file ``--counts``, for others to read without disturbing it. Prints
``ready``.
"""

import argparse
import mmap
import time

import ray


@ray.remote
class Player:
    def __init__(self, index, busy, counts):
        with open(counts, "r+b") as f:
            self.counts = memoryview(mmap.mmap(f.fileno(), 0)).cast("q")
        self.index, self.busy = index, busy

    def run(self):
        while True:
            self.step()
            self.counts[self.index] += 1

    def step(self):
        if self.busy:
            return sum(range(20_000))
        time.sleep(0.02)
        return 0


p = argparse.ArgumentParser()
p.add_argument("--workers", type=int, required=True)
p.add_argument("--busy", type=int, required=True)
p.add_argument("--counts", required=True)
args = p.parse_args()
ray.init(log_to_driver=False)
players = [Player.remote(i, i < args.busy, args.counts) for i in range(args.workers)]
runs = [player.run.remote() for player in players]
with open(args.counts, "rb") as f:
    seen = memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)).cast("q")
while not all(seen[i] for i in range(args.workers)):
    time.sleep(0.1)
print("ready", flush=True)
ray.wait(runs, num_returns=len(runs))
