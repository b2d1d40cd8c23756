"""Actors and tasks that end, each in its own way and named for it. Prints READY when all have.

    raises   in its __init__                    leaves  by ray.actor.exit_actor()     exits   by sys.exit(3)
    vanishes by SIGKILL from outside            killed  by ray.kill                   owned   with the actor that made it
    homeless is bound to a node that is none    grouped with its placement group      fails   a task that raises
    alive    is the only one that goes on, with two calls done

With ``--eat``, an actor named "hungry" takes memory until somebody stops it. With ``--far``, "far" lives where the resource "extra" is.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from typing import Any

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy


@ray.remote(num_cpus=0)
class Mortal:
    def pid(self) -> int:
        return os.getpid()

    def leave(self) -> None:
        ray.actor.exit_actor()

    def exit(self) -> None:
        sys.exit(3)

    def make(self) -> int:
        self.child = Mortal.options(name="owned").remote()
        pid: int = ray.get(self.child.pid.remote())
        return pid

    def eat(self) -> None:
        taken = []
        while True:
            taken.append(b"x" * 50_000_000)  # written to: zeros would cost nothing
            time.sleep(0.1)


@ray.remote(num_cpus=0)
class Broken:
    def __init__(self) -> None:
        self.load("/models/7b")

    def pid(self) -> int:
        return os.getpid()

    def load(self, path: str) -> None:
        raise FileNotFoundError(f"no such model: {path}")  # RAISES


@ray.remote(num_cpus=0, max_retries=0)
def fails() -> None:
    raise KeyError("no such shard")  # FAILS


def made(name: str, **options: Any) -> Any:
    return Mortal.options(name=name, **options).remote()


def all_ways() -> list[Any]:
    alive, killed, owner, vanishes = (made(name) for name in ("alive", "killed", "owner", "vanishes"))
    group = placement_group([{"CPU": 1}])
    ray.get(group.ready())
    inside = PlacementGroupSchedulingStrategy(group)
    grouped = made("grouped", num_cpus=1, scheduling_strategy=inside)
    nowhere = NodeAffinitySchedulingStrategy("ab" * 28, soft=False)
    kept = [made("homeless", scheduling_strategy=nowhere), Broken.options(name="raises").remote()]
    ray.get([alive.pid.remote(), alive.pid.remote(), killed.pid.remote(), owner.make.remote(), grouped.pid.remote()])
    remove_placement_group(group)
    ray.kill(killed)
    ray.kill(owner)
    os.kill(ray.get(vanishes.pid.remote()), signal.SIGKILL)
    leaver, exiter = made("leaves"), made("exits")
    waited = [
        leaver.leave.remote(),
        exiter.exit.remote(),
        fails.remote(),
        *(one.pid.remote() for one in [*kept, vanishes, grouped]),
    ]
    for ref in waited:
        with contextlib.suppress(ray.exceptions.RayError, KeyError):
            ray.get(ref)
    return [alive, leaver, exiter, *kept]


def main() -> None:
    ray.init(namespace="ends", log_to_driver=False)
    if "--eat" in sys.argv:
        held = [made("hungry")]
        meal = held[0].eat.remote()
        with contextlib.suppress(ray.exceptions.RayError):
            ray.get(meal)
    elif "--far" in sys.argv:
        held = [made("far", resources={"extra": 1})]
        ray.get(held[0].pid.remote())
    else:
        held = all_ways()
    print("READY", flush=True)
    while held:
        time.sleep(1)


if __name__ == "__main__":
    main()
