"""Rank 0 gives an engine something to generate and asks now and then whether it is there, each time over a new connection. Once the engine
takes the request into a batch that never gets full.
"""

import http.server
import json
import threading
import time
import urllib.request

from parts import ADDRESS, Run, beside, publish_port, published, train_step

EXPECTED = {
    "code": "python_wait",
    "ranks": [0],
    "where": ("wait_for", "generate"),
    "beside": "engine",
    "names": "engine",
}


class Generator:
    def __init__(self):
        self.done, self.batch, self.full = set(), [], threading.Condition()
        threading.Thread(target=self.generate, daemon=True).start()

    def take(self, uid, whole):
        with self.full:
            self.batch.append(uid)
            if whole:
                self.full.notify()

    def generate(self):
        while True:
            with self.full:
                self.full.wait()  # HERE
                self.done.update(self.batch)
                self.batch.clear()


class Requests(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.generator.take(asked["uid"], asked["whole"])
        self.answer({})

    def do_GET(self):
        self.answer({"done": self.path[1:] in self.server.generator.done})

    def answer(self, said):
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def engine():
    with http.server.ThreadingHTTPServer((ADDRESS, 0), Requests) as server:
        server.generator = Generator()
        publish_port("engine", server.server_port)
        server.serve_forever()


class Engine:
    def __init__(self):
        self.url = f"http://{published('engine')}"

    def ask(self, path, body=None):
        with urllib.request.urlopen(f"{self.url}/{path}", body) as answer:
            return json.load(answer)

    def generate(self, uid, whole):
        self.ask("", json.dumps({"uid": uid, "whole": whole}).encode())
        self.wait_for(uid)

    def wait_for(self, uid):
        while not self.ask(uid)["done"]:
            time.sleep(0.5)  # HERE


def main():
    run = Run(culprit=0)
    model, optimizer = run.model()
    served = Engine() if run.rank == 0 else None
    for step, batch in enumerate(run.loader()):
        trouble = run.trouble(step)
        if served is not None:
            served.generate(f"uid-{step}", not trouble)
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    engine() if beside() == "engine" else main()
