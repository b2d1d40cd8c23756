"""One rank tries its model on a few more batches after every step, which all others wait for."""

import torch
from small import RANK, SLOW, Clock, batches, network
from torch import nn
from torch.nn.parallel import DistributedDataParallel

MANIFEST = {"code": "straggler", "ranks": [2], "rank": 1, "part": "before"}


class Probe:
    def __init__(self, net, often):
        self.net, self.often, self.source = net, often, batches()

    @torch.no_grad()
    def __call__(self):
        right = 0
        for _ in range(self.often):
            x, y = next(self.source)
            right += (self.net(x).argmax(-1) == y).sum()  # the slow line
        return int(right)


def train(net):
    wrapped = DistributedDataParallel(net)
    probe = Probe(net, 24 if SLOW and RANK == 1 else 0)
    optimizer, clock = torch.optim.SGD(net.parameters(), lr=1e-3), Clock()
    for x, y in batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(wrapped(x), y)
        loss.backward()
        optimizer.step()
        probe()
        clock(loss.item())


train(network(4))
