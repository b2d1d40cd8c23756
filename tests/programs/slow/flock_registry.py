"""Each step enters itself into a file that another process keeps locked for most of the time."""

import fcntl
import os
import subprocess
import sys
import tempfile

import torch
from small import SLOW, Clock, batches, network
from torch import nn

MANIFEST = {"code": "lock_wait", "ranks": [1]}
OTHER = """
import fcntl, os, sys, time
f = open(sys.argv[1], "a")
while os.getppid() != 1:
    fcntl.flock(f, fcntl.LOCK_EX)
    time.sleep(0.04)
    fcntl.flock(f, fcntl.LOCK_UN)
    time.sleep(0.002)
"""


class Registry:
    def __init__(self, path):
        self.file = open(path, "a")  # noqa: SIM115

    def enter(self, words):
        fcntl.flock(self.file, fcntl.LOCK_EX)  # the slow line
        try:
            self.file.write(words)
            self.file.flush()
        finally:
            fcntl.flock(self.file, fcntl.LOCK_UN)


def run(path):
    registry = Registry(path)
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    clock = Clock()
    for n, (x, y) in enumerate(batches()):
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        registry.enter(f"{n}\n")
        clock(loss.item())


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "registry")
    if SLOW:
        subprocess.Popen([sys.executable, "-c", OTHER, path])
    run(path)
