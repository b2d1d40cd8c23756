"""What grows from step to step, and who holds it: counted and followed in this process, without a line of the program's running."""

from __future__ import annotations

import ctypes
import gc
import time
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from agents import Ask
from cases import each
from torch import nn

from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.growth import (
    elements,
    following,
    graphs,
    ledger,
    names,
    paths,
    tree,
    watched,
)

kept_globally: list[torch.Tensor] = []


class Job:
    """A training whose ``keep`` is called at each step."""

    def __init__(self, keep: Callable[[torch.Tensor, torch.Tensor], object]) -> None:
        self.model = nn.Linear(7, 5)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.keep = keep

    def step(self) -> None:
        x = torch.ones(64, 7)
        loss = self.model(x).sum()
        loss.backward()
        self.optimizer.step()
        self.keep(x, loss)


def looked(ask_while: Ask, keep: Callable[[torch.Tensor, torch.Tensor], object], **how: Any) -> dict[str, Any]:
    job = Job(keep)
    job.step()
    return ask_while(job.step, "growth", always=True, watch_s=20.0, deadline_s=40.0, **how)


def test_a_list_of_losses_is_named_with_the_line_that_adds_to_it(agent: Agent, ask_while: Ask) -> None:
    losses: list[torch.Tensor] = []

    def keep(_: torch.Tensor, loss: torch.Tensor) -> None:
        losses.append(loss)

    answer = looked(ask_while, keep)
    first = answer["held"][0]
    assert (first["kind"], first["type"], first["about"]["graph"]) == ("container", "list", True)
    assert first["path"]["name"]["name"] == "losses"
    assert (first["counts"][-1] - first["counts"][0]) == first["steps"]
    ((file, line, function),) = (place[:3] for place in first["lines"])
    assert (file, line) == (__file__, keep.__code__.co_firstlineno + 1)
    assert function.endswith("keep")
    assert max(answer["pauses_s"]) < 40


def test_a_graph_that_grows_though_its_tensor_is_another_one_at_each_step(agent: Agent, ask_while: Ask) -> None:
    state = types.SimpleNamespace(total=torch.zeros(()))

    def keep(_: torch.Tensor, loss: torch.Tensor) -> None:
        state.total = 0.5 * state.total + loss

    answer = looked(ask_while, keep)
    held = {row["kind"]: row for row in answer["held"]}
    assert "graph" in held, answer
    assert held["graph"]["path"]["steps"][-1][1] == ".total"
    assert held["graph"]["lines"][0][1] == keep.__code__.co_firstlineno + 1


def test_a_hook_a_step_is_seen_though_it_takes_next_to_nothing(agent: Agent, ask_while: Ask) -> None:
    job: list[Job] = []

    def keep(_: torch.Tensor, __: torch.Tensor) -> None:
        job[0].model.register_forward_hook(lambda *_: None)

    job.append(Job(keep))
    for _ in range(8):
        job[0].step()
    answer = ask_while(job[0].step, "growth", watch_s=20.0, deadline_s=40.0)
    assert answer["looked"]
    row = next(row for row in answer["held"] if row["hooks"])
    assert row["path"]["steps"][-1][1] == "._forward_hooks"
    assert row["lines"][0][1] == keep.__code__.co_firstlineno + 1


def test_a_tuple_that_is_made_anew_each_time_grows(agent: Agent, ask_while: Ask) -> None:
    state = types.SimpleNamespace(log=())

    def keep(x: torch.Tensor, _: torch.Tensor) -> None:
        state.log = (*state.log, x.clone())

    (row,) = looked(ask_while, keep)["held"]
    assert (row["type"], row["path"]["steps"][-1][1]) == ("tuple", ".log")
    assert row["lines"][0][1] == keep.__code__.co_firstlineno + 1


MALLOC = ctypes.CDLL(None).malloc
MALLOC.restype = ctypes.c_void_p


@each("now_and_then", [False, True])
def test_memory_of_c_is_told_of_but_not_where_a_container_becomes_longer_now_and_then(
    agent: Agent, ask_while: Ask, now_and_then: bool
) -> None:
    masks: dict[int, bytes] = {}
    held: list[int] = []

    def keep(*_: torch.Tensor) -> None:
        held.append(MALLOC(16384))
        if now_and_then and len(held) % 7 == 0:
            masks[len(held)] = bytes(100_000)

    try:
        after = looked(ask_while, keep)["after"]
    finally:
        for address in held:
            ctypes.CDLL(None).free(ctypes.c_void_p(address))
    assert (after is None) == now_and_then
    assert now_and_then or after["host"] == pytest.approx(16384, rel=0.2)


def test_nothing_is_counted_where_nothing_grows(agent: Agent, ask_while: Ask) -> None:
    job = Job(lambda *_: None)
    job.step()
    answer = ask_while(job.step, "growth", watch_s=20.0, deadline_s=40.0)
    assert answer["watched"]["steps"] >= ledger.FLAT_STEPS
    assert not answer["looked"] or not answer["held"]


class Sly:
    """It may be held, and never asked."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        raise AssertionError("no code of the program's runs")

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise AssertionError("no code of the program's runs")

    def __getattr__(self, name: str) -> Any:
        raise AssertionError("no code of the program's runs")

    def __sizeof__(self) -> int:
        raise AssertionError("no code of the program's runs")


class SlyList(list[Any]):
    def __len__(self) -> int:
        raise AssertionError("no code of the program's runs")

    def __iter__(self) -> Any:
        raise AssertionError("no code of the program's runs")

    def __getitem__(self, i: Any) -> Any:
        raise AssertionError("no code of the program's runs")


class Marked(torch.Tensor):
    @classmethod
    def __torch_function__(cls, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("no code of the program's runs")


def test_no_code_of_what_is_held_runs_and_nothing_lives_longer_for_having_been_seen(
    agent: Agent, ask_while: Ask
) -> None:
    everything = SlyList()
    watched: list[Any] = []

    def keep(x: torch.Tensor, _: torch.Tensor) -> None:
        list.append(everything, Sly(x.as_subclass(Marked)))
        watched.append(weakref.ref(x))

    answer = looked(ask_while, keep)
    row = next(row for row in answer["held"] if row["type"] == "SlyList")
    assert row["about"]["kind"] == "Sly"
    assert 64 * 7 * 4 <= row["about"]["bytes"] < 64 * 7 * 5
    list.clear(everything)
    gc.collect()
    assert [ref() for ref in watched if ref() is not None] == []


def test_cycles_that_nobody_collects_are_told_of_and_others_left_alone(agent: Agent, ask_while: Ask) -> None:
    class Cycle:
        def __init__(self, x: torch.Tensor) -> None:
            self.x, self.me = x, self

    def keep(x: torch.Tensor, _: torch.Tensor) -> None:
        Cycle(x)

    gc.disable()
    try:
        answer = looked(ask_while, keep)
    finally:
        gc.enable()
    assert answer["collects"] is False
    assert answer["switched_off"]
    (row,) = (row for row in answer["held"] if row["path"]["cycle"])
    assert row["path"]["name"] is None, answer
    assert [label for _, label in row["path"]["steps"]] == [".me"]


# --- parts ---------------------------------------------------------------------------------------------------------


@each(
    ("values", "grows"),
    [
        ([100_000 + 3000 * n for n in range(10)], 3000.0),
        ([100_000] * 10, 0.0),
        ([100_000 + 3000 * (n % 4) for n in range(10)], 0.0),
        ([100_000 + 10 * n for n in range(10)], 0.0),
        ([0, 9000], 0.0),
    ],
)
def test_the_books_tell_what_a_step_leaves_behind(values: list[int], grows: float) -> None:
    assert ledger.rise(values) == pytest.approx(grows)


@each(
    ("values", "flat"),
    [
        ([100_000] * 4, True),
        ([100_000, 100_200, 100_000, 99_900], True),
        ([100_000] * 3, False),
        ([100_000, 100_000, 103_000, 103_000], False),
        ([103_000, 103_000, 100_000, 100_000], False),
        ([100_000 + 400 * n for n in range(4)], False),
        ([], False),
    ],
)
def test_few_steps_tell_that_nothing_grows_where_nothing_moves(values: list[int], flat: bool) -> None:
    assert ledger.is_flat(values) is flat


def test_what_our_arrival_took_is_no_growth(agent: Agent) -> None:
    books = ledger.Ledger(agent.safepoints)
    books.books = True
    books.rows.extend((step, host, 0) for step, host in enumerate([10_000, 90_000, 95_000, *[99_000] * 4], 7))
    assert books.flat_after() == 9
    books.rows.append((14, 103_000, 0))
    assert books.flat_after() is None


def test_what_slows_down_does_not_grow_evenly() -> None:
    assert not ledger.is_even([])
    assert ledger.is_even([1000 * n for n in range(30)])
    assert not ledger.is_even([1000 * min(n, 12) for n in range(30)])


@each(
    ("counts", "same", "grows"),
    [
        ([1, 2, 3, 4, 5], True, True),
        ([1, 2, 3, 4, 5], False, False),
        ([1, 2, 3, 4, 5, 6, 7, 8], False, True),
        ([1, 2, 3], True, False),
        ([1, 2, 2, 3, 4], True, False),
        ([5, 4, 9, 10, 11], True, False),
        ([0, 100, 101, 102, 103], True, False),
    ],
)
def test_a_size_grows_where_it_does_each_time_by_as_much(counts: list[int], same: bool, grows: bool) -> None:
    """One that belongs to another object each time has to do so more often."""
    place = watched.Watched(0, watched.LENGTH)
    one = [0]
    for step, count in enumerate(counts):
        one = one if same else [*one]
        one[:] = [0] * count
        place.take(one, step)
    assert place.steady() is grows


def test_malloc_keeps_its_own_count() -> None:
    count = ledger.malloc_count()
    if count is None:
        pytest.skip("this C library keeps none")

    def grown() -> int:
        before = count()
        block = bytearray(10_000_000)
        return count() - before - len(block)

    assert max(grown() for _ in range(5)) >= 0, "of several, as other threads may free something meanwhile"


def summed(steps: int, total: torch.Tensor | None = None) -> torch.Tensor:
    total = torch.zeros((), requires_grad=True) if total is None else total
    for _ in range(steps):
        total = total + 1
    return total


@each("steps", [50, graphs.MOST_NODES + 100])
def test_of_a_deep_graph_it_is_known_how_much_was_added(steps: int) -> None:
    total = summed(steps)
    first = graphs.depth(graphs.grad_fn(total), 0, 0, 0)
    newest = graphs.number(graphs.grad_fn(total))
    assert first == min(steps + 1, graphs.MOST_NODES)
    more = summed(7, total)
    assert graphs.depth(graphs.grad_fn(more), 0, first, newest) == first + 7


def test_shared_objects_count_for_none_of_the_elements() -> None:
    common = torch.zeros(1000)
    told = elements.described([{"own": torch.zeros(10), "common": common, "n": 1000 + n} for n in range(5)])
    assert 40 <= told["bytes"] < 1000
    assert told["kind"] == "dict"
    assert told["tensors"] == 1


@each(
    ("container", "length"),
    [([1, 2], 2), ({"a": 1}, 1), ({1, 2, 3}, 3), (OrderedDict(a=1), 1), (SlyList([1, 2]), 2), (5, 0)],
)
def test_how_long_a_container_is(container: Any, length: int) -> None:
    assert elements.length(container) == length


def grown() -> tree.Moment:
    """All that can be reached from the variables of these tests at this moment."""
    moment = tree.Moment(tree.Tree(), names.Stacks(), time.perf_counter() + 30)
    moment.grow()
    assert moment.tree.whole
    return moment


def path_to(target: int) -> paths.Path:
    """By the way down from a variable, to what has this ``id``."""
    moment = grown()
    return following.path_of(moment.tree.seen[target], moment)


def searched(target: object) -> paths.Path:
    """By the way up, past all variables of functions."""
    gc.unfreeze()  # what tests before this one have hidden from the collector
    moment = tree.Moment(tree.Tree(), names.Stacks(), time.perf_counter() + 30)
    search = paths.Search(target)
    while not search.advance(moment):
        pass
    path = search.path(moment)
    search.forget()
    return path


def test_another_object_at_the_address_of_one_that_is_gone_has_a_place_of_its_own() -> None:
    batch: list[int] | None = [1]
    later: list[list[int]] = []
    growing = tree.Tree()
    tree.Moment(growing, names.Stacks(), 0.0).grow()  # the first pause is over after a few places
    of_the_batch = growing.seen.pop(id(batch))
    assert not growing.whole
    batch = None
    later.append([2])
    growing.seen[id(later[0])] = of_the_batch  # as where the allocator gives that address once more
    moment = tree.Moment(growing, names.Stacks(), time.perf_counter() + 30)
    assert batch is None
    assert moment.place_of(later[0]) is None
    moment.grow()
    place = moment.place_of(later[0])
    assert place is not None
    assert place != of_the_batch
    assert moment.at(growing.parents[place]) is later


class Registry:
    __slots__ = ("entries",)
    shared: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        self.entries: dict[str, Any] = {}


def default(values: list[Any] = [[]]) -> list[Any]:  # noqa: B006
    return values


def test_the_way_to_an_object_is_told_as_the_program_writes_it() -> None:
    registry = Registry()
    registry.entries["one"] = [0, [torch.zeros(1)]]
    told = path_to(id(registry.entries["one"][1]))
    assert told.name is not None
    assert told.name.name == "registry"
    assert [label for _, label in told.steps] == [".entries", "['one']", "[1]"]


def test_ways_from_classes_functions_and_modules() -> None:
    Registry.shared["x"] = [1, 2, 3]
    kept_globally.append(torch.zeros(2))
    try:
        ways = [
            [path_to(id(Registry.shared["x"])), path_to(id(default.__defaults__[0][0])), path_to(id(kept_globally))],  # type: ignore[index]
            [searched(Registry.shared["x"]), searched(default.__defaults__[0][0]), searched(kept_globally)],  # type: ignore[index]
        ]
        for of_class, of_default, of_module in ways:
            assert (of_class.name and of_class.name.name, of_class.steps[0]) == ("Registry", ("type", ".shared"))
            assert (of_default.name and of_default.name.name, of_default.steps[0][1]) == ("default", ".values")
            assert (of_module.name and of_module.name.name, of_module.steps) == ("kept_globally", ())
    finally:
        Registry.shared.clear()
        kept_globally.clear()


def test_a_tree_is_grown_and_looked_up_over_many_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "MOST_PLACES", 50_000)
    monkeypatch.setattr(tree, "EVERY", 256)
    held = {"far": [[n] for n in range(40)]}
    a_tree = tree.Tree()
    pauses = 0
    while not a_tree.whole or not pauses:
        tree.Moment(
            a_tree, names.Stacks(), 0.0
        ).grow()  # the time is over from the beginning: some places in each pause
        pauses += 1
    assert pauses > 4
    later = tree.Moment(a_tree, names.Stacks(), time.perf_counter() + 30)
    assert all(later.at(a_tree.seen[id(one)]) is one for one in held["far"])
    held["far"] = []
    changed = tree.Moment(a_tree, names.Stacks(), time.perf_counter() + 30)
    places = [
        place for place in a_tree.places(tree.LIST) if (a_tree.hows[place], a_tree.keys[place]) == (tree.FIRST, 39)
    ]
    assert [changed.at(place) for place in places if a_tree.way(place)[0] == 0] in ([], [tree.MISSING])


def test_garbage_has_no_name_and_is_known_as_a_cycle() -> None:
    class Cycle:
        def __init__(self) -> None:
            self.me = self

    gc.disable()
    try:
        Cycle()
        told = searched(next(thing for thing in gc.get_objects(generation=0) if type(thing) is Cycle))
    finally:
        gc.enable()
    assert told.name is None
    assert (told.whole, told.cycle, told.steps) == (True, True, ((Cycle.__qualname__, ".me"),))
