"""A dataset with a Python list of a million texts: each worker that reads them copies the pages that they lie in."""

import argparse
import random
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Texts(Dataset):
    def __init__(self, count):
        self.texts = [f"{random.random()} {i}" for i in range(count)]  # leaks

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        near = [self.texts[(i + 997 * k) % len(self.texts)] for k in range(200)]
        return torch.tensor([float(len(text)) for text in near[:32]])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--steps", type=int, default=0)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    model = nn.Linear(32, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(Texts(1_000_000), batch_size=4, shuffle=True, num_workers=2)
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
        time.sleep(0.01)


main()
