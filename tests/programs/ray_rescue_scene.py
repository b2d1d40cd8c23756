"""Actors in every state that a rescue meets, each named for what it does. Prints their pids as JSON, and ``ready``; then how each ends.

Run in a cluster; an address may be given. It goes on until it is ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from typing import Any

import ray

NAP_S = 600.0
REST_S = 0.002
"""What computes leaves the machine to the tests now and then."""


class CollectorCode:
    """``games`` and ``moves`` count what it does."""

    def __init__(self) -> None:
        self.games, self.moves = 0, 0.5
        self.a, self.b = threading.Lock(), threading.RLock()

    @property
    def score(self) -> int:
        raise AssertionError("a property of the user's is called")

    def pid(self) -> int:
        return os.getpid()

    def played(self) -> int:
        return self.games

    def play(self, seconds: float = NAP_S) -> int:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            try:
                for _ in range(2000):
                    self.games += 1
                time.sleep(REST_S)
            except Exception:
                time.sleep(0)
        return self.games

    def nap(self) -> None:
        time.sleep(NAP_S)

    def get(self, refs: list[Any]) -> Any:
        return ray.get(refs[0])  # GET

    def wait(self, refs: list[Any]) -> int:
        return len(ray.wait(refs, num_returns=2, timeout=NAP_S)[0])  # WAIT

    def deadlock(self) -> None:
        threading.Thread(target=self.write_stats, name="stats", daemon=True).start()
        with self.a:
            time.sleep(0.3)
            with self.b:  # DEADLOCK
                self.games += 1

    def write_stats(self) -> None:
        with self.b:
            time.sleep(0.6)
            with self.a:  # STATS
                self.moves += 1


class StreamerCode:
    def __init__(self) -> None:
        self.sent = 0

    async def pid(self) -> int:
        return os.getpid()

    async def played(self) -> int:
        return self.sent

    async def stream(self) -> None:
        self.sent += 1
        await self.next_one()

    async def next_one(self) -> None:
        await asyncio.sleep(NAP_S)  # STREAM

    async def get(self, refs: list[Any]) -> Any:
        return await refs[0]  # AWAIT

    async def spin(self) -> None:
        while True:
            self.sent += 1
            time.sleep(REST_S)


@ray.remote(num_cpus=0)
class StuckLoader:
    def __init__(self) -> None:
        self.loaded = 3
        time.sleep(NAP_S)  # IN_INIT


@ray.remote(num_cpus=0, max_retries=0)
def long_task() -> int:
    done = 0
    while True:
        time.sleep(0.05)
        done += 1


Collector = ray.remote(num_cpus=0)(CollectorCode)
Streamer = ray.remote(num_cpus=0)(StreamerCode)
Threaded = ray.remote(num_cpus=0, max_concurrency=3)(CollectorCode)


def main() -> None:
    ray.init(address=sys.argv[1] if len(sys.argv) > 1 else "auto", namespace="scene", log_to_driver=False)
    names = ("idle", "busy", "napping", "getting", "waiting", "deadlocked")
    actors: dict[str, Any] = {name: Collector.options(name=name).remote() for name in names}
    actors |= {name: Streamer.options(name=name).remote() for name in ("streaming", "spinning")}
    actors["threaded"] = Threaded.options(name="threaded").remote()
    actors["unnamed"] = Collector.remote()
    loading = StuckLoader.options(name="loading").remote()
    pids = dict(zip(actors, ray.get([actor.pid.remote() for actor in actors.values()]), strict=True))
    nap, never = actors["threaded"].nap.remote(), actors["threaded"].nap.remote()
    calls = {
        "busy": actors["busy"].play.remote(),
        "napping": actors["napping"].nap.remote(),
        "getting": actors["getting"].get.remote([nap]),
        "waiting": actors["waiting"].wait.remote([nap, never]),
        "deadlocked": actors["deadlocked"].deadlock.remote(),
        "streaming": actors["streaming"].stream.remote(),
        "awaiting": actors["streaming"].get.remote([nap]),
        "spinning": actors["spinning"].spin.remote(),
        "threaded": actors["threaded"].play.remote(),
        "task": long_task.remote(),
    }
    time.sleep(2.0)
    print(json.dumps(pids), flush=True)
    print("ready", flush=True)
    follow(actors, {ref: name for name, ref in calls.items()})
    del loading


def follow(actors: dict[str, Any], running: dict[Any, str]) -> None:
    """Tell how each call ends, and what its actor still knows then."""
    while True:
        done, _ = ray.wait(list(running), timeout=0.5) if running else (time.sleep(0.5) or [], [])
        for ref in done:
            name = running.pop(ref)
            try:
                print("ended", name, ray.get(ref), flush=True)
            except Exception as e:
                print("failed", name, type(e).__name__, flush=True)
            if name in actors:
                try:
                    print("alive", name, ray.get(actors[name].played.remote(), timeout=60), flush=True)
                except Exception as e:
                    print("dead", name, type(e).__name__, flush=True)


if __name__ == "__main__":
    main()
