"""Rank 0 waits for samples of an engine that really computes them; the other ranks wait for rank 0."""

import http.server
import urllib.request

import torch
from parts import ADDRESS, WIDTH, Run, beside, publish_port, published, train_step

EXPECTED = {"code": "cpu_phase", "ranks": [0], "where": "rollout", "state": "progressing", "beside": "engine"}


class Generate(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = self.sample(int(self.path.rpartition("/")[2])).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def sample(self, tokens):
        hidden, weight = torch.ones(64, WIDTH), torch.eye(WIDTH)
        for _ in range(tokens):
            for _ in range(1000):
                hidden = torch.tanh(hidden @ weight)
        return str(hidden.sum().item())

    def log_message(self, *_):
        pass


def engine():
    with http.server.ThreadingHTTPServer((ADDRESS, 0), Generate) as server:
        publish_port("engine", server.server_port)
        server.serve_forever()


def rollout(tokens):
    with urllib.request.urlopen(f"http://{published('engine')}/generate/{tokens}") as answer:  # HERE
        return float(answer.read())


def main():
    run = Run(culprit=0)
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        trouble = run.trouble(step)
        if run.rank == 0:
            rollout(1_000_000 if trouble else 1)
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    engine() if beside() == "engine" else main()
