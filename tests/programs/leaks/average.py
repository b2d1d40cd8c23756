"""A running sum of losses, each with its graph, and the sum with all of them."""

from training import Training


def main():
    training = Training()
    total_loss = 0.0
    while training.goes_on:
        x, y = training.batch()
        loss = training.loss(x, y)
        total_loss += loss  # leaks
        training.step(loss)


main()
