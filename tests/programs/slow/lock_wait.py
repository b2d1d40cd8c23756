"""A thread that sends metrics holds the lock that the loop wants, 60 ms at a time."""

import threading
import time

import torch
from small import SLOW, Clock, batches, network
from torch import nn

MANIFEST = {"code": "lock_wait", "ranks": [1]}
lock = threading.Lock()
metrics = []


def send():
    while True:
        with lock:
            metrics.clear()
            if SLOW:
                time.sleep(0.06)
        time.sleep(0.001)


def main():
    threading.Thread(target=send, daemon=True).start()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    clock = Clock()
    for x, y in batches():
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with lock:  # the slow line
            metrics.append(loss.item())
        clock(loss.item())


if __name__ == "__main__":
    main()
