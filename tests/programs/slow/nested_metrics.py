"""Functions within functions; each step is reported to a server that answers after 25 ms."""

import contextlib
import functools
import socket
import subprocess
import sys

import torch
from small import SLOW, Clock, batches, network
from torch import nn

MANIFEST = {"code": "network_wait", "ranks": [1]}
SERVER = """
import socket, sys, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
line, _ = server.accept()
while line.recv(4096):
    time.sleep(0.025)
    line.sendall(b"ok")
"""


@contextlib.contextmanager
def reporting():
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    with server, socket.create_connection(("127.0.0.1", int(server.stdout.readline()))) as line:

        def post(payload):
            line.sendall(payload.encode())
            return line.recv(16)  # the slow line

        yield post


def reported(post):
    def decorate(step):
        @functools.wraps(step)
        def wrapper(*args):
            value = step(*args)
            if SLOW:
                post(f"loss={value}")
            return value

        return wrapper

    return decorate


def run():
    net = network()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)

    with reporting() as post:

        @reported(post)
        def step(x, y):
            opt.zero_grad(set_to_none=True)
            out = nn.functional.cross_entropy(net(x), y)
            out.backward()
            opt.step()
            return out.item()

        clock = Clock()
        list(map(clock, (step(x, y) for x, y in batches())))


run()
