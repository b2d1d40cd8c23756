"""An async actor and a threaded one, each with something stuck among what goes on. Prints ``READY`` when they are there.

``Fetcher`` (async, named "fetcher"): three calls of `fetch` await their turn again and again; the call `drain` awaits a queue that
nobody fills. ``Pool`` (4 threads, named "pool"): one call of `work` waits for a lock that another, `hold`, never gives back; a third
goes on. The driver waits for all of them.
"""

import asyncio
import os
import threading
import time

import ray


@ray.remote
class Fetcher:
    def __init__(self):
        self.queue = asyncio.Queue()
        self.fetched = 0

    async def fetch(self):
        while True:
            await self.one()

    async def one(self):
        await asyncio.sleep(0.05)  # FETCHING
        self.fetched += 1

    async def drain(self):
        return await self.take()  # DRAINING

    async def take(self):
        return await self.queue.get()  # STUCK

    async def told(self):
        return os.getpid() if self.fetched >= 3 and len(asyncio.all_tasks()) >= 5 else 0


@ray.remote
class Pool:
    def __init__(self):
        self.lock = threading.Lock()
        self.held = threading.Event()
        self.worked = 0

    def hold(self):
        with self.lock:
            self.held.set()
            threading.Event().wait()  # HOLDING

    def work(self):
        self.held.wait()
        with self.lock:  # WAITING
            pass

    def go_on(self):
        while True:
            time.sleep(0.02)  # GOING
            self.worked += 1

    def told(self):
        return os.getpid() if self.held.is_set() and self.worked else 0


def main():
    ray.init(log_to_driver=False)
    fetcher = Fetcher.options(name="fetcher", num_cpus=0).remote()
    pool = Pool.options(name="pool", num_cpus=0, max_concurrency=4).remote()
    calls = [fetcher.fetch.remote() for _ in range(3)] + [fetcher.drain.remote()]
    calls += [pool.hold.remote(), pool.work.remote(), pool.go_on.remote()]
    for actor, name in ((fetcher, "fetcher"), (pool, "pool")):
        while not (pid := ray.get(actor.told.remote())):
            time.sleep(0.05)
        print(name, pid, flush=True)
    time.sleep(0.2)
    print("READY", flush=True)
    ray.get(calls)  # DRIVER


if __name__ == "__main__":
    main()
