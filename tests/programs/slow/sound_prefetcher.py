"""Nothing is wrong: somebody's own prefetching, whose thread keeps up, and a progress line every ten steps."""

import queue
import sys
import threading

import torch
from small import Clock, batches, network
from torch import nn

MANIFEST = {"code": None, "ranks": [1]}


class Prefetcher:
    def __init__(self, source):
        self.ready = queue.Queue(maxsize=4)
        threading.Thread(target=self._fill, args=(source,), daemon=True).start()

    def _fill(self, source):
        for batch in source:
            self.ready.put(batch)

    def __iter__(self):
        return iter(self.ready.get, None)


def progress(n, loss, *, out=sys.stderr):
    if n % 10 == 0:
        out.write(f"step {n}: {loss:.4f}\n")
        out.flush()


def loop(model):
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
    clock = Clock()
    for n, (x, y) in enumerate(Prefetcher(batches())):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        progress(n, loss.item())
        clock(loss.item())


loop(network())
