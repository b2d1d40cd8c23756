"""Metrics in a CSV file, each line of them written through to the disk."""

import csv
import dataclasses
import os
import tempfile

import torch
from small import SLOW, Clock, batches, network
from torch import nn

MANIFEST = {"code": "blocking_write", "ranks": [1]}


@dataclasses.dataclass
class Metrics:
    folder: str

    def __post_init__(self):
        self.file = open(os.path.join(self.folder, "metrics.csv"), "w", newline="")  # noqa: SIM115
        self.rows = csv.writer(self.file)

    def flush(self):
        self.file.flush()
        os.fsync(self.file.fileno())  # the slow line

    def add(self, step, named):
        for name, value in named:
            self.rows.writerow([step, name, float(value.norm())])
            if SLOW:
                for _ in range(8):
                    self.flush()


def fit(metrics):
    model, clock = network(), Clock()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step, (x, y) in enumerate(batches()):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        metrics.add(step, list(model.named_parameters())[:12])
        clock(loss.item())


with tempfile.TemporaryDirectory(dir=os.environ.get("SLOW_DISK")) as folder:
    fit(Metrics(folder))
