"""A store serves each rank in a thread of its own. The one for a large sample finds the quota spent, and sleeps with half of it taken."""

import socket
import socketserver
import time

from parts import ADDRESS, Run, address, beside, publish_port, train_step

EXPECTED = {
    "code": ("io_wait", "python_wait"),
    "ranks": "culprit",
    "where": "make_room",
    "beside": "store",
    "names": "store",
}
PIECE, QUOTA = 1 << 16, 1 << 17


class Take(socketserver.StreamRequestHandler):
    def handle(self):
        while head := self.rfile.readline():
            self.take(int(head))
            self.wfile.write(b"taken\n")

    def take(self, size):
        for taken in range(0, size, PIECE):
            self.rfile.read(min(PIECE, size - taken))
            if taken > QUOTA:
                self.make_room()

    def make_room(self):
        time.sleep(100_000)  # HERE


class Store(socketserver.ThreadingTCPServer):
    daemon_threads = True


def store():
    with Store((ADDRESS, 0), Take) as server:
        publish_port("store", server.server_address[1])
        server.serve_forever()


def put(connection, sample):
    connection.sendall(b"%d\n" % len(sample))
    connection.sendall(sample)
    return connection.recv(64)


def main():
    run = Run()
    model, optimizer = run.model()
    with socket.create_connection(address("store")) as connection:
        for step, batch in enumerate(run.loader()):
            put(connection, bytes(1 << 26 if run.trouble(step) else 64))
            train_step(model, optimizer, batch)


if __name__ == "__main__":
    store() if beside() == "store" else main()
