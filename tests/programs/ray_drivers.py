"""The driver of a Ray job, of one kind:

    trains    trains itself, beside an actor that has nothing to do; with --lr 1e30 it trains on NaN
    waits     waits in ray.get for an actor that trains
    polls     sleeps for a minute at a time while an actor computes
    asleep    waits in ray.get for an actor that sleeps

``--address ray://...``: through a Ray client. Prints READY when that has begun.
"""

from __future__ import annotations

import argparse
import time

import ray
import torch

torch.set_num_threads(1)


def train(lr: float, steps: int = 0) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    done = 0
    while not steps or done < steps:
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        done += 1
        time.sleep(0.02)


@ray.remote(num_cpus=0)
class Worker:
    def train(self, steps: int) -> None:
        train(1e-3, steps)

    def compute(self) -> None:
        while True:
            sum(range(10_000))

    def sleep(self) -> None:
        time.sleep(100_000)


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("kind", choices=["trains", "waits", "polls", "asleep"])
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--address", default=None)
    args = p.parse_args()
    ray.init(args.address, log_to_driver=False)
    worker = Worker.remote()
    ray.get(worker.train.remote(1))
    running = {"waits": lambda: worker.train.remote(0), "polls": worker.compute.remote, "asleep": worker.sleep.remote}
    result = running.get(args.kind, lambda: None)()
    print("READY", flush=True)
    if args.kind == "trains":
        train(args.lr)
    while args.kind == "polls":
        time.sleep(60)
    ray.get(result)


if __name__ == "__main__":
    main()
