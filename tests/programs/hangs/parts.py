"""What the scenes share: the process group, the options, a small model and its data; torch and nothing of traindbg."""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import distributed_c10d as c10d
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

WIDTH = 32
ADDRESS = os.environ.get("SCENE_ADDRESS", "127.0.0.1")
"""Where this process is to listen: that of its host, where the scene is spread over several."""
LIFE_S = 900
"""A scene that nobody stops ends by itself."""
SETTLED_S = 1.0
"""From the step of the trouble until every other rank waits or works as it will go on doing."""


class Squares(Dataset):
    """Numbers and their squares."""

    def __len__(self):
        return 1 << 20

    def __getitem__(self, i):
        x = torch.arange(WIDTH) * ((i % 97) / 97)
        return x, x.square().sum().reshape(1)


class Run:
    """One rank's share of the scene: its rank, whose turn it is to get into trouble, and when."""

    def __init__(self, *, culprit: int | None = None, first_culprit: int = 0, group: bool = True) -> None:
        """``culprit``: always this rank. ``first_culprit``: never a rank below. ``group=False`` leaves the process group to the scene."""
        parser = argparse.ArgumentParser()
        parser.add_argument("--seed", type=int, default=0)
        self.seed = parser.parse_args().seed
        signal.alarm(LIFE_S)
        torch.manual_seed(self.seed)
        torch.set_num_threads(1)
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.culprit = first_culprit + (self.seed + 1) % (self.world - first_culprit) if culprit is None else culprit
        self.step = 3 + self.seed % 3
        if self.rank == 0:
            say(f"culprit {self.culprit}")
        if group:
            dist.init_process_group("gloo")

    @property
    def is_culprit(self) -> bool:
        return self.rank == self.culprit

    def folder(self) -> tempfile.TemporaryDirectory[str]:
        """A directory for this rank's files, below the one that whoever started the scene will remove."""
        return tempfile.TemporaryDirectory(dir=os.environ.get("SCENE_FOLDER"))

    def with_little_memory(self) -> None:
        """From here on this process has as little memory as the control group that whoever started the scene has made."""
        with open(os.environ["LITTLE_MEMORY"], "w") as processes:
            processes.write(str(os.getpid()))

    def ready(self, after_s: float = SETTLED_S) -> None:
        """Print ``ready`` in a moment, whatever this thread does meanwhile."""
        timer = threading.Timer(after_s, say, ("ready",))
        timer.daemon = True
        timer.start()

    def trouble(self, step: int) -> bool:
        """Whether this rank gets into trouble at this step. The others say ``ready``, because the culprit may be unable to."""
        if step != self.step:
            return False
        if not self.is_culprit:
            self.ready()
        return self.is_culprit

    def model(self, width: int = WIDTH):
        """``(model, optimizer)``, the model wrapped for data parallel training."""
        model = nn.Sequential(nn.Linear(WIDTH, width), nn.ReLU(), nn.Linear(width, 1))
        model = DistributedDataParallel(model)
        return model, torch.optim.AdamW(model.parameters(), lr=1e-3)

    def loader(self, dataset: Dataset | None = None, *, batch_size: int = 4, workers: int = 0) -> DataLoader:
        """This rank's share of the data, the same number of batches for every rank."""
        dataset = dataset or Squares()
        sampler = DistributedSampler(dataset, self.world, self.rank, shuffle=False)
        return DataLoader(dataset, batch_size, sampler=sampler, num_workers=workers)


def beside() -> str:
    """Which process beside the job this one is, of those in the scene's EXPECTED; empty in a rank. Such a one ends by itself, too."""
    role = os.environ.get("BESIDE", "")
    if role:
        signal.alarm(LIFE_S)
        torch.set_num_threads(1)
    return role


def publish(name: str, value: object) -> None:
    """Tell the other processes of this scene something, as the port at which one listens."""
    folder = Path(os.environ["SCENE_FOLDER"])
    (folder / f".{name}").write_text(str(value))
    (folder / f".{name}").rename(folder / name)


def publish_port(name: str, port: int) -> None:
    """Tell them that it listens at this port of `ADDRESS`."""
    publish(name, f"{ADDRESS}:{port}")


def published(name: str) -> str:
    """Wait until one of them has told it."""
    told = Path(os.environ["SCENE_FOLDER"]) / name
    while not told.exists():
        time.sleep(0.02)
    return told.read_text()


def address(name: str) -> tuple[str, int]:
    """Where a process listens that has told its port by that name."""
    host, _, port = published(name).rpartition(":")
    return host, int(port)


def group_beside(rank: int):
    """A process group of two, a rank of the job (0) and a process beside it (1), over a store of their own: as the trainers of language
    models make it for the weights, beside the default group.
    """
    minutes = timedelta(minutes=30)
    if rank == 0:
        store = dist.TCPStore(ADDRESS, 0, 2, True, timeout=minutes, wait_for_workers=False)
        publish_port("weights-store", store.port)
    else:
        store = dist.TCPStore(*address("weights-store"), 2, False, timeout=minutes)
    store = dist.PrefixStore("weights", store)
    group, _ = c10d._new_process_group_helper(2, rank, [], "gloo", store, group_name="weights", timeout=minutes)
    c10d._world.pg_group_ranks[group] = {i: i for i in range(2)}
    return group


def say(text: str) -> None:
    print(text, flush=True)


def train_step(model, optimizer, batch) -> torch.Tensor:
    """One step of a training whose trouble is elsewhere; returns the loss."""
    x, y = batch
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()
