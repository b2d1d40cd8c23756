"""Each round makes a new optimizer, and a registry keeps the old ones with their state."""

import torch
from training import Training


class Rounds:
    def __init__(self, training):
        self.training = training
        self.optimizers = []

    def begin(self):
        optimizer = torch.optim.Adam(self.training.model.parameters(), lr=1e-4)
        self.optimizers.append(optimizer)  # leaks
        self.training.optimizer = optimizer

    def run(self):
        while self.training.goes_on:
            self.begin()
            x, y = self.training.batch()
            self.training.step(self.training.loss(x, y))


def main():
    Rounds(Training()).run()


main()
