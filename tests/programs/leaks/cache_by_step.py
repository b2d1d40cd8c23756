"""A dict that was meant as a cache has the number of the step in its key: nothing is ever found there."""

from training import Training

masks = {}


def mask(step, x):
    key = (step, x.shape[0])
    if key not in masks:
        masks[key] = (x > 0).float()  # leaks
    return masks[key]


def main():
    training = Training()
    while training.goes_on:
        x, y = training.batch()
        x = x * mask(training.count, x)
        training.step(training.loss(x, y))


main()
