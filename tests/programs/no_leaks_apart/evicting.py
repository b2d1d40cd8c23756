"""A cache from which the oldest goes once it is full, which it is not yet; outputs that are deleted two hundred at a time."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "leaks_apart"))

from collections import OrderedDict

import torch
from task import Classifier, Pace, arguments, loader

ROOM, OUTPUTS = 4000, 200


class Cache:
    def __init__(self, room):
        self.room, self.kept = room, OrderedDict()

    def get(self, key, make):
        if key in self.kept:
            self.kept.move_to_end(key)
        else:
            self.kept[key] = make()
            if len(self.kept) > self.room:
                self.kept.popitem(last=False)
        return self.kept[key]


def main():
    args = arguments()
    net, cache, pace, outputs = Classifier(), Cache(ROOM), Pace(args.steps), []
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    while True:
        for x, y in loader():
            logits = net(cache.get(pace.done % (ROOM + 1000), x.clone))
            loss = torch.nn.functional.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            outputs.append(logits.detach())
            if len(outputs) == OUTPUTS:
                del outputs[:]
            if pace(loss.detach()):
                return


main()
