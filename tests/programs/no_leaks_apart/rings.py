"""A ring of transitions made beforehand, an average of the weights in place, the best losses, means that are numbers."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "leaks_apart"))

import copy
import heapq
from collections import defaultdict, deque

import torch
from task import Classifier, Pace, arguments, loader


class Ring:
    def __init__(self, size, *shape):
        self.rows = torch.zeros(size, *shape)
        self.next = 0

    def add(self, batch):
        at = torch.arange(self.next, self.next + len(batch)) % len(self.rows)
        self.rows[at] = batch
        self.next = int(at[-1]) + 1


def main():
    args = arguments()
    model, pace = Classifier(), Pace(args.steps)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ema = copy.deepcopy(model)
    ring = Ring(512, 24, 16)
    best, window, history = [], deque(maxlen=20), defaultdict(list)
    while True:
        for x, y in loader():
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for kept, value in zip(ema.parameters(), model.parameters()):  # noqa: B905
                    kept.lerp_(value, 0.01)
            ring.add(x)
            heapq.heappush(best, -loss.item())
            del best[10:]
            window.append(loss.detach())
            history["loss"].append(loss.item())
            history["mean"].append(torch.stack(list(window)).mean().item())
            if pace(loss.detach()):
                return


main()
