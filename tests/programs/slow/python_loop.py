"""A metric in Python, one number after another."""

import torch
from small import SLOW, Clock, batches, network
from torch import nn

MANIFEST = {"code": "python_work", "ranks": [1]}


def confusion(scores, targets):
    counts = {}
    for row, target in zip(scores.tolist() * 600, targets.tolist() * 600, strict=True):
        best = max(range(len(row)), key=row.__getitem__)  # the slow line
        counts[best, target] = counts.get((best, target), 0) + 1
    return counts


def main():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    clock = Clock()
    for x, y in batches():
        scores = model(x)
        loss = nn.functional.cross_entropy(scores, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if SLOW:
            confusion(scores, y)
        clock(loss.item())


if __name__ == "__main__":
    main()
