"""A replay buffer of numpy arrays fills up to its bound, which it has not reached yet."""

import collections
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "leaks"))

from training import Training


def main():
    training = Training()
    replay = collections.deque(maxlen=50_000)
    while training.goes_on:
        x, y = training.batch(128)
        training.step(training.loss(x, y))
        replay.append(x.numpy().copy())


main()
