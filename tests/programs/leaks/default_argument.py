"""A default argument is made once, and kept."""

from training import Training


def smooth(x, window=[]):  # noqa: B006 - the mistake
    window.append(x)  # leaks
    return sum(window[-4:]) / 4


def main():
    training = Training()
    while training.goes_on:
        x, y = training.batch(128)
        training.step(training.loss(smooth(x), y))


main()
