"""A driver whose workers have our hook; prints their pids and ``ready``. With ``broken`` what the hook carries is damaged."""

from __future__ import annotations

import os
import sys
import time

import ray

from jupyter_traindbg.attach import payload

if "broken" in sys.argv:
    payload.archive = lambda: b"no archive"  # type: ignore[assignment]

import jupyter_traindbg


@ray.remote(num_cpus=0)
class Actor:
    def __init__(self) -> None:
        self.games = 5

    def pid(self) -> int:
        return os.getpid()


@ray.remote(num_cpus=0)
def task() -> int:
    return os.getpid()


def main() -> None:
    ray.init(
        address="auto",
        runtime_env={"worker_process_setup_hook": jupyter_traindbg.ray_worker_hook},
        log_to_driver=False,
    )
    actor = Actor.remote()
    print("pids", ray.get(actor.pid.remote()), ray.get(task.remote()), flush=True)
    print("ready", flush=True)
    while True:
        time.sleep(0.1)


if __name__ == "__main__":
    main()
