"""Lightning's own Trainer, unchanged; one rank fetches a batch, without a time-out, from a server that never answers."""

import socket

from parts import Run, Squares
from trainers import LightningRegression, lightning_trainer

EXPECTED = {"code": ("io_wait", "dataloader_wait"), "ranks": "culprit", "where": "fetch"}


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
    run = Run(group=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        bad = run.step * 4 * run.world + run.rank if run.is_culprit else None
        trainer = lightning_trainer(run)
        module = LightningRegression(run)
        trainer.fit(module, run.loader(Images(server.getsockname(), bad)))


if __name__ == "__main__":
    main()
