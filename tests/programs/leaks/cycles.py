"""The garbage collector is off, and every batch is a part of a cycle."""

import gc

from training import Training


class Batch:
    def __init__(self, x, y):
        self.x, self.y = x, y
        self.view = View(self)


class View:
    def __init__(self, batch):
        self.batch = batch

    def __del__(self):
        pass


def main():
    training = Training()
    gc.disable()  # leaks
    while training.goes_on:
        batch = Batch(*training.batch(128))
        training.step(training.loss(batch.x, batch.y))


main()
