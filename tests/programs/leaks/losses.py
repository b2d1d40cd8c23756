"""Each loss is kept, with its graph."""

from training import Training


def main():
    training = Training()
    losses = []
    while training.goes_on:
        x, y = training.batch()
        loss = training.loss(x, y)
        losses.append(loss)  # leaks
        training.step(loss)


main()
