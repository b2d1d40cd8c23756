"""A small network learns to continue the log of a lighthouse; its learning rate is wrong. It knows nothing of jupyter-traindbg.

The schedule is warm-up and cosine with restarts, computed anew after every step by a LambdaLR, and its peak has a zero too few: all is well
during the first half of the warm-up, then the loss climbs. Steps take about 4 ms on one CPU core. Under torchrun it trains with DDP.

Like most trainings it writes its own log, and its own checkpoint every 50 steps. `--change STEP:LR` is what a notebook can do from outside,
written into the program instead: learning rate LR from step STEP on (`--change STEP:LR:RANK`: on that rank only).
"""

import argparse
import hashlib
import math
import os
import signal

import torch
import torch.distributed as dist
from demo_train import lighthouse_log
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, DistributedSampler

CONTEXT = 24
BATCH = 192
PEAK = 0.1  # 0.01 was meant
WARM_UP, RESTART = 300, 400


class NextLetter(Dataset):
    """CONTEXT letters of the text, and the one that follows."""

    def __init__(self, text):
        number = {letter: i for i, letter in enumerate(sorted(set(text)))}
        self.letters = len(number)
        self.text = torch.tensor([number[letter] for letter in text])

    def __len__(self):
        return len(self.text) - CONTEXT

    def __getitem__(self, start):
        return self.text[start : start + CONTEXT], self.text[start + CONTEXT]


class Speller(nn.Module):
    def __init__(self, letters, width=128):
        super().__init__()
        self.letter = nn.Embedding(letters, 16)
        self.mix = nn.Linear(16 * CONTEXT, width)
        self.think = nn.Linear(width, width)
        self.head = nn.Linear(width, letters)

    def forward(self, letters):  # [batch, CONTEXT] -> [batch, letters]
        x = F.gelu(self.mix(self.letter(letters).flatten(1)))
        return self.head(x + F.gelu(self.think(x)))


def schedule(step):
    """The share of PEAK: it rises during WARM_UP steps, then falls along a cosine to three quarters, again and again."""
    if step < WARM_UP:
        return (step + 1) / WARM_UP
    return 0.875 + 0.125 * math.cos(math.pi * ((step - WARM_UP) % RESTART) / RESTART)


def fingerprint(model):
    """A hash of every bit of every parameter."""
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    return hashlib.sha256(weights.numpy().tobytes()).hexdigest()[:12]


def save(path, step, model, optimizer, scheduler):
    state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}
    torch.save(state, f"{path}.new")
    os.replace(f"{path}.new", path)


def change(words):
    step, lr, *rank = words.split(":")
    return int(step), float(lr), int(rank[0]) if rank else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=0, help="stop after so many steps (0: do not)")
    parser.add_argument("--minutes", type=int, default=30, help="end after so long, should nobody be left to stop it")
    parser.add_argument("--save", help="where its own checkpoint goes")
    parser.add_argument("--change", type=change, action="append", default=[], metavar="STEP:LR[:RANK]")
    args = parser.parse_args()
    signal.alarm(60 * args.minutes)
    torch.set_num_threads(1)
    torch.manual_seed(1898)

    dataset = NextLetter(lighthouse_log())
    model, rank, sampler = Speller(dataset.letters), 0, None
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("gloo")
        model, rank, sampler = nn.parallel.DistributedDataParallel(model), dist.get_rank(), DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=BATCH, shuffle=sampler is None, sampler=sampler, drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK, betas=(0.9, 0.95))
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)

    step = 0
    while True:
        for letters, following in loader:
            step += 1
            for since, lr, only in args.change:
                if step >= since and only in (None, rank):
                    optimizer.param_groups[0]["lr"] = lr
            loss = F.cross_entropy(model(letters), following)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            # One write a line: ranks share the log. Nine digits give a float32 back exactly.
            line = f"step {step} rank {rank} loss {loss.item():.9g} lr {scheduler.get_last_lr()[0]:.6g}"
            weights = f" weights {fingerprint(model)}" if step % 50 == 0 else ""
            print(f"{line}{weights}\n", end="", flush=True)
            if args.save and rank == 0 and step % 50 == 0:
                save(args.save, step, model, optimizer, scheduler)
            if step == args.steps:
                return


if __name__ == "__main__":
    main()
