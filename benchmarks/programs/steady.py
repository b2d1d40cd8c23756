"""A training with steps of steady length, which notes when each step ended. Knows nothing of any debugger.

--kind torch   a transformer layer, AdamW and a scheduler on one CPU thread
--kind cuda    a larger one on a GPU
--kind python  pure Python work and one small optimizer step
--kind bare    nothing but a tiny backward and optimizer step, about 0.15 ms: shows the price of a step in microseconds

The work of a step is its --size (sequences in a batch, rounds of a loop); without one, it is found by trying what takes --step-ms.
--stamps FILE is made: 8 bytes with the number of steps, 8 with the size, then the `time.perf_counter` of each step's end. Prints ``ready``
after warming up; ends by itself when its --parent is gone or --most-s seconds are over. SIGUSR1 has it profile the next steps itself, with
shapes, memory and stacks, as guides write it; SIGUSR2 with nothing but the operators.
"""

import argparse
import mmap
import os
import signal
import tempfile
import threading
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

STAMPS = 1 << 22
HEAD = 2
WARM_UP_STEPS, PROFILED_STEPS = 20, 5


class Batches(IterableDataset):
    def __init__(self, *shape, device="cpu"):
        self.batch = torch.randn(*shape, device=device)

    def __iter__(self):
        while True:
            yield self.batch


def torch_steps(model, loader):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100_000)
    for x in loader:
        loss = nn.functional.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        loss.item()
        yield


def training(batch):
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
    return torch_steps(model, DataLoader(Batches(batch, 32, 64), batch_size=None))


def cuda_training(batch):
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.1, batch_first=True, device="cuda")
    return torch_steps(model, DataLoader(Batches(batch, 128, 1024, device="cuda"), batch_size=None))


def bare(size):
    return torch_steps(nn.Linear(4, 4), DataLoader(Batches(2, 4), batch_size=None))


def fitting_size(make, size, step_ms):
    """The size whose steps take about `step_ms`."""
    for _ in range(4):
        took_ms = usual_ms(make(size))
        if 0.95 < took_ms / step_ms < 1.05:
            break
        size = max(1, round(size * step_ms / took_ms))
    return size


def python_steps(rounds):
    weight = nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([weight], lr=1e-6)
    while True:
        total = 0
        for i in range(rounds):
            total += work(i)
        weight.grad = torch.full((4,), 1.0 / (1 + total))
        optimizer.step()
        yield


def work(i):
    return i * i % 7


def usual_ms(steps, n=30):
    times = []
    for _ in range(n):
        began = time.perf_counter()
        next(steps)
        times.append(time.perf_counter() - began)
    return sorted(times)[n // 2] * 1e3


class Profiling:
    """What a person adds to a loop to profile some of its steps, wherever a signal asks for that."""

    def __init__(self):
        self.profiler, self.ends = None, 0
        self.wanted = []
        signal.signal(
            signal.SIGUSR1,
            lambda *_: self.wanted.append({"record_shapes": True, "profile_memory": True, "with_stack": True}),
        )
        signal.signal(signal.SIGUSR2, lambda *_: self.wanted.append({}))

    def stepped(self, n):
        if self.profiler is not None and n == self.ends:
            self.profiler.stop()
            with tempfile.TemporaryDirectory() as folder:
                self.profiler.export_chrome_trace(os.path.join(folder, "trace.json"))
            self.profiler = None
        if self.wanted and self.profiler is None:
            self.profiler = torch.profiler.profile(**self.wanted.pop())
            self.profiler.start()
            self.ends = n + PROFILED_STEPS


KINDS = {"torch": (training, 4), "cuda": (cuda_training, 4), "python": (python_steps, 10_000), "bare": (bare, 1)}
"""How the steps are made, and the size to try first."""


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--kind", choices=KINDS, default="torch")
    p.add_argument("--step-ms", type=float, default=5.0)
    p.add_argument("--size", type=int, default=0)
    p.add_argument("--stamps", required=True)
    p.add_argument("--parent", type=int, default=0)
    p.add_argument("--most-s", type=float, default=1800.0)
    args = p.parse_args()
    torch.set_num_threads(1)
    # Injection borrows a thread that waits in a system call, and computing on one thread leaves none; most trainings have a logger's,
    # a loader's or a pool's.
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    with open(args.stamps, "w+b") as f:
        f.truncate(8 * (HEAD + STAMPS))
        stamps = mmap.mmap(f.fileno(), 0)
    counts, times = memoryview(stamps).cast("q"), memoryview(stamps).cast("d")
    make, first_try = KINDS[args.kind]
    counts[1] = args.size or (fitting_size(make, first_try, args.step_ms) if args.step_ms else first_try)
    steps = make(counts[1])
    for _ in range(WARM_UP_STEPS):
        next(steps)
    profiling = Profiling()
    print("ready", flush=True)
    ends = time.perf_counter() + args.most_s
    for n in range(1, STAMPS + 1):
        next(steps)
        now = times[HEAD + n - 1] = time.perf_counter()
        counts[0] = n
        profiling.stepped(n)
        if now > ends or (args.parent and os.getppid() != args.parent):
            return


if __name__ == "__main__":
    main()
