"""Much is made at first and kept: a warm-up of a hundred steps. Batches differ in size; the loss is summed as a number."""

import os
import random
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "leaks"))

from training import Training


def main():
    training = Training()
    rng = random.Random(training.last)
    workspace = []
    total = 0.0
    smooth = None
    while training.goes_on:
        if len(workspace) < 11:
            workspace.append(torch.zeros(256, 256))
        x, y = training.batch(rng.randint(8, 64))
        loss = training.loss(x, y)
        training.step(loss)
        total += loss.item()
        smooth = loss.detach() if smooth is None else 0.9 * smooth + 0.1 * loss.detach()


main()
