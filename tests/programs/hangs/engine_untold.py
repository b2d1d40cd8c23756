"""Rank 0 and an engine have a process group of their own for the weights. The engine refuses the request that announces them, rank 0
looks at no answer and goes into the broadcast, and the engine serves on.
"""

import http.server
import json
import urllib.error
import urllib.request
from datetime import timedelta

import torch
import torch.distributed as dist
from parts import Run, beside, publish, published, train_step
from torch.distributed import distributed_c10d as c10d

EXPECTED = {
    "code": ("python_wait", "io_wait", "collective_not_issued"),
    "ranks": [0],
    "where": "send_weights",
    "beside": "engine",
    "names": "engine",
}


def group_with_the_engine(rank, port):
    """As the trainers for language models make it: beside the default group, which holds the trainers alone."""
    store = dist.TCPStore("127.0.0.1", port, 2, rank == 0, timeout=timedelta(minutes=5))
    store = dist.PrefixStore("weights", store)
    group, _ = c10d._new_process_group_helper(
        2, rank, [], "gloo", store, group_name="weights", timeout=timedelta(minutes=30)
    )
    c10d._world.pg_group_ranks[group] = {i: i for i in range(2)}
    return group


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if asked["dtype"] != "float32":
            self.send_error(400, "unsupported dtype")
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.flush()
        self.connection.close()
        dist.broadcast(torch.empty(asked["shape"]), 0, group=self.server.group)

    def log_message(self, *_):
        pass


def engine():
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1, store=None)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    publish("engine", server.server_port)
    server.group = group_with_the_engine(1, int(published("store")))
    server.serve_forever()


class Weights:
    def __init__(self):
        import socket

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        publish("store", port)
        self.group = group_with_the_engine(0, port)
        self.url = f"http://127.0.0.1:{published('engine')}/update_weights"

    def announce(self, tensor, dtype):
        body = json.dumps({"shape": list(tensor.shape), "dtype": dtype}).encode()
        try:
            urllib.request.urlopen(urllib.request.Request(self.url, body), timeout=30).close()
        except urllib.error.HTTPError:
            pass  # what nobody should do

    def send_weights(self, model, dtype):
        for parameter in model.parameters():
            self.announce(parameter, dtype)
            dist.broadcast(parameter.detach(), 0, group=self.group)  # HERE


def main():
    run = Run(culprit=0)
    model, optimizer = run.model()
    weights = Weights() if run.rank == 0 else None
    for step, batch in enumerate(run.loader()):
        trouble = run.trouble(step)
        if weights is not None:
            weights.send_weights(model, "bfloat16" if trouble else "float32")
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    engine() if beside() == "engine" else main()
