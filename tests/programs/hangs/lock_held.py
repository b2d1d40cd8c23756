"""One rank waits for a lock that its own uploading thread holds while it waits for the network; the others wait for its gradients."""

import socket
import threading

from parts import Run, train_step

EXPECTED = {"code": "lock_wait", "ranks": "culprit", "where": "log", "also": ("io_wait",)}


class Metrics:
    """Collects numbers; a thread sends them away now and then."""

    def __init__(self):
        self.lock = threading.Lock()
        self.rows = []
        self.server = socket.create_server(("127.0.0.1", 0))  # accepts connections, and never answers

    def log(self, row):
        with self.lock:  # HERE
            self.rows.append(row)

    def upload(self):
        with self.lock, socket.create_connection(self.server.getsockname()) as link:
            link.sendall(repr(self.rows).encode())
            link.recv(1)


def main():
    run = Run()
    model, optimizer = run.model()
    metrics = Metrics()
    for step, batch in enumerate(run.loader()):
        if run.trouble(step):
            threading.Thread(target=metrics.upload, name="uploader", daemon=True).start()
            while not metrics.lock.locked():
                pass
        metrics.log(step)
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
