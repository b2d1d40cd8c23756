"""A driver that leaves a detached actor and a detached placement group behind; with ``stay`` it goes on after ``ready``."""

from __future__ import annotations

import sys
import time

import ray
from ray.util import placement_group


@ray.remote(num_cpus=0)
class Keeper:
    def name(self) -> str:
        return "keeper"


def main() -> None:
    ray.init(address="auto", namespace="left", log_to_driver=False)
    keeper = Keeper.options(name="keeper", lifetime="detached").remote()
    group = placement_group([{"CPU": 1}], name="reserve", lifetime="detached")
    ray.get([keeper.name.remote(), group.ready()])
    print("ready", flush=True)
    while "stay" in sys.argv:
        time.sleep(0.1)


if __name__ == "__main__":
    main()
