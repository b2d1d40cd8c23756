"""Two DDP ranks, forked by one process, each printing ``RANK STEP LOSS`` as exact hex and at the end ``RANK parameters SHA256``.

--optimizer adamw | sgd (which keeps no count of its steps); --steps N (0: for ever); --sleep S; --lr-at STEP VALUE: from that step on this
very code uses VALUE, whatever its cosine schedule says: what a live change must be equal to. Rank 0 prints ``ready`` after three steps.
"""

import argparse
import hashlib
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


def train(rank, address, args):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    if args.optimizer == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100_000)
    torch.manual_seed(rank)
    step = 0
    while not args.steps or step < args.steps:
        loss = model(torch.randn(4, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        step += 1
        scheduled = optimizer.param_groups[0]["lr"]
        if step >= args.lr_at[0]:
            optimizer.param_groups[0]["lr"] = args.lr_at[1]
        optimizer.step()
        optimizer.param_groups[0]["lr"] = scheduled
        scheduler.step()
        print(f"{rank} {step} {loss.item().hex()}\n", end="", flush=True)  # one write: two ranks share the file
        if step == 3 and rank == 0:
            print("ready\n", end="", flush=True)
        time.sleep(args.sleep)
    values = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    print(f"{rank} parameters {hashlib.sha256(values).hexdigest()}\n", end="", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--optimizer", default="adamw")
    p.add_argument("--steps", type=int, default=0)
    p.add_argument("--sleep", type=float, default=0.0)
    p.add_argument("--lr-at", nargs=2, type=float, default=(float("inf"), 0.0))
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as place:
        mp.start_processes(train, (f"file://{place}/store", args), nprocs=2, start_method="fork")


if __name__ == "__main__":
    main()
