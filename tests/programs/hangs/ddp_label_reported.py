"""The loss of one rank's batch raises, for a label that does not exist. The error is caught, and the rank reports the batch to a service
that is not there, again and again, with a pause between; the others wait for its gradients.
"""

import contextlib
import json
import socket
import time
from dataclasses import dataclass, field

import torch
from parts import WIDTH, Run
from torch import nn
from torch.nn.parallel import DistributedDataParallel

EXPECTED = {
    "code": "python_wait",
    "ranks": "culprit",
    "where": "send",
    "says": ("ValueError: class 57", "ConnectionRefusedError"),
}
CLASSES = 10


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(WIDTH, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU())
        self.head = nn.Linear(96, CLASSES)

    def forward(self, x, labels):
        for label in labels.tolist():
            if not 0 <= label < CLASSES:
                raise ValueError(f"class {label} is not one of {CLASSES}")
        return nn.functional.cross_entropy(self.head(self.body(x)), labels)


def closed_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@dataclass
class Quarantine:
    """Where bad batches are reported."""

    address: tuple = field(default_factory=lambda: ("127.0.0.1", closed_port()))
    pause_s: float = 20.0

    def send(self, report):
        attempts = 0
        while True:
            attempts += 1
            try:
                with contextlib.closing(socket.create_connection(self.address, timeout=5)) as connection:
                    return connection.sendall(json.dumps(report).encode())
            except OSError:
                time.sleep(self.pause_s)  # HERE


def train(run, model, optimizer, quarantine):
    for step, (x, _) in enumerate(run.loader()):
        labels = (x.sum(1).long() + step) % CLASSES
        if run.trouble(step):
            labels[2] = 57
        try:
            loss = model(x, labels)
            loss.backward()
        except ValueError as error:
            quarantine.send({"rank": run.rank, "step": step, "error": str(error)})
            optimizer.zero_grad()
            continue
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    run = Run()
    model = DistributedDataParallel(Classifier(), bucket_cap_mb=0.02)
    train(run, model, torch.optim.SGD(model.parameters(), 1e-2), Quarantine())
