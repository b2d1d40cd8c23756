"""A little training on a GPU, unprepared. Prints ``ready`` after its third step, and each step with its loss as ``STEP HEX``.

--optimizer plain, fused, foreach or capturable. --graph: a step is captured once and replayed; with --capture-again N, captured anew
every N steps, slowly. --steps N stops after N steps, --sleep S between steps. --resume DIR goes on from a checkpoint.
--hang-at STEP: from that step on, the GPU is busy for ever, in front of a forward pass; the program waits for its loss, and prints
``hung`` before. --read-every N: it reads, and waits for, the loss of every Nth step only. --long-kernel S: the same at every step, for S
seconds only. --keep-gil: that wait is made in a C call that keeps the GIL. At its end it prints the sum of its weights as ``weights HEX``.
"""

import argparse
import ctypes
import time

import torch
from torch import nn

FOR_EVER, CYCLES_PER_S = 1 << 60, 1_700_000_000
OPTIONS = {"plain": {}, "fused": {"fused": True}, "foreach": {"foreach": True}, "capturable": {"capturable": True}}


class Training:
    def __init__(self, args):
        torch.manual_seed(0)
        self.model = nn.Sequential(
            nn.Linear(64, args.width), nn.ReLU(), nn.Dropout(0.3), nn.BatchNorm1d(args.width), nn.Linear(args.width, 1)
        ).cuda()
        lr = torch.tensor(1e-2, device="cuda") if args.graph else 1e-2
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, **OPTIONS[args.optimizer])
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 1000)
        self.x = torch.linspace(-1, 1, 32 * 64, device="cuda").reshape(32, 64)
        self.loss = torch.zeros((), device="cuda")

    def compute(self):
        self.optimizer.zero_grad()
        loss = self.model(self.x).square().mean()
        loss.backward()
        self.optimizer.step()
        self.loss.copy_(loss.detach())


def captured(training, slowly):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        time.sleep(slowly)  # a client's question may come just now
        training.compute()
        time.sleep(slowly)
    return graph


def warm_up(training):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            training.compute()
    torch.cuda.current_stream().wait_stream(side)


def wait_for_gpu(keep_gil):
    if keep_gil:
        ctypes.PyDLL("libcuda.so.1").cuCtxSynchronize()  # PyDLL, unlike CDLL, does not release the GIL


def train(args):
    training = Training(args)
    step, graph = 0, None
    if args.resume:
        import traindbg

        parts = {"model": training.model, "optimizer": training.optimizer, "scheduler": training.scheduler}
        step = traindbg.resume(args.resume, **parts).step
    if args.graph:
        warm_up(training)
    while not args.steps or step < args.steps:
        if step + 1 == args.hang_at:
            torch.cuda._sleep(FOR_EVER)
            print("hung", flush=True)
            wait_for_gpu(args.keep_gil)
        elif args.long_kernel:
            torch.cuda._sleep(int(args.long_kernel * CYCLES_PER_S))
        if args.graph:
            if graph is None or (args.capture_again and step % args.capture_again == 0):
                graph = captured(training, 0.5 if args.capture_again else 0.0)
            graph.replay()
        else:
            training.compute()
        step += 1
        if step % args.read_every == 0:
            print(f"{step} {training.loss.item().hex()}", flush=True)
        training.scheduler.step()
        if step == 3:
            print("ready", flush=True)
        if args.sleep:
            time.sleep(args.sleep)
    print("weights", sum(p.double().sum().item() for p in training.model.parameters()).hex(), flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=0)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--sleep", type=float, default=0.0)
    p.add_argument("--optimizer", choices=OPTIONS, default="plain")
    p.add_argument("--graph", action="store_true")
    p.add_argument("--capture-again", type=int, default=0)
    p.add_argument("--hang-at", type=int, default=0)
    p.add_argument("--read-every", type=int, default=1)
    p.add_argument("--long-kernel", type=float, default=0.0)
    p.add_argument("--keep-gil", action="store_true")
    p.add_argument("--resume", default="")
    train(p.parse_args())


if __name__ == "__main__":
    main()
