"""A job of three short epochs, a checkpoint of it by the simplest means, and its losses where it goes on from there."""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler
from torch.utils.data.distributed import DistributedSampler

import jupyter_traindbg
from jupyter_traindbg import agent as agent_package
from jupyter_traindbg.agent.checkpoint.collect import Found, collect
from jupyter_traindbg.agent.checkpoint.seal import file_bytes
from jupyter_traindbg.agent.core import Agent


class Noisy(Dataset[torch.Tensor]):
    """Augments at random with all three generators."""

    def __init__(self, size: int = 40) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, i: int) -> torch.Tensor:
        return torch.full((4,), i / self.size) + torch.rand(4) * random.random() + float(np.random.rand())


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        return (torch.full((4,), i / 10) + torch.rand(4) for i in range(40))


class Still(Noisy):
    """Draws nothing."""

    def __getitem__(self, i: int) -> torch.Tensor:
        return torch.full((4,), i / self.size)


LOADERS: dict[str, Callable[[], DataLoader[Any]]] = {
    "shuffled": lambda: DataLoader(Noisy(), batch_size=4, shuffle=True),
    "own generator": lambda: DataLoader(
        Noisy(), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(5)
    ),
    "batch sampler": lambda: DataLoader(Noisy(), batch_sampler=BatchSampler(RandomSampler(Noisy()), 4, drop_last=True)),
    "with replacement": lambda: DataLoader(
        Noisy(), batch_size=4, sampler=RandomSampler(Noisy(), replacement=True, num_samples=40)
    ),
    "distributed": lambda: DataLoader(Noisy(80), batch_size=4, sampler=DistributedSampler(Noisy(80), 2, 1)),
    "iterable": lambda: DataLoader(Stream(), batch_size=4),
    "unbatched": lambda: DataLoader(Noisy(10), batch_size=None, shuffle=True),
}
WORKERS = "workers"
"""Forks: for integration tests only."""


def _loader(name: str) -> DataLoader[Any]:
    return DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=2) if name == WORKERS else LOADERS[name]()


class Job:
    """Ten batches an epoch, three epochs. `at(step)` is called in the forward pass of the step after `step`, when dropout has drawn."""

    def __init__(self, loader: str = "shuffled", *, accumulate: int = 1, scaler: bool = False, seed: int = 0) -> None:
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=40)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=3, enabled=scaler)
        self.loader = _loader(loader)
        self.accumulate = accumulate
        self.losses: list[str] = []

    def run(
        self, in_forward: Callable[[int], object] = lambda taken: None, resumed: Any = None, most: int = 10**9
    ) -> list[str]:
        start = (resumed.epoch or 0) if resumed is not None else 0
        for epoch in range(start, 3):
            if hasattr(self.loader.sampler, "set_epoch"):
                self.loader.sampler.set_epoch(epoch)
            for i, x in enumerate(resumed.batches(self.loader) if resumed is not None else self.loader):
                out = self.model(x)
                in_forward(len(self.losses))
                loss = out.square().mean()
                self.scaler.scale(loss / self.accumulate).backward()
                self.losses.append(loss.item().hex())
                if len(self.losses) == most:
                    return self.losses
                if (i + 1) % self.accumulate == 0:
                    self.scaler.step(self.optimizer)
                    self.scaler.update()
                    self.optimizer.zero_grad()
                    self.scheduler.step()
        return self.losses

    def parts(self) -> dict[str, Any]:
        scaler = {"scaler": self.scaler} if self.scaler.is_enabled() else {}
        return {"model": self.model, "optimizer": self.optimizer, "scheduler": self.scheduler, **scaler}


def write(agent: Agent, job: Job, directory: Path) -> None:
    """A checkpoint of `job` as it stands, by the simplest means."""
    found = Found(agent)
    found.models, found.optimizers = [job.model], [job.optimizer]
    found.schedulers, found.scalers = [(job.scheduler, 0)], [job.scaler] if job.scaler.is_enabled() else []
    found.others.saved = []
    found.names = {id(p): n for n, p in job.model.named_parameters()}
    contents = collect(agent, found, kind="replicated", weights=True, boundary=agent.boundary.for_checkpoint())
    assert contents.notes == []
    for place, key in contents.numbers:
        place[key] = place[key].item()
    directory.mkdir()
    for name, tree in contents.files.items():
        torch.save(tree, directory / name)
    seal(directory)


def seal(directory: Path, kind: str = "replicated") -> None:
    files = {
        f.name: {"bytes": f.stat().st_size, "sha256": hashlib.sha256(f.read_bytes()).hexdigest(), "rank": None}
        for f in directory.iterdir()
        if f.name != "manifest.json"
    }
    content = {
        "format": "traindbg-checkpoint",
        "version": 1,
        "kind": kind,
        "created_s": 1.0,
        "world_size": 1,
        "ranks": [0],
    }
    content.update(step=1, steps={"0": 1}, mixed=False, taken="hung", exact=True, files=files)
    (directory / "manifest.json").write_bytes(file_bytes(content))


def elsewhere(function: Callable[[], object]) -> None:
    """Run `function` on another thread, as an agent does while the training hangs."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as e:
            errors.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    if errors:
        raise errors[0]


def interrupted(agent: Agent, job: Job, directory: Path, *, hung_at: int) -> list[str]:
    """The losses of `job`, of which a checkpoint was taken from another thread in the forward pass after `hung_at` batches."""

    def in_forward(taken: int) -> None:
        if taken == hung_at:
            elsewhere(lambda: write(agent, job, directory))

    return job.run(in_forward)


def resumed_losses(directory: Path, job: Job, most: int = 10**9, **options: Any) -> tuple[list[str], Any]:
    resumed = jupyter_traindbg.resume(directory, **{**job.parts(), **options})
    return job.run(resumed=resumed, most=most), resumed


def interrupted_with_a_late_agent(job: Job, folder: Path) -> list[str]:
    """As `interrupted` after 7 batches, of an agent that came in the third step; the checkpoint is ``folder/ckpt``."""
    running: list[Agent] = []

    def in_forward(taken: int) -> None:
        if taken == 3:
            (folder / "agent").mkdir(mode=0o700)
            running.append(agent_package.start(str(folder / "agent"), keep=True))
        if taken == 7:
            elsewhere(lambda: write(running[0], job, folder / "ckpt"))

    try:
        losses = job.run(in_forward)
        assert running[0].safepoints.failures == []
    finally:
        running[0].stop()
    return losses


class ByIndices:
    """A resume that skips indices instead of batches."""

    def __init__(self, resumed: Any) -> None:
        self.resumed, self.epoch = resumed, resumed.epoch

    def batches(self, loader: Any) -> Iterator[Any]:
        batches: Iterator[Any] = self.resumed.batches(loader, fast_forward="indices")
        return batches


class Plain(Still):
    """Counts what was loaded, in this process."""

    loaded = 0

    def __getitem__(self, i: int) -> torch.Tensor:
        Plain.loaded += 1
        return super().__getitem__(i)


def skipping_indices(agent: Agent, directory: Path, workers: int) -> int:
    """A job of `workers` goes on with the same losses where indices are skipped; how many items were loaded in this process for it."""

    def job(seed: int) -> Job:
        made = Job(seed=seed)
        made.loader = DataLoader(Plain(), batch_size=4, shuffle=True, num_workers=workers)
        return made

    losses = interrupted(agent, job(0), directory, hung_at=17)
    agent.stop()
    fresh = job(9)
    resumed = jupyter_traindbg.resume(directory, **fresh.parts())
    Plain.loaded = 0
    rest = resumed.batches(fresh.loader, fast_forward="indices")
    assert Plain.loaded == 0
    assert len(list(rest)) == 3
    loaded = Plain.loaded
    again = job(9)
    assert again.run(resumed=ByIndices(jupyter_traindbg.resume(directory, **again.parts()))) == losses[17:]
    return loaded
