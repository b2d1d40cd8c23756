"""Arrays of numpy, which the garbage collector does not know, in a deque without a bound."""

import collections

from training import Training


def main():
    training = Training()
    recent = collections.deque()
    while training.goes_on:
        x, y = training.batch(128)
        loss = training.loss(x, y)
        training.step(loss)
        recent.append(x.numpy().copy())  # leaks


main()
