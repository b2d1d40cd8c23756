"""An unbounded lru_cache on a method, whose argument is another one at each step."""

import functools

import torch
from training import Training


class Encoder:
    def __init__(self, size):
        self.size = size

    @functools.cache  # leaks  # noqa: B019
    def encode(self, step):
        angles = torch.arange(self.size) * step
        return torch.stack([angles.sin(), angles.cos()])


def main():
    training = Training()
    encoder = Encoder(512)
    while training.goes_on:
        x, y = training.batch()
        training.step(training.loss(x, y) + 0 * encoder.encode(training.count).mean())


main()
