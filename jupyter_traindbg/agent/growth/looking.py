"""A look at what grows: pauses of `SLICE_S` after as many steps as it takes. First what can be reached from the program's variables is
measured again and again; where that explains nothing, it is searched who holds the objects that outlive their step.
"""

from __future__ import annotations

import gc
import sys
import time
from typing import Any, Callable, Dict, List, Optional

from ..attributes import is_library
from ..notebook import cells, numbered
from ..saying import Text, joined, said
from . import limits, lines
from .elements import described, length
from .following import Held, codes, defined, explains, keys, last_name, of_place, row
from .names import Stacks
from .paths import Path, Search, named
from .survivors import MOST_YOUNG, OF_THE_PROGRAM, SETTLE_STEPS, Kept, Survivors
from .tree import GROWS, Moment, Tree
from .watched import Watch, Watched

SLICE_S = 0.01
"""For how long one pause looks; the last thing that it looks at may take it some milliseconds further."""
MOST_SLICES = 30
SWITCHES = lines.Wanted("", ("gc",), ("disable", "set_threshold"))
MOST_HELD, MOST_FOLLOWED, MOST_TOLD = 6, 200, 24
MOST_SEARCHED, APART_STEPS = 3, 4
LONG_S, MOST_BLOCKS = 0.05, 5_000_000
"""A search among all objects that takes one pause longer is given up, and none is begun where Python has so many blocks of memory in use, a
third of them such objects; but where it was asked for.
"""
TOO_MANY = said("who holds what outlives its step was not searched for, among very many objects; --growth does")

At = Callable[[Callable[[], Any], int], bool]
"""Runs a function on the training thread after so many steps more; False where these do not come in time."""


class Look:
    """`run` belongs to a client's thread. Nothing of the program's is held between pauses, but by `Search` on its way."""

    def __init__(self, at: At, now: Callable[[], int]) -> None:
        """`now`: the number of the step that is done."""
        self._at, self._now = at, now
        self.held: List[Held] = []
        self.pauses_s: List[float] = []
        self.notes: List[Text] = []
        self.steps = 0
        self._tree = Tree()
        self._watch: Optional[Watch] = None
        self._codes: List[Any] = []
        self._kept: List[Kept] = []
        self._objects = 0
        self._thorough = self._some_stay = False

    def run(self, apart: int, *, thorough: bool) -> bool:
        """`apart`: steps between two rounds. `thorough`: search among all objects, too. False where the steps do not come."""
        self._thorough = thorough
        if not self._grow_tree():
            return False
        watch = self._watch = Watch(self._tree)
        began = self._now()
        while True:
            watch.begin()
            if not self._slices(lambda moment: watch.take(moment, self._now()), apart if watch.rounds else 1):
                return False
            if watch.end():
                break
        self.steps = max(1, self._now() - began)
        if not self._follow(watch.grown()[:MOST_FOLLOWED]):
            return False
        return self._search_all() if thorough or not any(explains(one.row) for one in self.held) else True

    def some_have_grown(self) -> bool:
        """Whether any container is longer than at the beginning, by enough to explain a growth; True where the steps do not come."""
        watch, found = self._watch, []  # type: Optional[Watch], List[bool]
        if watch is None:
            return False
        watch.begin()

        def longer(moment: Moment) -> bool:
            whole, grown = watch.longer(moment, self._now())
            held = [of_place(one, moment) for one in grown]
            found.extend(one is not None and explains(one.row) for one in held)
            return whole or any(found)

        return not self._slices(longer) or any(found)

    def told(self) -> Dict[str, Any]:
        """What was found, ``held`` with the lines that make it grow, and which objects outlive their step (``grown``)."""
        collects = gc.isenabled() and gc.get_threshold()[0] > 0
        return {
            "held": [self._with_lines(one) for one in self.held],
            "objects": len(self._tree.keys) + self._objects,
            "some_stay": self._some_stay,
            "grown": [_grown(kept) for kept in self._kept][:MOST_TOLD],
            "pauses_s": self.pauses_s,
            "steps": self.steps,
            "collects": collects,
            "switched_off": [] if collects else _places(lines.find(SWITCHES, [], self._codes)),
            "note": joined(self.notes),
        }

    # -- pauses --

    def _pause(self, function: Callable[[Moment], Any], steps: int = 1) -> Optional[List[Any]]:
        """What `function` returns, of a moment of its own, in a list; None where the step does not come."""
        answer: List[Any] = []

        def paused() -> None:
            began = time.perf_counter()
            with sys.modules["torch"]._C.DisableTorchFunctionSubclass():
                stacks = Stacks()
                moment = Moment(self._tree, stacks, time.perf_counter() + SLICE_S)
                answer.append(function(moment))
                self._codes = stacks.codes()
                del moment, stacks
            self.pauses_s.append(time.perf_counter() - began)

        return answer if self._at(paused, steps) else None

    def _slices(self, function: Callable[[Moment], bool], steps: int = 1) -> bool:
        """Until `function` says that it is done, the first time after so many steps."""
        for number in range(MOST_SLICES):
            answer = self._pause(function, 1 if number else steps)
            if answer is None or answer[0]:
                return answer is not None
        self.notes.append(said("not all was measured in {count} pauses", count=MOST_SLICES))
        return True

    def _grow_tree(self) -> bool:
        def grow(moment: Moment) -> bool:
            moment.grow()
            return self._tree.whole

        return self._slices(grow)

    def _follow(self, grown: List[Watched]) -> bool:
        found: List[Held] = []

        def follow(moment: Moment) -> bool:
            while grown:
                held = of_place(grown.pop(0), moment)
                if held is not None:
                    found.append(held)
                if moment.over:
                    break
            return not grown

        if not self._slices(follow):
            return False
        with_graph = any(one.row["about"]["graph"] and one.row["kind"] == "container" for one in found)
        graph = [one for one in found if one.row["kind"] == "graph"][: 0 if with_graph else 1]
        others = [one for one in found if one.row["kind"] != "graph"]
        others.sort(key=lambda one: (not one.row["about"]["graph"], -one.row["about"]["bytes_a_step"]))
        self.held = others[:MOST_HELD] + graph
        return True

    # -- among all objects --

    def _search_all(self) -> bool:
        survivors = Survivors()
        while not survivors.full:
            if self._pause(lambda _: survivors.note()) is None:
                return False
        self._objects = survivors.objects
        frozen = gc.get_freeze_count()
        self.notes += [survivors.left_out] if survivors.left_out else []
        self.notes += [said("gc.freeze() hides {count} objects from the search", count=f"{frozen:,}")] if frozen else []
        seen = self._pause(lambda _: survivors.kept(), SETTLE_STEPS)
        if seen is None:
            return False
        collects = gc.isenabled()
        self._some_stay = survivors.some_stay
        self._kept = sorted(seen[0], key=lambda one: collects or one.size != OF_THE_PROGRAM)
        if any(explains(one.row) for one in self.held) or not self._kept:
            return True
        if sys.getallocatedblocks() > MOST_BLOCKS and not self._thorough:
            self.notes.append(TOO_MANY)
            return True
        for one in self._kept[:MOST_SEARCHED]:
            if not self._search(one):
                return False
            if any(one.row["path"]["name"] or one.row["path"]["cycle"] for one in self.held):
                break
        return True

    def _search(self, one: Kept) -> bool:
        """False where the steps do not come."""
        searches: List[Search] = []

        def advance(moment: Moment) -> bool:
            if not searches:
                target = one.alive()
                if target is None:
                    return True
                searches.append(Search(target))
            began = time.perf_counter()
            over = searches[0].advance(moment)
            if time.perf_counter() - began > LONG_S and not self._thorough and not over:
                searches[0].give_up()
                self.notes.append(TOO_MANY)
            return over or searches[0].given_up

        came = self._slices(advance)
        if came and searches:
            lengths = self._pause(lambda moment: self._lengths(searches[0], moment))
            if lengths is not None:
                self._pause(lambda moment: self._found(one, searches[0], moment, lengths[0]), APART_STEPS)
        for search in searches:
            if self._pause(lambda _, search=search: search.forget()) is None:  # type: ignore[misc]
                search.forget()
        return came

    @staticmethod
    def _lengths(search: Search, moment: Moment) -> Dict[int, int]:
        """How long the containers are on the way to an object, by how far they are from it."""
        _, chain = search.chain(moment)
        ways = enumerate(chain[-2::-1])
        return {n: length(value) for n, value in ways if moment.class_of(value).kind in GROWS}

    def _found(self, one: Kept, search: Search, moment: Moment, lengths: Dict[int, int]) -> None:
        path = search.path(moment)
        if path.name is None and not path.whole:
            self.notes.append(said("who holds {what} was not found in the time that there is", what=one.name))
            return
        name, chain = search.chain(moment)
        now = self._lengths(search, moment)
        grown = next((n for n in sorted(now) if lengths.get(n, now[n]) < now[n]), None)
        if grown is not None:
            chain = chain[: len(chain) - 1 - grown]
            self._container(chain[-1], named(chain, name), [lengths[grown], now[grown]])
            return
        value = chain[-1]
        about: Dict[str, Any] = {**described([value]), "kind": one.name}
        about["bytes_a_step"] = about["bytes"] * one.counts[-1] / len(one.counts)
        alive = self._alive(value) if path.name is None else one.counts[-1]
        told = row("type", value, [alive - one.counts[-1], alive], about, path)
        again = _again(path)
        told.update(steps=len(one.counts), chain=again, defined=defined(type(value)))
        wanted = None if path.name is None else lines.Wanted(again or last_name(path), keys(path), stores=True)
        self.held.append(Held(told, wanted, codes(path), {}))

    def _container(self, value: Any, path: Path, counts: List[int]) -> None:
        about = described(value)
        about["bytes_a_step"] = about["bytes"] * (counts[1] - counts[0]) / APART_STEPS
        told = {**row("container", value, counts, about, path), "steps": APART_STEPS}
        self.held.append(Held(told, lines.Wanted(last_name(path), keys(path)), codes(path), {}))

    @staticmethod
    def _alive(value: Any) -> int:
        """How many of its class wait for the garbage collector."""
        cls = type(value)
        return sum(type(one) is cls for one in gc.get_objects(generation=0)) if gc.get_count()[0] < MOST_YOUNG else 1

    # -- on the client's thread --

    def _with_lines(self, held: Held) -> Dict[str, Any]:
        told = {**held.row, "limit": dict(limits.NONE)}
        if held.wanted is None:
            return told
        wanted, likely = held.wanted, held.codes
        places = lines.find(wanted, likely, self._codes)
        if held.instead is not None and all(is_library(file) for file, _, _ in places):
            wanted, likely = held.instead
            places = lines.find(wanted, likely, self._codes)
        return {**told, "lines": _places(places), "limit": limits.of(wanted.name, likely, held.numbers)}


def _again(path: Path) -> str:
    """The attribute that the way goes along again and again: ``before`` where each batch has the one before it."""
    steps = [step for step in path.steps if step[1].startswith(".")]
    return next((step[1][1:] for step in steps if steps.count(step) > 1), "")


def _places(found: List[lines.Place]) -> List[Any]:
    numbers = cells()
    return [numbered(*place, numbers) for place in found]


def _grown(kept: Kept) -> Dict[str, Any]:
    key = kept.kind
    if isinstance(key, str):
        return {"what": key, "shape": None, "counts": kept.counts, "steps": len(kept.counts)}
    about = {"what": key[0], "shape": list(key[1]), "dtype": key[2], "device": key[3], "graph": key[4]}
    return {**about, "counts": kept.counts, "steps": len(kept.counts)}


__all__ = ["Look"]
