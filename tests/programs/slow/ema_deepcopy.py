"""An average of the weights that copies the whole model at each step."""

import copy

import torch
from small import SLOW, Clock, batches, network
from torch import nn

MANIFEST = {"code": "host_work", "ranks": [1]}


class Averaged:
    def __init__(self, model, decay=0.99):
        self.decay, self.shadow = decay, copy.deepcopy(model.state_dict())

    @torch.no_grad()
    def update(self, model):
        fresh = model.state_dict()
        for _ in range(8 if SLOW else 0):
            fresh = copy.deepcopy(model.state_dict())  # the slow line
        for name, value in fresh.items():
            self.shadow[name].lerp_(value, 1 - self.decay)


def train(model, source, *, steps=None):
    average, optimizer, clock = Averaged(model), torch.optim.SGD(model.parameters(), lr=1e-3), Clock()
    for step, (x, y) in enumerate(source):
        if step == steps:
            break
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        average.update(model)
        clock(loss.item())


train(network(), batches())
