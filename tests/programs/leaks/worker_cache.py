"""A dataset that keeps all that it has read: in each worker, for itself, and for as long as that lives."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __init__(self):
        self.read = {}

    def __len__(self):
        return 1_000_000

    def __getitem__(self, i):  # leaks
        if i not in self.read:
            self.read[i] = torch.full((4096,), i / len(self))
        return self.read[i][:32].clone()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--steps", type=int, default=0)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    model = nn.Linear(32, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(Pictures(), batch_size=32, shuffle=True, num_workers=2)
    for count, x in enumerate(loader, 1):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{count} {loss.item().hex()}", flush=True)
        if count == 12:
            print("ready", flush=True)
        if count == args.steps:
            return
        time.sleep(0.004)


main()
