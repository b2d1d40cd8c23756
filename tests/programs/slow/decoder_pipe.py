"""Frames come through a pipe from a decoder that is slower than the training, read by the training itself."""

import contextlib
import subprocess
import sys

import torch
from small import SLOW, WIDTH, Clock, network

MANIFEST = {"code": "reads", "ranks": [1]}
DECODER = """
import sys, time
while True:
    time.sleep(float(sys.argv[1]))
    sys.stdout.buffer.write(bytes(range(256)) * 128)
    sys.stdout.buffer.flush()
"""
FRAME = 256 * 128


class Video:
    def __init__(self, seconds):
        self.process = subprocess.Popen([sys.executable, "-c", DECODER, str(seconds)], stdout=subprocess.PIPE)

    def __iter__(self):
        return self

    def __next__(self):
        raw = self.process.stdout.read(FRAME)  # the slow line
        return torch.frombuffer(bytearray(raw), dtype=torch.uint8).float().div(255).view(-1, WIDTH)

    def close(self):
        self.process.kill()
        self.process.wait()


def learn(frames):
    net, clock = network(), Clock()
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    for frame in frames:
        opt.zero_grad()
        error = torch.nn.functional.mse_loss(net(frame), torch.zeros(len(frame), 10))
        error.backward()
        opt.step()
        clock(error.item())


with contextlib.closing(Video(0.07 if SLOW else 0.0)) as video:
    learn(video)
