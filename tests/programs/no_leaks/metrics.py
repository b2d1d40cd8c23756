"""Numbers are logged: lists of floats, a dict for each step, a few texts."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "leaks"))

from training import Training


def main():
    training = Training()
    losses, history = [], []
    while training.goes_on:
        x, y = training.batch()
        loss = training.loss(x, y)
        training.step(loss)
        losses.append(loss.item())
        history.append({"step": training.count, "loss": losses[-1], "lr": 1e-3})


main()
