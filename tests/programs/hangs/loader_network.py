"""A DataLoader worker of one rank fetches an image, without a time-out, from a server that never answers."""

import socket

from parts import Run, Squares, train_step

EXPECTED = {"code": "dataloader_worker_stuck", "ranks": "culprit", "where": "fetch"}


class Images(Squares):
    def __init__(self, store, bad):
        self.store, self.bad = store, bad

    def __getitem__(self, i):
        if i == self.bad:
            self.fetch(i)
        return super().__getitem__(i)

    def fetch(self, i):
        with socket.create_connection(self.store) as link:
            link.sendall(b"GET %d" % i)
            return link.recv(1 << 16)  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    with socket.create_server(("127.0.0.1", 0)) as server:
        bad = run.step * 4 * run.world + run.rank if run.is_culprit else None
        for step, batch in enumerate(run.loader(Images(server.getsockname(), bad), workers=2)):
            train_step(model, optimizer, batch)
            run.trouble(step + 1)


if __name__ == "__main__":
    main()
