"""Rank 0 reads what an engine generates as it comes; the engine sleeps between two pieces, and the other ranks wait for rank 0."""

import http.server
import time
import urllib.request

from parts import ADDRESS, Run, beside, publish_port, published, train_step

EXPECTED = {"code": "cpu_phase", "ranks": [0], "where": "rollout", "state": "progressing", "beside": "engine"}
PAUSE_S = 1.5


class Generate(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        pieces = int(self.path.rpartition("/")[2])
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for n in range(pieces):
            if pieces > 2:
                time.sleep(PAUSE_S)
            self.chunk(b"token %d\n" % n)
        self.chunk(b"")

    def chunk(self, piece):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))

    def log_message(self, *_):
        pass


def engine():
    with http.server.ThreadingHTTPServer((ADDRESS, 0), Generate) as server:
        server.daemon_threads = True
        publish_port("engine", server.server_port)
        server.serve_forever()


def rollout(pieces):
    tokens = []
    with urllib.request.urlopen(f"http://{published('engine')}/generate/{pieces}") as answer:
        while token := answer.readline():  # HERE
            tokens.append(token)
    return tokens


def main():
    run = Run(culprit=0)
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        if run.rank == 0:
            rollout(600 if step == run.step else 2)
        elif step == run.step:
            run.ready(4 * PAUSE_S)
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    engine() if beside() == "engine" else main()
