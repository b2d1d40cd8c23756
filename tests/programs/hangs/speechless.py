"""A rank and its data server talk over a plain socket, a header with the length before each message. One request counts itself too long:
the server waits for the rest of it, the rank for the answer.
"""

import pickle
import socket
import struct
import threading

from parts import ADDRESS, Run, address, beside, publish_port, train_step

EXPECTED = {
    "code": "process_deadlock",
    "ranks": "culprit",
    "where": ("exactly", "receive"),
    "beside": "data",
    "names": "data",
}
HEADER = struct.Struct("!I")


class Wire:
    def __init__(self, connection):
        self.connection = connection

    def exactly(self, count):
        parts = []
        while count:
            part = self.connection.recv(min(count, 4096))  # HERE
            if not part:
                raise EOFError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def receive(self):
        return pickle.loads(self.exactly(HEADER.unpack(self.exactly(HEADER.size))[0]))

    def send(self, message, more=0):
        raw = pickle.dumps(message)
        self.connection.sendall(HEADER.pack(len(raw) + more) + raw)


def serve(wire):
    try:
        while True:
            wire.send({"sample": wire.receive()})
    except EOFError:
        pass


def data():
    with socket.create_server((ADDRESS, 0)) as server:
        publish_port("data", server.getsockname()[1])
        while True:
            connection, _ = server.accept()
            threading.Thread(target=serve, args=(Wire(connection),), daemon=True).start()


def main():
    run = Run()
    model, optimizer = run.model()
    wire = Wire(socket.create_connection(address("data")))
    for step, batch in enumerate(run.loader()):
        wire.send(("sample", step), more=2 if run.trouble(step) else 0)
        wire.receive()
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    data() if beside() == "data" else main()
