"""Trainings whose steps are not what one expects: ``odd_steps.py KIND [--passes N] [--sleep S] [--lr LR]``.

by-hand       no optimizer: clips, then changes the weights itself. Under torchrun with DistributedDataParallel.
tensors       the same of two tensors that belong to no module.
lbfgs         a closure that is evaluated again and again: a step takes minutes.
accumulating  so many micro-batches that a step takes minutes.
skipping      a GradScaler that skips every step: the loss is finite, and its gradient is not.

Prints ``ready`` after three backward passes and, with ``RANK `` before it under torchrun, each pass's number and loss as exact hex.
Computes for `--sleep` seconds between two passes rather than to sleep: it is a training that works.
"""

import argparse
import os
import time

import torch
from torch import nn

args = argparse.Namespace()
passes = 0


def main():
    p = argparse.ArgumentParser()
    p.add_argument("kind")
    p.add_argument("--passes", type=int, default=0)
    p.add_argument("--sleep", type=float, default=0.0)
    p.add_argument("--lr", type=float, default=0.05)
    p.parse_args(namespace=args)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    try:
        KINDS[args.kind]()
    except StopIteration:
        return


def passed(loss):
    """A backward pass is done."""
    global passes
    passes += 1
    rank = f"{os.environ['RANK']} " if "RANK" in os.environ else ""
    print(f"{rank}{passes} {loss.item().hex()}", flush=True)
    if passes == 3:
        print("ready", flush=True)
    if passes == args.passes:
        raise StopIteration
    until = time.monotonic() + args.sleep
    while time.monotonic() < until:
        torch.ones(64, 64) @ torch.ones(64, 64)


def batch():
    x = torch.randn(32, 16)
    return x, x.square().sum(1, keepdim=True)


def model_of(*layers):
    return nn.Sequential(nn.Linear(16, 64), nn.Tanh(), *layers, nn.Linear(64, 1))


def by_hand():
    model = model_of(nn.Dropout(0.1))
    if "RANK" in os.environ:
        torch.distributed.init_process_group("gloo")
        torch.manual_seed(int(os.environ["RANK"]))
        model = nn.parallel.DistributedDataParallel(model)
    while True:
        x, y = batch()
        model.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e9 if args.lr > 1 else 1.0)
        for parameter in model.parameters():
            parameter.data.add_(parameter.grad, alpha=-args.lr)
        passed(loss)


def tensors():
    first, second = torch.randn(16, 64, requires_grad=True), torch.randn(64, 1, requires_grad=True)
    while True:
        x, y = batch()
        loss = ((x @ first).clamp(min=0) @ second - y).square().mean()
        loss.backward()
        with torch.no_grad():
            for weights in (first, second):
                weights.sub_(weights.grad, alpha=1e-5)
                weights.grad = None
        passed(loss)


def lbfgs():
    model = model_of()
    optimizer = torch.optim.LBFGS(
        model.parameters(), lr=0.1, max_iter=10**9, max_eval=10**9, tolerance_grad=0, tolerance_change=0
    )
    x, y = batch()

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        passed(loss)
        return loss

    optimizer.step(closure)


def accumulating():
    model = model_of(nn.Dropout(0.1))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    while True:
        for _ in range(10**6):
            x, y = batch()
            loss = nn.functional.mse_loss(model(x), y) / 10**6
            loss.backward()
            passed(loss)
        optimizer.step()
        optimizer.zero_grad()


def skipping():
    model = model_of(nn.Dropout(0.1))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=20)
    while True:
        x, y = batch()
        optimizer.zero_grad()
        out = model(x)
        loss = nn.functional.mse_loss(out, y) + (0 * out).abs().sqrt().mean()  # its derivative at 0 is infinite
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        passed(loss)


KINDS = {
    "by-hand": by_hand,
    "tensors": tensors,
    "lbfgs": lbfgs,
    "accumulating": accumulating,
    "skipping": skipping,
}


if __name__ == "__main__":
    main()
