"""A loss that weighs its samples one by one, in Python, inside the model's own forward pass."""

import math

import torch
from small import SLOW, Clock, batches, network
from torch import nn

MANIFEST = {"code": "python_work", "ranks": [1]}


class WeightedLoss(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.frequencies = [1.0] * classes

    def weights(self, targets):
        found = []
        for target in targets.tolist() * (1200 if SLOW else 1):
            self.frequencies[target] += 1e-3
            found.append(1.0 / math.log(math.e + self.frequencies[target] + math.sqrt(len(found))))  # the slow line
        return torch.tensor(found[: len(targets)])

    def forward(self, logits, targets):
        each = nn.functional.cross_entropy(logits, targets, reduction="none")
        return (each * self.weights(targets)).mean()


class Task(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.criterion = network(), WeightedLoss()

    def forward(self, x, y):
        return self.criterion(self.backbone(x), y)


def optimise(task, optimizer):
    for x, y in batches():
        optimizer.zero_grad()
        loss = task(x, y)
        loss.backward()
        optimizer.step()
        yield loss.item()


task = Task()
clock = Clock()
for value in optimise(task, torch.optim.AdamW(task.parameters(), lr=1e-3)):
    clock(value)
