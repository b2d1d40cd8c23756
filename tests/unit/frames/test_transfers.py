"""A work is followed back to the send or receive that made it, in the forms in which programs keep works."""

from __future__ import annotations

import dataclasses
from typing import Any

from cases import each
from standing import standing, thing, value, work

from jupyter_traindbg.frames.awaited import Awaited, awaited
from jupyter_traindbg.model import Value, Wait

SEND, RECV = work("SEND"), work("RECV")
OTHER_SEND, OTHER_RECV = work("SEND", 2), work("RECV", 3)

UNPACKED = """
    def average(mine, theirs, peer):
        arriving, leaving = dist.irecv(theirs, src=peer), dist.isend(mine, dst=peer)
        arriving.wait()  # 0
"""
BY_NAME = """
    def communicate(self, x, to_prev=None, from_prev=False):
        requests = {}
        if from_prev and not self.first:
            requests["recv_prev"] = dist.irecv(x, src=self.before)
        if x is not None and not self.last:
            requests["send_next"] = dist.isend(x, dst=self.after)
        if to_prev is not None and not self.first:
            requests["send_prev"] = dist.isend(to_prev, dst=self.before)
        for request in requests.values():
            request.wait()  # 0
"""
STAGE = thing("Stage", first=False, last=False, before=0, after=2)
POPPED = """
    def collect(self, sizes):
        pending = {}
        for worker in self.workers:
            for number, name in enumerate(sizes):
                pending[worker, name] = dist.irecv(x, src=worker, tag=number)
        while pending:
            key, work = pending.popitem()
            work.wait()  # 0
"""
OF_A_PEER = """
    def halo(x, peers):
        works = {}
        for peer in peers:
            works[peer] = dist.isend(x, peer)
        for peer, work in works.items():
            work.wait()  # 0
"""
PAIRS = """
    def halo(x, peers):
        works = []
        for peer in peers:
            works.append((peer, dist.isend(x, peer)))
        for to, sent in works:
            sent.wait()  # 0
"""
ROUNDS = """
    def halo(self, x):
        works = []
        for peer in self.peers:
            if peer == self.rank:
                continue
            works.append(dist.irecv(x, src=peer))
            works.append(dist.isend(x, dst=peer, tag=7))
        for work in works:
            work.wait()  # 0
"""
COUNTED = """
    def halo(x):
        works = [dist.isend(x, dst=i + 1) for i in range(3)]
        for i in range(3):
            works[i].wait()  # 0
"""
ATTRIBUTE = """
    class Stage:
        def start(self, x):
            self.sending = dist.isend(x, dst=self.after)

        def finish(self):
            self.sending.wait()  # 0
"""
KEPT = """
    class Stage:
        def start(self, x, n):
            self.pending[n] = dist.irecv(x, self.before)

        def drain(self):
            while self.pending:
                number, work = self.pending.popitem()
                work.wait()  # 0

    class Other:
        def start(self, x):
            self.pending["all"] = dist.irecv(x, 9)
"""
RETURNED = """
    def post(x, to):
        return dist.isend(x, dst=to)

    class Pipe:
        def send(self, x):
            target = self.rank + 1
            return post(x, target)

    def step(pipe, x):
        handle = pipe.send(x)
        handle.wait()  # 0
"""
HANDLE = """
    class Handle:
        def __init__(self, work, peer):
            self.work, self.peer = work, peer

        def finish(self):
            self.work.wait()  # 0

    def step(x, nxt):
        handle = Handle(dist.isend(x, dst=nxt), nxt)
        handle.finish()  # 1
"""
BATCH_BUILT = """
    def step(x, nxt, prv):
        ops = []
        ops.append(dist.P2POp(dist.isend, x, nxt))
        ops.append(dist.P2POp(dist.irecv, x, peer=prv, tag=2))
        for work in dist.batch_isend_irecv(ops):
            work.wait()  # 0
"""
EXTENDED = """
    def post(self, x):
        return [dist.isend(x, dst=peer) for peer in self.downstream]

    def step(self, x):
        works = [dist.irecv(x, src=self.before)]
        works += self.post(x)
        for work in works:
            work.wait()  # 0
"""
ASKED = """
    def peer(self, offset):
        if offset > 10:
            return None
        return (dist.get_rank() + offset) % dist.get_world_size()

    def step(self, x):
        work = dist.isend(x, dst=self.peer(1))
        work.wait()  # 0
"""
BY_KEY = """
    def tag(self, side):
        return 10 * self.level + SIDES.index(side)

    def post(self, x):
        works = {}
        for side, peer in self.peers.items():
            works[f"recv-{side}"] = dist.irecv(x, src=peer, tag=self.tag(side))
            works[f"send-{side}"] = dist.isend(x, dst=peer, tag=self.tag(side))
        return works

    def step(self, x):
        works = self.post(x)
        for name in sorted(works):
            works[name].wait()  # 0
"""
FILLED = """
    def listen(self):
        for worker, buffer in self.inbox.items():
            self.pushes[worker] = dist.irecv(buffer, src=worker)

    def collect(self):
        for worker in list(self.pushes):
            self.pushes.pop(worker).wait()  # 0
"""
ZIPPED = """
    def step(xs, peers):
        works = [dist.isend(x, peer) for x, peer in zip(xs, peers)]
        for work in works:
            work.wait()  # 0
"""
LEFT = """
    def step(self, x):
        works = []
        while True:
            if self.done:
                break
            works.append(dist.isend(x, self.after))
            self.done = True
        for work in works:
            work.wait()  # 0
"""
CHOSEN = """
    def ends(x, n, last):
        work = dist.isend(x, n - 1) if last else dist.isend(x, n + 1)
        work.wait()  # 0
"""


@each(
    "text, variables, op, peer",
    [
        (UNPACKED, [{"peer": 3, "arriving": RECV, "leaving": OTHER_SEND}], "irecv", 3),
        (
            BY_NAME,
            [
                {
                    "self": STAGE,
                    "x": Value("other", "Tensor"),
                    "from_prev": True,
                    "requests": {"recv_prev": OTHER_RECV, "send_next": SEND, "send_prev": OTHER_SEND},
                    "request": SEND,
                }
            ],
            "isend",
            2,
        ),
        (
            BY_NAME,
            [{"self": STAGE, "x": Value("other", "Tensor"), "to_prev": None, "from_prev": False, "request": SEND}],
            "isend",
            2,
        ),
        (POPPED, [{"worker": 3, "key": (1, "bias"), "work": RECV}], "irecv", 1),
        (OF_A_PEER, [{"peers": [2, 3], "peer": 3, "works": {2: OTHER_SEND, 3: SEND}, "work": SEND}], "isend", 3),
        (PAIRS, [{"peers": [2, 3], "to": 2, "sent": SEND, "peer": 3}], "isend", 2),
        (
            ROUNDS,
            [
                {
                    "self": thing("Halo", peers=[0, 1, 2], rank=1),
                    "works": [RECV, OTHER_SEND, OTHER_RECV, work("SEND", 4)],
                    "work": OTHER_RECV,
                }
            ],
            "irecv",
            2,
        ),
        (COUNTED, [{"works": [OTHER_SEND, OTHER_RECV, SEND], "i": 2}], "isend", 3),
        (ATTRIBUTE, [{"self": thing("Stage", after=2, sending=SEND)}], "isend", 2),
        (KEPT, [{"self": thing("Stage", before=1, pending={}), "number": 4, "work": RECV}], "irecv", 1),
        (RETURNED, [{"pipe": thing("Pipe", rank=1), "handle": SEND}], "isend", 2),
        (HANDLE, [{"self": thing("Handle", work=SEND, peer=3)}, {"nxt": 3}], "isend", 3),
        (BATCH_BUILT, [{"nxt": 2, "prv": 0, "work": RECV}], "irecv", 0),
        (EXTENDED, [{"self": thing("Stage", before=1, downstream=[3]), "work": RECV}], "irecv", 1),
        (CHOSEN, [{"n": 3, "last": True, "work": SEND}], "isend", 2),
        (LEFT, [{"self": thing("S", done=True, after=2), "works": [SEND], "work": SEND}], "isend", 2),
        (FILLED, [{"self": thing("Server", inbox={}, pushes={}), "worker": 3}], "irecv", 3),
        (ZIPPED, [{"xs": [7, 8], "peers": [2, 3], "works": [OTHER_SEND, SEND], "work": SEND}], "isend", 3),
    ],
)
def test_the_peer_is_found(text: str, variables: list[dict[str, Any]], op: str, peer: int) -> None:
    told = awaited(*standing(text, *variables))
    assert told is not None
    assert (told.wait, told.peer) == (Wait("peer", op), peer)


def test_the_round_of_a_loop_tells_the_tag_too() -> None:
    halo = thing("Halo", peers=[0, 1, 2], rank=1)
    works = [RECV, OTHER_SEND, OTHER_RECV, work("SEND", 4)]
    told = awaited(*standing(ROUNDS, {"self": halo, "works": works, "work": works[3]}))
    assert told == Awaited(Wait("peer", "isend"), 2, 7)


AGAIN = """
    def step(self, x):
        self.works.append(dist.isend(x, dst=self.after))
        self.works.append(dist.irecv(x, src=self.before))
        while self.works:
            self.works.pop(0).wait()  # 0
"""
QUEUED = """
    def step(x, one, other):
        works = [dist.isend(x, one), dist.isend(x, other)]
        works.pop(0).wait()
        works[0].wait()  # 0
"""
HANDED_OUT = """
    def step(x, after, before):
        works = [dist.isend(x, after), dist.irecv(x, before)]
        works.pop().wait()  # 0
"""
LATER = """
    def step(self, x):
        handle = self.pipe.post(x)
        handle.wait()  # 0

    def post(self, x, to=3):
        for to in self.all:
            work = dist.isend(x, to)
        return work
"""
LONG = """
    def step(x):
        works = []
        for i in range(100):
            works.append(dist.isend(x, dst=i))
        for work in works:
            work.wait()  # 0
"""
ITSELF = """
    def step(works):
        works = works + [works[0]]
        works[0].wait()  # 0
"""


@each(
    "text, variables, told",
    [
        (HANDED_OUT, {"after": 2, "before": 0}, Awaited(Wait("peer", "wait"), None, 0)),
        (QUEUED, {"works": [SEND], "one": 1, "other": 2}, Awaited(Wait("peer", "isend"), None, 0)),
        (
            LATER,
            {"handle": SEND, "self": thing("S", pipe=thing("P", all=[1, 2]))},
            Awaited(Wait("peer", "isend"), None, 0),
        ),
        (
            LONG,
            {"works": Value("items", "list", parts={1: SEND}, size=100), "work": SEND},
            Awaited(Wait("peer", "isend"), None, 0),
        ),
        (ITSELF, {"works": [SEND]}, Awaited(Wait("peer", "isend"))),
        (CHOSEN, {"n": 3, "work": SEND}, Awaited(Wait("peer", "isend"), None, 0)),
        (AGAIN, {"self": thing("S", after=2, before=0, works=[])}, Awaited(Wait("peer", "wait"), None, 0)),
    ],
)
def test_what_may_be_another_is_not_told(text: str, variables: dict[str, Any], told: Awaited) -> None:
    assert awaited(*standing(text, variables)) == told


def test_a_work_of_another_class_is_not_taken_for_this_one() -> None:
    told = awaited(*standing(KEPT, {"self": thing("Stage", pending={}), "number": 4, "work": RECV}))
    assert told == Awaited(Wait("peer", "irecv"), None, 0), "its own peer is not known, and 9 is the other's"


def test_what_functions_return_is_read_from_their_source() -> None:
    seat = {"get_rank": 3, "get_world_size": 4}
    told = awaited(*standing(ASKED, {"self": thing("Pipe"), "work": SEND}), seat)
    assert told == Awaited(Wait("peer", "isend"), 0, 0)
    assert awaited(*standing(ASKED, {"self": thing("Pipe"), "work": SEND})) == Awaited(Wait("peer", "isend"), None, 0)


def test_a_key_tells_the_round_in_which_it_was_set() -> None:
    halo = thing("Halo", level=2, peers={"before": 1, "after": 3})
    scopes, sources = standing(
        BY_KEY, {"self": halo, "name": "send-after", "works": {"recv-before": RECV, "send-after": SEND}}
    )
    scopes = [dataclasses.replace(scopes[0], outer={"SIDES": value(("before", "after"))})]
    assert awaited(scopes, sources) == Awaited(Wait("peer", "isend"), 3, 21)


def test_a_constant_of_the_module_needs_not_be_told() -> None:
    text = """
        SIDES, SERVER = ("before", "after"), 3
        CHANGED = 4

        def change():
            global CHANGED
            CHANGED = 5

        def step(x):
            work = dist.isend(x, dst=SERVER, tag=len(SIDES))
            other = dist.isend(x, dst=SERVER, tag=CHANGED)
            {}.wait()  # 0
    """
    assert awaited(*standing(text.format("work"), {"work": SEND})) == Awaited(Wait("peer", "isend"), 3, 2)
    assert awaited(*standing(text.format("other"), {"other": SEND})) == Awaited(Wait("peer", "isend"), 3, None)


def test_functions_that_call_each_other_are_given_up() -> None:
    text = """
        def one(n):
            if other(n) > other(n - 1):
                return other(n) + other(n + 1)
            return other(n)

        def other(n):
            if one(n) > one(n - 1):
                return one(n) + one(n + 1)
            return one(n)

        def step(x):
            work = dist.isend(x, dst=one(3))
            work.wait()  # 0
    """
    assert awaited(*standing(text, {"work": SEND})) == Awaited(Wait("peer", "isend"), None, 0)
