"""Functions that add to something, and some of them bound it. Prints for each, as JSON, what its bytecode says and what is so.

Run as ``growth_scenes.py FOLDER``, where FOLDER holds the agent: by any Python from 3.9 on.
"""

from __future__ import annotations

import heapq
import json
import sys
from collections import defaultdict
from collections.abc import Callable
from typing import Any

sys.path.insert(0, sys.argv[1])
from agent.growth import limits, lines  # type: ignore[import-not-found]

MOST = 70

# --- the line that adds: marked --------------------------------------------------------------------------------------


def appends(losses: list[Any], loss: Any) -> None:
    x = loss
    losses.append(x)  # adds
    losses.sort()


def in_a_row(losses: list[Any], loss: Any) -> None:
    x = loss; losses.append(x)  # fmt: skip # noqa: E702 # adds
    for x in (loss, loss): losses.count(x)  # fmt: skip # noqa: E701


def in_one_line(losses: list[Any], batch: list[Any]) -> None:
    for x in batch: losses.append(x)  # fmt: skip # noqa: E701 # adds


def in_a_comprehension(losses: list[Any], batch: list[Any]) -> None:
    [losses.append(x) for x in batch]  # adds


def by_a_key_that_is_not_written(scalars: dict[Any, list[Any]], tag: str, x: Any) -> None:
    scalars[tag].append(x)  # adds


def pushes(heap: list[Any], x: Any) -> None:
    heapq.heappush(heap, (0, x))  # adds
    heapq.heappop(heap)


def pushes_elsewhere(heap: list[Any], other: list[Any], x: Any) -> None:
    heap.append(x)  # adds
    heapq.heappush(other, len(heap))


def stores(cache: dict[Any, Any], step: int, x: Any) -> Any:
    cache[step] = x  # adds
    return cache[step]


def sums(total: Any, loss: Any) -> Any:
    total = 0
    total += loss  # adds
    return total


def averages(total: Any, loss: Any) -> None:
    total = 0.9 * total + loss  # adds
    print(total)


class Trainer:
    def record(self, loss: Any) -> None:
        self.history["n"] += 1
        self.history["loss"].append(loss)  # adds


class Anew:
    def append(self, x: Any) -> None:
        self.held = [*self.held, x][-1000:]  # adds

    def store(self, x: Any) -> None:
        self.by_key = {**self.by_key, x: 1}  # adds


def encloses() -> Callable[[Any], None]:
    seen: list[Any] = []

    def inner(x: Any) -> None:
        seen.extend([x])  # adds

    return inner


def into_two(losses: list[Any], others: list[Any], loss: Any) -> None:
    losses.append(loss), others.append(loss)  # adds


ADDS: list[tuple[Any, Any]] = [
    (appends, lines.Wanted("losses")),
    (in_a_row, lines.Wanted("losses")),
    (in_one_line, lines.Wanted("losses")),
    (in_a_comprehension, lines.Wanted("losses")),
    (by_a_key_that_is_not_written, lines.Wanted("scalars", ["loss"])),
    (pushes, lines.Wanted("heap")),
    (stores, lines.Wanted("cache")),
    (sums, lines.Wanted("total", stores=True)),
    (averages, lines.Wanted("total", stores=True)),
    (Trainer, lines.Wanted("history", ["loss"])),
    (Anew.append, lines.Wanted("held")),
    (Anew.store, lines.Wanted("by_key")),
    (encloses, lines.Wanted("seen")),
    (into_two, lines.Wanted("losses")),
    (into_two, lines.Wanted("others")),
]

# --- what bounds it --------------------------------------------------------------------------------------------------


def by_constant(seen: Any, x: Any) -> None:
    if len(seen) < 500:
        seen.append(x)


def the_other_way_round(seen: Any, x: Any) -> None:
    if 500 > len(seen):  # noqa: SIM300
        seen.append(x)


def by_a_large_constant(seen: Any, x: Any) -> None:
    if len(seen) >= 100_000:
        return
    seen.append(x)


def by_attribute(self: Any, x: Any) -> None:
    while len(self.seen) > self.most:
        self.seen.pop(0)
    self.seen.append(x)


def by_argument(seen: Any, x: Any, most: int) -> None:
    if len(seen) < most and x:
        seen.append(x)


def by_global(seen: Any, x: Any) -> None:
    if len(seen) < MOST:
        seen.append(x)


def by_what_is_not_known(seen: Any, x: Any, room: int) -> None:
    if len(seen) < room:
        seen.append(x)


def of_an_attribute_in_a_condition(self: Any, x: Any) -> None:
    self.seen.append(x) if len(self.seen) < 500 else None


def every_tenth(seen: Any, x: Any) -> None:
    seen.append(x)
    if len(seen) % 10 == 0:
        print(x)


def told_of(seen: Any, x: Any) -> int:
    seen.append(x)
    return len(seen)


def by_epoch(batches: Any) -> None:
    for _ in range(10):
        seen = []
        for x in batches:
            seen.append(x)


def by_epoch_of_a_class(self: Any) -> None:
    self.seen = {}


def by_epoch_by_name(batches: Any) -> None:
    for _ in range(10):
        seen = defaultdict()
        for x in batches:
            seen[x] = x


def once(batches: Any) -> None:
    seen = []
    for x in batches:
        seen.append(x)


def something_else_is_new(seen: Any, batches: Any) -> None:
    for x in batches:
        y = []; seen.append(y)  # fmt: skip # noqa: E702
        y.append(x)


def cleared(seen: Any, x: Any) -> None:
    seen.append(x)
    if x:
        seen.clear()


def taken_in_a_row(seen: Any, x: Any) -> None:
    y = x; seen.pop(y)  # fmt: skip # noqa: E702


def oldest_out(seen: Any, x: Any) -> None:
    seen[x] = x
    del seen[next(iter(seen))]


def oldest_of_an_attribute_out(self: Any, x: Any) -> None:
    del self.seen[next(iter(self.seen.keys()))]
    self.seen[x] = x


def front_cut_off(seen: Any, x: Any) -> None:
    seen.append(x)
    del seen[:-10]


def last_out(seen: Any, x: Any) -> None:
    seen[x] = x
    seen.popitem(last=False)


def looked_up(seen: Any, x: Any) -> Any:
    if x not in seen:
        seen[x] = 1
    return seen[x]


def tried(seen: Any, x: Any) -> Any:
    try:
        return seen[x]
    except KeyError:
        found = seen[x] = 1
        return found


def used_as_a_key(rows: Any, seen: Any) -> None:
    del rows[seen[0]], rows[seen]


def got(seen: Any, x: Any) -> Any:
    found = seen.get(x)
    if found is None:
        found = seen[x] = 1
    return found


def looked_up_in_a_row(seen: Any, xs: Any) -> None:
    for x in xs: seen.setdefault(x, 1) if x not in seen else None  # fmt: skip # noqa: E701


def cut(self: Any, x: Any) -> None:
    self.seen.append(x)
    self.seen = self.seen[-10:]


BOUNDED: list[tuple[Any, dict[str, Any]]] = [
    (by_constant, {"compared": True, "most": 500}),
    (the_other_way_round, {"compared": True, "most": 500}),
    (by_a_large_constant, {"compared": True, "most": 100_000}),
    (by_attribute, {"compared": True, "most": MOST, "taken": True}),
    (by_argument, {"compared": True, "most": MOST}),
    (by_global, {"compared": True, "most": MOST}),
    (by_what_is_not_known, {"compared": True}),
    (of_an_attribute_in_a_condition, {"compared": True, "most": 500}),
    (every_tenth, {}),
    (told_of, {}),
    (by_epoch, {"emptied": True}),
    (by_epoch_of_a_class, {"emptied": True}),
    (by_epoch_by_name, {"emptied": True}),
    (once, {}),
    (something_else_is_new, {}),
    (cleared, {"emptied": True}),
    (taken_in_a_row, {"taken": True}),
    (oldest_out, {"taken": True}),
    (oldest_of_an_attribute_out, {"taken": True}),
    (front_cut_off, {"taken": True}),
    (last_out, {"taken": True}),
    (looked_up, {"looked_up": True}),
    (tried, {"looked_up": True}),
    (used_as_a_key, {}),
    (got, {"looked_up": True}),
    (looked_up_in_a_row, {"looked_up": True}),
    (cut, {"taken": True}),
]


def show(scene: str, wanted: Any, seen: Any) -> None:
    print(json.dumps({"scene": scene, "wanted": wanted, "seen": seen}))


def marked(codes: Any, source: list[str]) -> list[int]:
    """The lines of these functions that say so."""
    of_these = {line for code in lines.each(codes) for _, line in lines.dis.findlinestarts(code) if line}
    return [line for line in sorted(of_these) if source[line - 1].endswith("# adds")]


with open(__file__, encoding="utf-8") as f:
    written = f.read().splitlines()
for function, wanted in ADDS:
    codes = lines.of_class(function) if isinstance(function, type) else [function.__code__]
    show(function.__name__, marked(codes, written), [place[1] for place in lines.find(wanted, codes, [])])
for function, told in BOUNDED:
    bounds = limits.of("seen", [function.__code__], {"most": MOST, "MOST": MOST})
    show(function.__name__, {**limits.NONE, **told}, bounds)
