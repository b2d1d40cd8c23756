"""Nothing is wrong: a compiled model, batches of two sizes, a validation each twentieth step."""

import itertools

import torch
from small import BATCH, WIDTH, Clock, network
from torch import nn

MANIFEST = {"code": None, "ranks": [1]}


def sizes():
    return itertools.cycle([BATCH] * 9 + [BATCH // 2])


def validate(model, x, y):
    model.eval()
    with torch.inference_mode():
        score = (model(x).argmax(-1) == y).float().mean()
    model.train()
    return score.item()


def main():
    inner = network()
    model = torch.compile(inner, backend="eager")
    optimizer = torch.optim.SGD(inner.parameters(), lr=1e-3, nesterov=True, momentum=0.9)
    clock, best = Clock(), 0.0
    for n, size in enumerate(sizes()):
        x, y = torch.randn(size, WIDTH), torch.randint(10, (size,))
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if n % 20 == 0:
            best = max(best, validate(model, x, y))
        clock(loss.item())


main()
