"""An average of the weights that keeps a copy of them every second step, to be averaged some day."""

import torch
from task import Classifier, Pace, arguments, loader


class Averager:
    def __init__(self, net, every=2):
        self.net, self.every = net, every
        self.snapshots = []
        self.calls = 0

    @torch.no_grad()
    def update(self):
        self.calls += 1
        if self.calls % self.every == 0:
            weights = {name: value.clone() for name, value in self.net.state_dict().items()}
            self.snapshots.append(weights)  # leaks

    def mean(self):
        first = self.snapshots[0]
        return {name: sum(s[name] for s in self.snapshots) / len(self.snapshots) for name in first}


def train(args):
    net = Classifier()
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    ema = Averager(net)
    pace = Pace(args.steps)
    criterion = torch.nn.CrossEntropyLoss()
    while True:
        for features, labels in loader():
            opt.zero_grad()
            out = criterion(net(features), labels)
            out.backward()
            opt.step()
            ema.update()
            if pace(out.detach()):
                return


train(arguments())
