"""A log that nobody can change, and that is made anew with each entry."""

from typing import NamedTuple

import torch
from task import Classifier, Pace, arguments, loader


class Entry(NamedTuple):
    step: int
    batch: torch.Tensor


class Loop:
    log = ()

    def run(self, args):
        net, pace = Classifier(), Pace(args.steps)
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
        while True:
            for x, y in loader():
                loss = torch.nn.functional.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                self.log = (*self.log, Entry(pace.done, x))  # leaks
                if pace(loss.detach()):
                    return


Loop().run(arguments())
