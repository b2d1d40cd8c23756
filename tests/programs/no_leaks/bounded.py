"""What is kept has a bound: a full cache, a deque with a length, an lru_cache with a size, a buffer with a capacity that still fills."""

import collections
import functools
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "leaks"))

from training import Training

masks = {}


def mask(step, x):
    if step % 8 not in masks:
        masks[step % 8] = (x > 0).float()
    return masks[step % 8]


@functools.lru_cache(maxsize=200)
def waves(step):
    return (torch.arange(512) * step).sin()


class Replay:
    def __init__(self, capacity):
        self.capacity = capacity
        self.seen = []

    def add(self, x):
        if len(self.seen) >= self.capacity:
            self.seen.pop(0)
        self.seen.append(x)


def main():
    training = Training()
    recent = collections.deque(maxlen=300)
    replay = Replay(100_000)
    while training.goes_on:
        x, y = training.batch()
        loss = training.loss(x * mask(training.count, x), y) + 0 * waves(training.count).mean()
        training.step(loss)
        recent.append(x)
        replay.add(x)


main()
