"""As many threads as some other machine has CPUs."""

import torch
from small import SLOW, WORLD, Clock, batches, network, parallel
from torch import nn

MANIFEST = {"code": "too_many_threads", "ranks": [1, 2], "line": None}


def main():
    torch.set_num_threads((32 if WORLD == 1 else 4) if SLOW else 1)
    model = parallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    clock = Clock()
    for x, y in batches():
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock(loss.item())


if __name__ == "__main__":
    main()
