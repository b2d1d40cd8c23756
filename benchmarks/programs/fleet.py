"""Many hosts in one process, for benchmarks/hosts.py: behind each pipe what a helper says whose ranks stand in a recorded hang.

fleet.py SOCKET EVIDENCE GATHER_S TRIP_S: a descriptor that pipes and the names of their hosts come through; the pickled evidence of each
host; what gathering it takes; and what an answer takes on its way. A host whose name begins with "silent" never answers.
"""

from __future__ import annotations

import json
import pickle
import socket
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_traindbg.hosts import wire
from jupyter_traindbg.hosts.base import short


def main() -> None:
    number, evidence, gather_s, trip_s = sys.argv[1:]
    parts: dict[str, Any] = pickle.loads(Path(evidence).read_bytes())
    fleet = Fleet({host: wire.dumps((True, part, [])) for host, part in parts.items()}, float(gather_s), float(trip_s))
    with socket.socket(fileno=int(number)) as meeting:
        while True:
            told, fds, _, _ = socket.recv_fds(meeting, 4096, 2)
            if not told:
                return
            threading.Thread(target=fleet.serve, args=(json.loads(told), *fds), daemon=True).start()


@dataclass(frozen=True)
class Fleet:
    """What all of them are: ``packed`` has the answer of each to `gather`."""

    packed: Mapping[str, bytes]
    gather_s: float
    trip_s: float

    def serve(self, host: str, requests: int, answers: int) -> None:
        """Answer as long as somebody asks, one request after the other."""
        while True:
            try:
                piece = wire.receive(requests)
            except EOFError:
                return
            if piece and not host.startswith("silent"):
                number, asked = wire.loads(piece)
                answer = self.answer(host, short(wire.loads(asked)[0]))
                time.sleep(self.trip_s)
                wire.send(answers, wire.dumps((number, answer)))

    def answer(self, host: str, what: str) -> bytes:
        """What that host says to a function's name."""
        if what == "gather":
            time.sleep(self.gather_s)
            return self.packed[host]
        return wire.dumps((True, time.time() if what == "now" else None, []))


if __name__ == "__main__":
    main()
