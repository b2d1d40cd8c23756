"""A real little training, unprepared: everything is a local of main(). Prints ``ready``, then the loss of each step as exact hex.

--steps N stops after N steps (0: for ever); --workers N DataLoader workers; --sleep S between steps; --freeze calls gc.freeze().
"""

import argparse
import gc
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, i):
        x = torch.full((16,), i / 4096)
        return x + torch.arange(16) / 16, (x * x).sum().reshape(1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=0)
    p.add_argument("--workers", type=int, default=0)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--sleep", type=float, default=0.0)
    p.add_argument("--freeze", action="store_true")
    args = p.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(
        nn.Linear(16, args.width),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(args.width, args.width),
        nn.ReLU(),
        nn.Linear(args.width, 1),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10_000)
    loader = DataLoader(Squares(), batch_size=32, shuffle=True, num_workers=args.workers)
    if args.freeze:
        gc.freeze()
    step = 0
    while True:
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            step += 1
            print(f"{step} {loss.item().hex()}", flush=True)
            if step == 3:
                print("ready", flush=True)
            if step == args.steps:
                return
            if args.sleep:
                time.sleep(args.sleep)


if __name__ == "__main__":
    main()
