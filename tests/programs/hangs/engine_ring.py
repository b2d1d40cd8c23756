"""Rank 0 tells an engine over HTTP to take new weights, and sends them once it has the answer; the engine answers once it has them."""

import http.client
import http.server
import socket

import torch
from parts import ADDRESS, Run, address, beside, publish_port, published, train_step

EXPECTED = {
    "code": "process_deadlock",
    "ranks": [0],
    "where": ("update", "do_POST"),
    "beside": "engine",
    "names": "engine",
}


class Weights(http.server.BaseHTTPRequestHandler):
    """One request at a time; the tensors come over a socket of their own."""

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        self.rfile.read(length)
        if self.path.startswith("/late"):
            self.server.weights.recv(1 << 20, socket.MSG_WAITALL)  # HERE
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def engine():
    with http.server.HTTPServer((ADDRESS, 0), Weights) as server, socket.create_server((ADDRESS, 0)) as tensors:
        publish_port("weights", tensors.getsockname()[1])
        publish_port("engine", server.server_port)
        server.weights, _ = tensors.accept()
        server.serve_forever()


class Engine:
    def __init__(self):
        self.http = http.client.HTTPConnection(published("engine"))
        self.weights = socket.create_connection(address("weights"))

    def update(self, path, state):
        self.http.request("POST", path, body=b"{}")
        answer = self.http.getresponse()  # HERE
        answer.read()
        for tensor in state.values():
            self.weights.sendall(tensor.numpy().tobytes())


def main():
    run = Run(culprit=0)
    model, optimizer = run.model()
    served = Engine() if run.rank == 0 else None
    for step, batch in enumerate(run.loader()):
        if run.trouble(step):
            served.update("/late", model.module.state_dict())
        elif served is not None:
            served.update("/ping", {"step": torch.tensor(step)})
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    engine() if beside() == "engine" else main()
