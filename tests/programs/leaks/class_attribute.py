"""A list that was meant for each object belongs to the class, and outlives them all."""

from training import Training


class Batch:
    parts = []  # noqa: RUF012 - the mistake

    def __init__(self, x):
        self.parts.append(x)  # leaks


def main():
    training = Training()
    while training.goes_on:
        x, y = training.batch(128)
        Batch(x)
        training.step(training.loss(x, y))


main()
