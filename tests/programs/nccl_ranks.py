"""Ranks of a real NCCL job that share one GPU, under a launcher: each says that it is on a host of its own, so NCCL lets them.

Trains until the file FOLDER/go is there. Then ``--how`` it hangs: ``skip``: the last rank leaves an all_reduce out and waits for a file;
``kernel``: the last rank's GPU is busy for ever in front of it; ``timeout``: as skip, with a time-out of 8 s, at which torch's watchdog
writes its dumps. Prints ``ready`` after the third step, and each rank ``hung`` when it is about to.
"""

import argparse
import os
import sys
import threading
import time
from datetime import timedelta

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
os.environ["NCCL_HOSTID"] = f"host-of-rank-{RANK}"
os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402


def say(line):
    os.write(1, f"{line}\n".encode())  # one write: ranks share a file


def wait_for_shard():
    threading.Event().wait()


def step(model, optimizer, x):
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    return loss.item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("--how", choices=["skip", "kernel", "timeout"], default="skip")
    args = p.parse_args()
    torch.cuda.set_device(0)
    timeout = timedelta(seconds=8 if args.how == "timeout" else 600)
    dist.init_process_group("nccl", timeout=timeout, device_id=torch.device("cuda:0"))
    torch.manual_seed(0)
    model = nn.Linear(64, 1).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.full((8, 64), 0.1 * (RANK + 1), device="cuda")
    done, go = 0, torch.zeros(1, device="cuda")
    while True:
        step(model, optimizer, x)
        done += 1
        if done == 3 and RANK == 0:
            say("ready")
        go.fill_(float(os.path.exists(os.path.join(args.folder, "go"))))
        dist.broadcast(go, 0)
        if go.item():
            break
        time.sleep(0.05)
    say("hung")
    if RANK == WORLD - 1:
        if args.how == "kernel":
            torch.cuda._sleep(1 << 60)
        else:
            wait_for_shard()
    step(model, optimizer, x)
    return 0


if __name__ == "__main__":
    sys.exit(main())
