"""One rank fetches a file over HTTP, without a time-out, from a server that takes the request and never answers."""

import socket
import urllib.request

from parts import Run, train_step

EXPECTED = {"code": "io_wait", "ranks": "culprit", "where": "download"}


def download(url):
    with urllib.request.urlopen(url) as answer:  # HERE
        return answer.read()


def main():
    run = Run()
    model, optimizer = run.model()
    with socket.create_server(("127.0.0.1", 0)) as server:
        for step, batch in enumerate(run.loader()):
            if run.trouble(step):
                download(f"http://127.0.0.1:{server.getsockname()[1]}/shard-0007.tar")
            train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
