"""Places whose size is taken again and again: how long containers are, how deep graphs, how large tensors; which of them grow evenly."""

from __future__ import annotations

import sys
from array import array
from typing import Any, Dict, List, Sequence, Tuple

from ..attributes import MISSING, attributes
from . import graphs
from .elements import length
from .tree import ARRAY, GROWS, TENSOR, Moment, Tree

EVEN = 0.34
"""The least of the rates is that share of the greatest one, where something grows step by step."""
ROUNDS, CHANGING_ROUNDS = 5, 8
"""How often a size is taken; and that of what is another object each time, as a batch is: its size may rise by chance."""
MOST_GRAPHS, MOST_CHAIN = 64, 3000
"""So many graphs, the deepest ones, are measured more than once; so far a chain is followed."""

LENGTH, VALUES, FIRST_INPUT, LAST_INPUT, CHAIN = range(5)
INPUTS = (FIRST_INPUT, LAST_INPUT)
ALL_ROUNDS = 2
"""In so many rounds all places are measured, in others what has grown until then."""
"""What is measured of a place."""


class Watched:
    """One place. ``seen``: ``(step, size)`` of each round; ``same``: whether it was one object all the time."""

    __slots__ = ("attribute", "newest", "place", "same", "seen", "what", "whose")

    def __init__(self, place: int, what: int, attribute: str = "") -> None:
        self.place, self.what, self.attribute = place, what, attribute
        self.seen: List[Tuple[int, int]] = []
        self.whose = self.newest = 0
        self.same = True

    def take(self, value: Any, step: int) -> None:
        if self.seen and id(value) != self.whose:
            self.same = False
        self.whose = id(value)
        before = self.seen[-1][1] if self.seen else 0
        size, self.newest = measured(value, self.what, self.attribute, (before, self.newest))
        self.seen.append((step, size))

    @property
    def grows(self) -> bool:
        """Whether it has grown from each round to the next."""
        return len(self.seen) > 1 and self.seen[-1][1] > self.seen[-2][1]

    @property
    def steps(self) -> int:
        return max(1, self.seen[-1][0] - self.seen[0][0])

    @property
    def counts(self) -> List[int]:
        return [size for _, size in self.seen]

    def steady(self) -> bool:
        """Whether it grew by about as much a step each time, over as many rounds as it takes to know that."""
        rates = [(b - a) / max(1, then - at) for (at, a), (then, b) in zip(self.seen, self.seen[1:])]
        enough = len(self.seen) >= (ROUNDS if self.same else CHANGING_ROUNDS)
        return enough and min(rates) > 0 and min(rates) >= EVEN * max(rates)


class Watch:
    """What is measured in a round, in as many pauses as that takes. The first round is of all places, as numbers alone: a hundred thousand
    objects more would have the garbage collector go through all that the program has.
    """

    def __init__(self, tree: Tree) -> None:
        self.all: List[Watched] = []
        """What has grown so far, from the second round on."""
        self.rounds = 0
        self._places, self._whats = array("q"), bytearray()
        self._sizes, self._steps, self._ids = array("q"), array("q"), array("Q")
        self._newest: Dict[int, int] = {}
        self._chains: Dict[int, str] = {}
        self._next = 0
        for what, kinds in (
            (LENGTH, GROWS),
            (VALUES, (TENSOR, ARRAY)),
            (FIRST_INPUT, (TENSOR,)),
            (LAST_INPUT, (TENSOR,)),
        ):
            self._add(what, tree.places(*kinds))
        self._add(LENGTH, tree.rebound())
        first = {(chain.place, chain.attribute) for chain in tree.chains}
        for place, attribute in sorted(first):
            if (tree.parents[place], attribute) not in first:
                self._chains[len(self._places)] = attribute
                self._add(CHAIN, [place])

    def _add(self, what: int, places: Sequence[int]) -> None:
        self._places.extend(places)
        self._whats.extend([what] * len(places))

    def begin(self) -> None:
        self._next = 0

    def take(self, moment: Moment, step: int) -> bool:
        """On the training thread: measure until the time is over. True where the round is complete."""
        count = (len(self._places), len(self._sizes), len(self.all))[min(self.rounds, ALL_ROUNDS)]
        while self._next < count:
            number, self._next = self._next, self._next + 1
            if self.rounds >= ALL_ROUNDS:
                value = moment.at(self.all[number].place)
                if value is not MISSING:
                    self.all[number].take(value, step)
            else:
                self._measure(number, moment.at(self._places[number]), step)
            if moment.over:
                break
        return self._next >= count

    def _measure(self, number: int, value: Any, step: int) -> None:
        if self.rounds == 0:
            size, newest = 0, 0
            if value is not MISSING:
                size, newest = measured(value, self._whats[number], self._chains.get(number, ""), (0, 0))
            self._sizes.append(size)
            self._steps.append(step)
            self._ids.append(id(value))
            if newest:
                self._newest[number] = newest
            return
        before = (self._sizes[number], self._newest.get(number, 0))
        if value is MISSING or not (before[1] or self._whats[number] not in INPUTS):
            return
        attribute = self._chains.get(number, "")
        size, newest = measured(value, self._whats[number], attribute, before)
        if size > before[0]:
            one = Watched(self._places[number], self._whats[number], attribute)
            one.seen = [(self._steps[number], before[0]), (step, size)]
            one.whose, one.newest, one.same = id(value), newest, self._ids[number] == id(value)
            self.all.append(one)

    def longer(self, moment: Moment, step: int) -> Tuple[bool, List[Watched]]:
        """Containers that are longer than in the first round, until the time is over; and whether these are all."""
        found: List[Watched] = []
        while self._next < len(self._places) and not moment.over:
            number, self._next = self._next, self._next + 1
            value = moment.at(self._places[number]) if self._whats[number] == LENGTH else MISSING
            size = length(value) if value is not MISSING else 0
            if size > self._sizes[number]:
                one = Watched(self._places[number], LENGTH)
                one.seen = [(self._steps[number], self._sizes[number]), (step, size)]
                found.append(one)
        return self._next >= len(self._places), found

    def end(self) -> bool:
        """Leave out what does not grow. True where another round would tell no more."""
        self.rounds += 1
        if self.rounds == 1:
            self._leave_graphs()
            return False
        self.all = [one for one in self.all if len(one.seen) == self.rounds and one.grows]
        rounds = ROUNDS if all(one.same for one in self.all) else CHANGING_ROUNDS
        return not self.all or self.rounds >= rounds

    def _leave_graphs(self) -> None:
        """But for the deepest ones."""
        deepest = sorted(self._newest, key=lambda number: -self._sizes[number])
        for number in deepest[MOST_GRAPHS:]:
            del self._newest[number]

    def grown(self) -> List[Watched]:
        """What grows evenly, the fastest first."""
        found = [one for one in self.all if one.steady()]
        return sorted(found, key=lambda one: (one.counts[0] - one.counts[-1]) / one.steps)


def measured(value: Any, what: int, attribute: str, before: Tuple[int, int]) -> Tuple[int, int]:
    """How large it is, and of a graph the number of its newest node; `before`: the same of the last round."""
    if what == LENGTH:
        return length(value), 0
    if what == CHAIN:
        return len(linked(value, attribute, MOST_CHAIN)), 0
    if what == VALUES:
        return values(value), 0
    node = graphs.grad_fn(value)
    if node is None:
        return 0, 0
    return graphs.depth(node, 0 if what == FIRST_INPUT else -1, *before), graphs.number(node)


def values(value: Any) -> int:
    """How many numbers a tensor or an array has, where its class is not one of the program's; else 0."""
    torch = sys.modules.get("torch")
    if torch is not None and type(value) in (torch.Tensor, torch.nn.Parameter):
        return int(value.numel())
    return int(value.size) if type(value) is getattr(sys.modules.get("numpy"), "ndarray", None) else 0


def linked(value: Any, attribute: str, most: int) -> List[Any]:
    """An object, what its attribute leads to, and so on, as long as these are of one class."""
    found = [value]
    seen = {id(value)}
    while len(found) < most:
        value = dict.get(attributes(value), attribute, MISSING)
        if type(value) is not type(found[0]) or id(value) in seen:
            break
        seen.add(id(value))
        found.append(value)
    return found
