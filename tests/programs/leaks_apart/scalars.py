"""A board of scalars by their tags, which is given the losses as they are."""

from collections import defaultdict

import torch
from task import Classifier, Pace, arguments, loader


class Scalars:
    def __init__(self):
        self.by_tag = defaultdict(list)

    def add(self, tag, value, step):
        self.by_tag[tag].append((step, value))  # leaks


def train(args):
    net, scalars, pace = Classifier(), Scalars(), Pace(args.steps)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    criterion = torch.nn.CrossEntropyLoss()
    step = 0
    while True:
        for x, y in loader():
            loss = criterion(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            scalars.add("train/loss", loss, step)
            if pace(loss.detach()):
                return


train(arguments())
