"""The driver of a Ray job, of one kind:

    trains    trains itself, beside an actor that has nothing to do; with --lr 1e30 it trains on NaN
    waits     waits in ray.get for an actor that trains
    polls     sleeps for a minute at a time while an actor computes
    asleep    waits in ray.get for an actor that sleeps

``--address ray://...``: through a Ray client. Prints READY when that is under way.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path

import ray
import torch

torch.set_num_threads(1)


def train(lr: float, begun: Path, steps: int = 0) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    done = 0
    while not steps or done < steps:
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        done += 1
        if done == 5:
            begun.touch()
        time.sleep(0.02)


@ray.remote(num_cpus=0)
class Worker:
    def train(self, begun: Path, steps: int = 0) -> None:
        train(1e-3, begun, steps)

    def compute(self, begun: Path) -> None:
        begun.touch()
        while True:
            sum(range(10_000))

    def sleep(self, begun: Path) -> None:
        begun.touch()
        time.sleep(100_000)


def tell(begun: Path) -> None:
    while not begun.exists():
        time.sleep(0.05)
    print("READY", flush=True)


def join(address: str | None, tries: int = 3) -> None:
    """A client's server may not come up in Ray's own time on a busy machine."""
    for left in reversed(range(tries)):
        try:
            ray.init(address, log_to_driver=False)
        except ConnectionError:
            if not left:
                raise
        else:
            return


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("kind", choices=["trains", "waits", "polls", "asleep"])
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--address", default=None)
    args = p.parse_args()
    join(args.address)
    with tempfile.TemporaryDirectory() as folder:
        begun = Path(folder, "begun")
        worker = Worker.remote()
        ray.get(worker.train.remote(begun, 1))
        threading.Thread(target=tell, args=(begun,), daemon=True).start()
        if args.kind == "trains":
            train(args.lr, begun)
        method = {"waits": worker.train, "polls": worker.compute, "asleep": worker.sleep}[args.kind]
        result = method.remote(begun)
        while args.kind == "polls":
            time.sleep(60)
        ray.get(result)


if __name__ == "__main__":
    main()
