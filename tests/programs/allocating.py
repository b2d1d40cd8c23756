"""Trains in one thread on batches of ever other sizes, so that most of its time goes into allocating. Prints losses as train.py does."""

import random

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    sizes = random.Random(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Dropout(0.2), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    step = 0
    while True:
        pieces = [torch.randn(sizes.randrange(1, 3000), 8) for _ in range(20)]
        x = torch.cat(pieces)[: sizes.randrange(10, 4000)]
        words = [str(number) * sizes.randrange(1, 50) for number in range(200)]
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean() + len(" ".join(words)) * 1e-9
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        step += 1
        print(f"{step} {loss.item().hex()}", flush=True)
        if step == 3:
            print("ready", flush=True)


if __name__ == "__main__":
    main()
