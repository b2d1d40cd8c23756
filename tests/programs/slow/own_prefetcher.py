"""Somebody's own prefetching: a thread fills a queue, from a source that takes longer than a step."""

import queue
import threading
import time

import torch
from small import SLOW, Clock, batches, network
from torch import nn

MANIFEST = {"code": "lock_wait", "ranks": [1]}


class Prefetcher(threading.Thread):
    def __init__(self, source):
        super().__init__(daemon=True)
        self.source, self.ready = source, queue.Queue(maxsize=2)
        self.start()

    def run(self):
        for batch in self.source:
            if SLOW:
                time.sleep(0.08)
            self.ready.put(batch)

    def __iter__(self):
        while True:
            yield self.ready.get()  # the slow line


def train_one(model, optimizer, batch):
    x, y = batch
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


model = network()
optimizer = torch.optim.Adagrad(model.parameters(), lr=1e-3)
clock = Clock()
for batch in Prefetcher(batches()):
    clock(train_one(model, optimizer, batch).item())
