"""Rank 0 and an engine have a process group of their own for the weights. The engine refuses the request that announces them, rank 0
looks at no answer and goes into the broadcast, and the engine serves on.
"""

import http.server
import json
import urllib.error
import urllib.request

import torch
import torch.distributed as dist
from parts import ADDRESS, Run, beside, group_beside, publish_port, published, train_step

EXPECTED = {
    "code": ("python_wait", "io_wait", "collective_not_issued"),
    "ranks": [0],
    "where": "send_weights",
    "beside": "engine",
    "names": "engine",
}


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
    server = http.server.ThreadingHTTPServer((ADDRESS, 0), Handler)
    publish_port("engine", server.server_port)
    server.group = group_beside(1)
    server.serve_forever()


class Weights:
    def __init__(self):
        self.group = group_beside(0)
        self.url = f"http://{published('engine')}/update_weights"

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
