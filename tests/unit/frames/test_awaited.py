"""What a call on a work or a store waits for: its operation, and the peer where the work was made."""

from __future__ import annotations

from typing import Any

from cases import each
from standing import exchange, standing, thing, work

from jupyter_traindbg.frames.awaited import Awaited, awaited
from jupyter_traindbg.model import Value, Wait

SEND, RECV = work("SEND"), work("RECV")

DIRECT = """
    def pass_on(x, nxt):
        dist.isend(x, nxt, tag=3).wait()  # 0
"""
NAMED = """
    def pass_on(self, x):
        sent = dist.isend(x, dst=self.rank + 1)
        got = dist.irecv(x, src=self.rank - 1)
        got.wait()  # 0
"""
LISTED = """
    def exchange(to, source, x):
        handles = []
        if to is not None:
            handles.append(dist.isend(x, to))
        if source is not None:
            handles.append(dist.irecv(x, source))
        for handle in handles:
            handle.wait()  # 0
"""
POSTED = """
    def fill(self, inputs):
        posted = [dist.irecv(b, src=self.prev) for b in inputs]
        for i, x in enumerate(inputs):
            posted[i].wait()  # 0
"""
BATCHED = """
    def wait_all(works):
        for work in reversed(works):
            work.wait()  # 0

    def together(ops):
        wait_all(dist.batch_isend_irecv(ops))  # 1
"""
WRITTEN_OUT = """
    def exchange(self, x, y):
        for one in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, self.nxt), dist.P2POp(dist.irecv, y, self.prev)]):
            one.wait()  # 0
"""
BRANCHED = """
    def receive(x, flag, left, right):
        work = dist.irecv(x, left) if flag else dist.irecv(x, right)
        work.wait()  # 0
"""


@each(
    "text, variables, op, peer",
    [
        (DIRECT, [{"nxt": 2}], "isend", 2),
        (NAMED, [{"self": thing("Stage", rank=2), "got": RECV}], "irecv", 1),
        (LISTED, [{"to": 3, "source": 1, "handle": SEND}], "isend", 3),
        (LISTED, [{"to": 3, "source": 1, "handle": RECV}], "irecv", 1),
        (POSTED, [{"self": thing("Stage", prev=0), "posted": [RECV, RECV], "i": 1}], "irecv", 0),
        (BATCHED, [{"work": SEND}, {"ops": [exchange("isend", 2), exchange("irecv", 0)]}], "isend", 2),
        (BATCHED, [{"work": RECV}, {"ops": [exchange("isend", 2), exchange("irecv", 0)]}], "irecv", 0),
        (WRITTEN_OUT, [{"self": thing("Stage", nxt=2, prev=0), "one": RECV}], "irecv", 0),
        (BRANCHED, [{"flag": True, "left": 0, "right": 0, "work": RECV}], "irecv", 0),
    ],
)
@each("reach", [False, True])
def test_a_work_is_followed_to_where_it_was_made(
    text: str, variables: list[dict[str, Any]], op: str, peer: int, reach: bool
) -> None:
    scopes, sources = standing(text, *variables, reach=reach)
    told = awaited(scopes, sources)
    assert told is not None
    assert (told.wait, told.peer) == (Wait("peer", op), peer)


def test_the_tag_comes_with_it() -> None:
    assert awaited(*standing(DIRECT, {"nxt": 2})) == Awaited(Wait("peer", "isend"), 2, 3)
    assert awaited(*standing(NAMED, {"self": thing("Stage", rank=2), "got": RECV})) == Awaited(
        Wait("peer", "irecv"), 1, 0
    )


OVER = """
    def scatter(x, peers):
        works = []
        for peer in peers:
            works.append(dist.isend(x, peer))
        for work in works:
            work.wait()  # 0
"""
COMPREHENDED = """
    def scatter(x, peers, peer):
        works = [dist.isend(x, peer) for peer in peers]
        for work in works:
            work.wait()  # 0
"""
ASSIGNED_SINCE = """
    def both(x, peer, other):
        work = dist.isend(x, peer)
        peer = other
        work.wait()  # 0
"""
TWO = """
    def both(x, one, other):
        works = [dist.isend(x, one), dist.isend(x, other)]
        for work in works:
            work.wait()  # 0
"""
POPPED = """
    def drain(self):
        x, sent = self.in_flight.pop()
        sent.wait()  # 0
        dist.isend(x, dst=self.prev).wait()
"""


@each("text", [OVER, COMPREHENDED, ASSIGNED_SINCE, TWO])
def test_a_peer_that_may_be_another_by_now_is_not_told(text: str) -> None:
    variables = {"peers": [1, 2], "peer": 2, "other": 2, "one": 1, "work": SEND}
    assert awaited(*standing(text, variables)) == Awaited(Wait("peer", "isend"), None, 0)


def test_a_work_of_unknown_origin_has_its_operation_alone() -> None:
    told = awaited(*standing(POPPED, {"self": thing("Stage", prev=1), "sent": SEND}))
    assert told == Awaited(Wait("peer", "isend"))


def test_in_a_loop_over_peers_the_one_of_this_round_is_meant() -> None:
    text = """
        def scatter(x, peers):
            for peer in peers:
                dist.isend(x, peer).wait()  # 0
    """
    assert awaited(*standing(text, {"peers": [1, 2], "peer": 1})) == Awaited(Wait("peer", "isend"), 1, 0)


def test_the_work_of_a_collective_is_that_collective() -> None:
    text = """
        def average(grads):
            works = [dist.all_reduce(g, async_op=True) for g in grads]
            works[-1].wait()  # 0
    """
    told = awaited(*standing(text, {"works": [work("ALLREDUCE"), work("ALLREDUCE", 2)]}))
    assert told == Awaited(Wait("collective", "all_reduce"))


ASKS = """
    def share(counts):
        work = dist.all_reduce(counts, async_op=True)
        while not work.is_completed():
            time.sleep(0.005)  # 0
"""
ASKS_ALL = """
    def share(works):
        while True:
            if all(one.is_completed() for one in works):
                break
            time.sleep(0.005)  # 0
"""
ASKS_FOR_DATA = """
    def take(x, last):
        work = dist.irecv(x, src=last)
        for _ in range(1000):
            if work.is_completed():
                return x
            time.sleep(0.005)  # 0
"""
ASKS_WITHIN = """
    def train(batches, work):
        for batch in batches:
            while not work.is_completed():
                draw()
            step(batch)  # 0
"""


@each(
    "text, variables, told",
    [
        (ASKS, {"work": work("ALLREDUCE")}, Awaited(Wait("collective", "all_reduce"), polled=True)),
        (ASKS_ALL, {"works": [work("BARRIER")]}, Awaited(Wait("collective", "barrier"), polled=True)),
        (ASKS_FOR_DATA, {"work": work("RECV"), "last": 2}, Awaited(Wait("peer", "irecv"), 2, 0, polled=True)),
        (ASKS, {"work": thing("Future")}, None),
        (ASKS_WITHIN, {"work": work("ALLREDUCE")}, None),
    ],
)
def test_a_loop_that_asks_for_works_waits_for_them(text: str, variables: dict[str, Any], told: Awaited | None) -> None:
    assert awaited(*standing(text, variables)) == told


STORED = """
    def order_of(self, epoch):
        key = f"epoch-{epoch}"
        self.store.wait([key, "done"], timedelta(hours=2))  # 0
"""
GOTTEN = """
    def order_of(store, epoch):
        return json.loads(store.get("order/" + str(epoch)))  # 0
"""


def test_a_store_is_waited_for_by_a_key() -> None:
    store = Value("store", "TCPStore")
    told = awaited(*standing(STORED, {"self": thing("Order", store=store), "epoch": 4, "key": "epoch-4"}))
    assert told == Awaited(Wait("store", "wait", "epoch-4, done"))
    assert str(told.wait) == "the key epoch-4, done of the process group's store"
    unknown = awaited(*standing(GOTTEN, {"store": store, "epoch": 4}))
    assert unknown == Awaited(Wait("store", "get"))
    assert str(unknown.wait) == "a key of the process group's store"


@each(
    "text, variables",
    [
        ("def f(event):\n    event.wait()  # 0\n", {"event": Value("event", "Event", plain=False)}),
        ("def f(table):\n    table.get(load())  # 0\n", {"table": {"a": 1}}),
        ("def f(x):\n    x.wait()  # 0\n", {}),
        ("def f(x):\n    x.numpy()  # 0\n", {"x": SEND}),
    ],
)
def test_anything_else_is_none(text: str, variables: dict[str, Any]) -> None:
    assert awaited(*standing(text, variables)) is None


def test_without_source_nothing_is_told() -> None:
    scopes, _ = standing(DIRECT, {"nxt": 2})
    assert awaited(scopes, {}) is None
    assert awaited([], {}) is None
