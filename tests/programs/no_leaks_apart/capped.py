"""Examples for a report, up to a limit that is far away; a queue from which the oldest goes when it is too long."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "leaks_apart"))

from collections import deque

import torch
from task import Classifier, Pace, arguments, loader

MOST = 30_000


class Gallery:
    def __init__(self, limit):
        self.limit = limit
        self.pictures = []

    def offer(self, batch):
        if len(self.pictures) < self.limit:
            self.pictures.append(batch.clone())


class Recent:
    def __init__(self):
        self.batches = deque()

    def add(self, batch):
        self.batches.append(batch)
        while len(self.batches) > MOST:
            self.batches.popleft()


def main():
    args = arguments()
    model, pace = Classifier(), Pace(args.steps)
    optimizer = torch.optim.Adam(model.parameters())
    gallery, recent = Gallery(limit=20_000), Recent()
    while True:
        for x, y in loader():
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            gallery.offer(x)
            recent.add(x)
            if pace(loss.detach()):
                return


main()
