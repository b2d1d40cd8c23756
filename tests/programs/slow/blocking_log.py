"""A handler of logging that writes through to the disk, ten lines a step."""

import logging
import os
import tempfile

import torch
from small import SLOW, Clock, batches, network
from torch import nn

MANIFEST = {"code": "blocking_log", "ranks": [1]}
log = logging.getLogger("train")


class ThroughToDisk(logging.FileHandler):
    def emit(self, record):
        super().emit(record)
        os.fsync(self.stream.fileno())  # the slow line


def main():
    log.setLevel(logging.INFO)
    log.propagate = False
    with tempfile.TemporaryDirectory(dir=os.environ.get("SLOW_DISK")) as folder:
        log.addHandler(ThroughToDisk(os.path.join(folder, "train.log")))
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        clock = Clock()
        for x, y in batches():
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if SLOW:
                for name, p in list(model.named_parameters())[:10] * 12:
                    log.info("%s %s", name, p.shape)
            clock(loss.item())


if __name__ == "__main__":
    main()
