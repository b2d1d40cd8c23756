"""A trainer with callbacks, one of which records what it is given by the name of the metric."""

from collections import defaultdict

import torch
from task import Classifier, Pace, arguments, loader
from torch import nn


class Callback:
    def on_step_end(self, trainer, outputs):
        pass


class Throughput(Callback):
    def __init__(self):
        self.samples = 0

    def on_step_end(self, trainer, outputs):
        self.samples += outputs["logits"].shape[0]


class Monitor(Callback):
    def __init__(self):
        self.log = defaultdict(list)

    def on_step_end(self, trainer, outputs):
        gradient = nn.utils.parameters_to_vector(p.grad for p in trainer.net.parameters())
        self.log["gradient"].append(gradient)  # leaks
        self.log["loss"].append(outputs["loss"].item())


class Trainer:
    def __init__(self, net, callbacks):
        self.net, self.callbacks = net, callbacks
        self.optim = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

    def training_step(self, batch):
        x, y = batch
        logits = self.net(x)
        loss = nn.functional.cross_entropy(logits, y)
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        return {"loss": loss.detach(), "logits": logits.detach()}

    def fit(self, batches, pace):
        while True:
            for batch in batches:
                outputs = self.training_step(batch)
                for callback in self.callbacks:
                    callback.on_step_end(self, outputs)
                if pace(outputs["loss"]):
                    return


if __name__ == "__main__":
    args = arguments()
    Trainer(Classifier(), [Throughput(), Monitor()]).fit(loader(), Pace(args.steps))
