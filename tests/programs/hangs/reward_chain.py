"""A rank asks a reward server, which asks a data server, which waits for the lock of a file that nobody gives back."""

import fcntl
import http.server
import os
import socketserver
import urllib.request
import xmlrpc.client
import xmlrpc.server
from pathlib import Path

from parts import ADDRESS, Run, beside, publish_port, published, train_step

EXPECTED = {
    "code": ("io_wait", "lock_wait"),
    "ranks": "culprit",
    "where": "fetch",
    "beside": ("data", "reward"),
    "names": "data",
}


def fetch(uid):
    if uid % 100 != 99:
        return uid
    lock = Path(os.environ["SCENE_FOLDER"]) / "shard.lock"
    taken = lock.open("w")
    fcntl.flock(taken, fcntl.LOCK_EX)
    with lock.open("w") as again:
        fcntl.flock(again, fcntl.LOCK_EX)  # HERE
    return uid


class Samples(socketserver.ThreadingMixIn, xmlrpc.server.SimpleXMLRPCServer):
    daemon_threads = True


def data():
    with Samples((ADDRESS, 0), logRequests=False) as server:
        server.register_function(fetch)
        publish_port("data", server.server_address[1])
        server.serve_forever()


class Reward(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        samples = xmlrpc.client.ServerProxy(f"http://{published('data')}")
        body = str(samples.fetch(int(self.path.rpartition("/")[2])) * 0.5).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Threads(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True


def reward():
    with Threads((ADDRESS, 0), Reward) as server:
        publish_port("reward", server.server_port)
        server.serve_forever()


def score(uid):
    with urllib.request.urlopen(f"http://{published('reward')}/score/{uid}") as answer:
        return float(answer.read())


def main():
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        score(step * 100 + (99 if run.trouble(step) else 0))
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    {"data": data, "reward": reward}.get(beside(), main)()
