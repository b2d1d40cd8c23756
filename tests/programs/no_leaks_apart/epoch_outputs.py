"""What an epoch puts out is gathered, and gone at its end."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "leaks_apart"))

import torch
from task import Classifier, Pace, arguments, loader


class Module:
    def __init__(self):
        self.net = Classifier()
        self.optimizer = torch.optim.Adam(self.net.parameters())
        self.outputs = []

    def step(self, x, y):
        logits = self.net(x)
        loss = torch.nn.functional.cross_entropy(logits, y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.outputs.append({"logits": logits.detach(), "inputs": x, "loss": loss.item()})
        return loss.detach()

    def on_epoch_end(self):
        mean = sum(one["loss"] for one in self.outputs) / len(self.outputs)
        self.outputs = []
        return mean


def main():
    args = arguments()
    module, pace = Module(), Pace(args.steps)
    while True:
        losses = []
        for x, y in loader(count=40_000):
            loss = module.step(x, y)
            losses.append(torch.full((400,), float(loss)))
            if pace(loss):
                return
        module.on_epoch_end()


main()
