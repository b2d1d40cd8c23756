"""A job of DDP over gloo whose rank 1 ends in some way at step 5: ``torchrun gloo_ends.py HOW``; what the ranks print is what is tested."""

from __future__ import annotations

import datetime
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch import nn


class Data(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __init__(self, how: str) -> None:
        self.broken = how == "sample" and dist.get_rank() == 1

    def __len__(self) -> int:
        return 64

    def __getitem__(self, i: int) -> torch.Tensor:
        if self.broken and i == 20:
            raise ValueError("sample 20 has no label")
        return torch.ones(4)


def ends_itself(how: str) -> None:
    """What rank 1 does."""
    if how == "raise":
        raise ValueError("label 17 is out of range for 10 classes")
    if how in ("SIGKILL", "SIGSEGV"):
        os.kill(os.getpid(), signal.Signals[how])
    if how == "leave":
        sys.exit(0)
    if how == "status":
        os._exit(3)
    if how == "late":
        signal.pause()
    if how == "sizes":
        dist.all_reduce(torch.ones(9))  # rank 1


def meanwhile(how: str) -> None:
    """What the others do."""
    if how == "sizes":
        dist.all_reduce(torch.ones(4))  # the others


def main(how: str) -> None:
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=8 if how in ("late", "fewer") else 60))
    rank = dist.get_rank()
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    workers = 1 if how == "sample" else 0
    for step, batch in enumerate(torch.utils.data.DataLoader(Data(how), batch_size=4, num_workers=workers)):
        if how == "fewer" and rank == 1 and step == 7:
            break
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()  # the step's collective
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if step == 5:
            (ends_itself if rank == 1 else meanwhile)(how)
    dist.barrier()  # the end
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
