"""A function that collects what it is given, in a list that nobody else can see."""

from training import Training


def collector():
    collected = []

    def collect(tensor):
        collected.append(tensor.detach().clone())  # leaks
        return len(collected)

    return collect


def main():
    training = Training()
    collect = collector()
    while training.goes_on:
        x, y = training.batch(128)
        training.step(training.loss(x, y))
        collect(x)


main()
