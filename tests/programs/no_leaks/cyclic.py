"""Cycles, which the garbage collector frees now and then; an epoch's outputs that are cleared at its end; a registry of weak references."""

import os
import sys
import weakref

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "leaks"))

from training import Training


class Batch:
    known = weakref.WeakSet()  # noqa: RUF012

    def __init__(self, x, y):
        self.x, self.y = x, y
        self.me = self
        self.known.add(self)


def main():
    training = Training()
    outputs = []
    while training.goes_on:
        batch = Batch(*training.batch())
        loss = training.loss(batch.x, batch.y)
        training.step(loss)
        outputs.append(loss.detach())
        if len(outputs) == 5:
            outputs.clear()


main()
