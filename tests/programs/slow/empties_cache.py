"""The GPU's memory is given back at each step. There is no GPU here: what stands for its driver takes 15 ms, as one does."""

import time

import torch
from small import SLOW, Clock, batches, network
from torch import nn

MANIFEST = {"code": "empty_cache", "ranks": [1]}


def main():
    torch.cuda.is_initialized = lambda: True
    torch.cuda.memory.is_initialized = lambda: True
    torch._C._cuda_emptyCache = lambda: time.sleep(0.015)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    clock = Clock()
    for x, y in batches():
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if SLOW:
            torch.cuda.empty_cache()  # the slow line
        clock(loss.item())


if __name__ == "__main__":
    main()
