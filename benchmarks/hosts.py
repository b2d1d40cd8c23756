"""How long does a verdict on a job over many hosts take? Beside asking one host after the other.

The evidence is that of a real job of four ranks, spread over eight ranks on each host; each host takes as long to gather it as that job
took. Hosts are made up by one other process (programs/fleet.py): everything on this side is what it is with real ones, their lines, the
calls, what comes through them, putting it together, judging it.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

from common import REPO, Row, arguments, print_table
from recorded_job import recorded, spread

from jupyter_traindbg.hosts.lines import Begun, between_pipes
from jupyter_traindbg.hosts.remote import RemoteHosts, RemoteLine, hang_up
from jupyter_traindbg.hosts.ssh import SshLine
from jupyter_traindbg.model import Diagnosis, JobEvidence, TargetName
from jupyter_traindbg.spread.found import Found
from jupyter_traindbg.spread.part import Member
from jupyter_traindbg.spread.remote import NamedHosts, RemoteJob

HEAD = ("a job on", "ours, s (CPU here)", "one after the other, s", "ratio", "goal")
FLEET = Path(__file__).resolve().parent / "programs" / "fleet.py"
SCENE, WORLD, PER_HOST = "sleeping", 4, 8
SIZES, QUICK_SIZES = (1, 10, 100), (1, 10)
SILENT = 3
TRIP_S, ANSWER_S, SILENT_S, GOAL_S = 0.02, 20.0, 5.0, 15.0


class FleetLine(SshLine):
    """A line whose other end is in the fleet."""

    def __init__(self, host: str, meeting: socket.socket) -> None:
        super().__init__(host)
        self._meeting = meeting

    def start(self, said: IO[bytes]) -> Begun:
        """See `Line.start`."""

        def hand_over(theirs_in: int, theirs_out: int) -> subprocess.Popen[bytes]:
            socket.send_fds(self._meeting, [json.dumps(self.host).encode()], [theirs_in, theirs_out])
            return subprocess.Popen(["sleep", "infinity"], stdin=subprocess.DEVNULL, stdout=said, stderr=said)

        return between_pipes(hand_over)

    def greet(self, begun: Begun) -> None:
        """See `Line.greet`: it is ready."""


@contextmanager
def fleet(parts: Mapping[str, JobEvidence], gather_s: float) -> Iterator[RemoteHosts]:
    """Hosts that each have their part of the evidence."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with tempfile.TemporaryDirectory() as folder, ours:
        evidence = Path(folder) / "evidence.pickle"
        evidence.write_bytes(pickle.dumps(dict(parts)))
        with theirs:
            words = [sys.executable, str(FLEET), str(theirs.fileno()), str(evidence), str(gather_s), str(TRIP_S)]
            process = subprocess.Popen(words, pass_fds=[theirs.fileno()], env={**os.environ, "PYTHONPATH": str(REPO)})
        lines: dict[str, RemoteLine] = {host: FleetLine(host, ours) for host in parts}
        hosts = RemoteHosts(lines)
        try:
            yield hosts
        finally:
            hosts.close()
            hang_up()
            process.kill()
            process.wait()


def divided(evidence: JobEvidence, names: Sequence[str]) -> dict[str, JobEvidence]:
    """What each host knows: its own ranks, and of the others only that they are none of its own."""
    found = {}
    for number, host in enumerate(names):
        own = evidence.ranks[number * PER_HOST : (number + 1) * PER_HOST]
        found[host] = replace(evidence, ranks=tuple(replace(rank, host=host) for rank in own))
    return found


def job(hosts: RemoteHosts, parts: Mapping[str, JobEvidence]) -> RemoteJob:
    made = {}
    for host, part in parts.items():
        members = tuple(Member(rank.pid, rank.rank, rank.world_size, "", True) for rank in part.ranks)
        made[host] = Found("torchrun:1", "torchrun train.py", members)
    named = TargetName("ssh", "torchrun", "fleet")
    return RemoteJob(NamedHosts(named, named, hosts, list(parts)), made, {})


def measured(size: int, silent: int, evidence: JobEvidence, gather_s: float) -> Iterator[Row]:
    """The verdict on `size` hosts, and again where some are silent: by then they have let somebody wait."""
    names = [f"{'silent' if n >= size - silent else 'host'}{n}" for n in range(size)]
    parts = divided(spread(evidence, size * PER_HOST), names)
    with fleet(parts, gather_s) as hosts:
        one_s = _one(hosts, names[0])
        asked = job(hosts, parts)
        for again in ("", ", asked again") if silent else ("",):
            began, used = time.perf_counter(), time.process_time()
            found = asked.diagnose(timeout=SILENT_S if silent else ANSWER_S)
            took, cpu = time.perf_counter() - began, time.process_time() - used
            what = f"{size} host{'s' * (size > 1)}, {size * PER_HOST} ranks" + (
                f", {silent} silent{again}" if silent else ""
            )
            naive = (size - silent) * one_s + silent * SILENT_S
            yield Row(
                f"{what}: {_first(found)}",
                f"{took:.1f} ({cpu:.1f})",
                f"{naive:.0f}",
                f"{took / naive:.3f}",
                f"<= {GOAL_S:.0f} s",
                took <= GOAL_S,
            )


def _one(hosts: RemoteHosts, host: str) -> float:
    """What one host takes: the others would each take as long after it."""
    began = time.perf_counter()
    hosts.run(host, "jupyter_traindbg.spread.part:gather", None, ANSWER_S, deadline_s=ANSWER_S)
    return time.perf_counter() - began


def _first(found: Diagnosis) -> str:
    if not found.findings:
        return f"none ({found.state})"
    first = found.findings[0]
    who = first.who[0] if len(first.who) == 1 else f"{first.who[0]} and {len(first.who) - 1} more"
    return f"{first.code} {who}"


def main() -> None:
    args = arguments(__doc__).parse_args()
    evidence, gather_s = recorded(SCENE, WORLD)
    rows = [row for size in (QUICK_SIZES if args.quick else SIZES) for row in measured(size, 0, evidence, gather_s)]
    rows += measured((QUICK_SIZES if args.quick else SIZES)[-1], SILENT, evidence, gather_s)
    print_table(f"A verdict on many hosts; gathering takes {gather_s:.1f} s on each", HEAD, rows)


if __name__ == "__main__":
    main()
