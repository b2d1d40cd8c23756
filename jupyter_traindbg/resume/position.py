"""Random generators and DataLoaders, put back to where they were at a boundary between two iterations."""

from __future__ import annotations

import contextlib
import itertools
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..agent import epochs
from ..errors import UsageError
from ..language import text
from ..progress import CountBar


def restore(rng: Mapping[str, Any]) -> list[str]:
    """Set every generator of this process to `rng` (`agent.randomness.plain`); what could not be set, in sentences."""
    import torch

    missing = []
    python = rng["python"]
    random.setstate((python["version"], tuple(python["words"].tolist()), python["gauss"]))
    if rng["numpy"] is not None:
        missing += _restore_numpy(rng["numpy"])
    if rng["torch"] is not None:
        torch.set_rng_state(rng["torch"])
    for index, own in rng["cuda"].items():
        if torch.cuda.is_available() and index < torch.cuda.device_count():
            torch.cuda.set_rng_state(own, index)
        else:
            missing.append(f"the generator of CUDA device {index} was not set: there is no such device here")
    return missing


def _restore_numpy(state: Mapping[str, Any]) -> list[str]:
    try:
        import numpy
    except ImportError:
        return ["NumPy's generator was not set: numpy is not installed here"]
    if numpy.random.get_state(legacy=False)["bit_generator"] != state["bit_generator"]:
        return [f"NumPy's generator was not set: the saved job's was a {state['bit_generator']}"]
    inner = {key: _number(value, numpy) for key, value in state["state"].items()}
    numpy.random.set_state({**state, "state": inner})
    return []


def _number(value: Any, numpy: Any) -> Any:
    if isinstance(value, str):
        return int(value)
    return value if isinstance(value, int) else numpy.asarray(value.tolist(), dtype=numpy.uint32)


# --- which loader -------------------------------------------------------------------------------------------------------


def match(loader: Any, entries: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The one of `entries` (`Boundary.for_checkpoint`) for a loader like `loader`; of several, that of the last step's batch."""
    about = epochs.describe(_base(loader), list(epochs.chain(_base(loader)._index_sampler)))
    alike = [e for e in entries if all(e[key] == about[key] for key in ("dataset", "sampler", "batch_size", "length"))]
    return next((e for e in alike if e["trained"]), alike[0] if alike else None)


def no_position(loader: Any, entries: Sequence[Mapping[str, Any]]) -> str:
    about = epochs.describe(_base(loader), list(epochs.chain(_base(loader)._index_sampler)))
    return text(
        "the checkpoint has no position for this loader ({loader}); it has {others}",
        loader=_words(about),
        others=text(", ").join(map(_words, entries)),
    )


def _words(about: Mapping[str, Any]) -> str:
    return text(
        "{dataset} by {sampler}, {length} batches of {batch_size}",
        dataset=about["dataset"],
        sampler=about["sampler"],
        length=about["length"],
        batch_size=about["batch_size"],
    )


def _base(loader: Any) -> Any:
    """accelerate's loaders hold the real one."""
    return vars(loader).get("base_dataloader", loader)


# --- the rest of a pass ---------------------------------------------------------------------------------------------------


def continue_pass(
    loader: Any, entry: Mapping[str, Any], rng: Mapping[str, Any], fast_forward: str
) -> tuple[Iterator[Any], list[str]]:
    """``(an iterator for what is left, notes)`` of the pass over `loader` that `entry` describes; the generators end up as in `rng`."""
    base, batches = _base(loader), entry["batches"]
    if entry["iteration"] is not None and hasattr(loader, "iteration"):
        loader.iteration = entry["iteration"]
    if batches is None:  # between two passes
        _set_generators(base, entry["generators"])
        restore(rng)
        return iter(loader), []
    if entry["begun"] is not None:
        as_begun = _as_begun(base, entry["begun"], again=entry["again"])
    else:
        as_begun = _as_recovered(base, entry["recovered"])
    batches += entry["skipped"]
    with as_begun:
        iterator = _skip_indices(loader, batches) if fast_forward == "indices" else _skip_batches(iter(loader), batches)
        if batches == 0:
            _start(iterator)
    _set_generators(base, entry["generators"])
    return iterator, restore(rng)


@contextlib.contextmanager
def _as_begun(base: Any, begun: Mapping[str, Any], *, again: bool) -> Iterator[None]:
    """While this is in force, a pass over `base` begins as `begun` tells. With `again` it went on with the workers of an earlier pass."""

    def set_all() -> None:
        restore(begun["rng"])
        _set_generators(base, begun["generators"])
        _set_epochs(base, begun["epochs"])

    set_all()
    # A pass with the workers that are there draws no seed for them.
    with _after_base(lambda iterator: set_all()) if again else contextlib.nullcontext():
        yield


def _start(iterator: Any) -> None:
    """Have the sampler draw what it draws at its beginning, which without workers it does at the first batch."""
    sampler_iter = getattr(iterator, "_sampler_iter", None)
    if getattr(iterator, "_num_workers", 1) == 0 and sampler_iter is not None:
        first = list(itertools.islice(sampler_iter, 1))
        iterator._sampler_iter = itertools.chain(first, sampler_iter) if first else sampler_iter


def _set_generators(base: Any, states: Mapping[str, Any]) -> None:
    generators = dict(epochs.own_generators([("loader", base), *epochs.chain(base._index_sampler)]))
    for path, state in states.items():
        if path not in generators:
            raise UsageError(
                text(
                    "the saved job's loader had a generator of its own ({path}) and this one has none",
                    path=path or "batch_sampler",
                ),
                text("build the loader as the saved job did: DataLoader(..., generator=torch.Generator())"),
            )
        generators[path].set_state(state)


def _set_epochs(base: Any, numbers: Mapping[str, int]) -> None:
    for path, sampler in epochs.chain(base._index_sampler):
        if path in numbers:
            sampler.epoch = numbers[path]


def _skip_batches(iterator: Any, batches: int) -> Any:
    """Take `batches` from `iterator` and drop them, showing how far it is where it takes long."""
    with CountBar("traindbg: back to the batch", batches, "batch") as bar:
        for taken in range(batches):
            try:
                next(iterator)
            except StopIteration:
                raise UsageError(
                    text(
                        "the loader ended after {taken} batches; the saved job had taken {batches}",
                        taken=taken,
                        batches=batches,
                    ),
                    text("build the loader as the saved job did"),
                ) from None
            bar(taken + 1)
    return iterator


def _skip_indices(loader: Any, batches: int) -> Any:
    """An iterator of `loader` whose sampler has given its first `batches` to nobody."""
    if loader._dataset_kind != 0 or _base(loader) is not loader:
        raise UsageError(
            text('fast_forward="indices" needs a plain DataLoader over a map-style dataset'),
            text('take fast_forward="batches", the default'),
        )
    if loader.num_workers == 0:
        iterator = iter(loader)
        _skip_batches(iterator._sampler_iter, batches)
        iterator._num_yielded = batches
        return iterator
    name = "batch_sampler" if loader._auto_collation else "sampler"
    original = vars(loader)[name]
    vars(loader)[name] = _From(
        original, batches
    )  # DataLoader forbids the assignment, and is given its sampler back at once
    try:
        iterator = iter(loader)
    finally:
        vars(loader)[name] = original
    iterator._index_sampler = original  # for the next pass of persistent workers
    iterator._num_yielded = batches
    return iterator


class _From:
    """A sampler without its first batches."""

    def __init__(self, sampler: Any, batches: int) -> None:
        self.sampler, self.batches = sampler, batches

    def __iter__(self) -> Iterator[Any]:
        yield from _skip_batches(
            iter(self.sampler), self.batches
        )  # no sooner than asked: the workers' seed is drawn before

    def __len__(self) -> int:
        return len(self.sampler) - self.batches


# --- a pass that was begun before the debugger came -----------------------------------------------------------------------


@contextlib.contextmanager
def _as_recovered(base: Any, recovered: Mapping[str, Any]) -> Iterator[None]:
    """While this is in force, a pass over `base` begins as the one did of which `agent.epochs.recover` tells."""
    with contextlib.ExitStack() as stack:
        _set_epochs(base, recovered["epochs"])
        if recovered["base_seed"] is not None:
            stack.enter_context(_after_base(lambda iterator: setattr(iterator, "_base_seed", recovered["base_seed"])))
        samplers = list(epochs.chain(base._index_sampler))
        innermost = samplers[-1][1]
        if recovered["seed"] is not None:
            import torch

            seeded = torch.Generator()
            seeded.manual_seed(recovered["seed"])
            stack.enter_context(_swapped(innermost, "generator", seeded))
        elif recovered["order"] is not None:
            holder = samplers[-2][1] if len(samplers) > 1 else base
            stack.enter_context(_swapped(holder, "sampler", _Order(innermost, recovered["order"].tolist())))
        yield


class _Order:
    """A pass of a RandomSampler with a generator of its own, of which the order is known and the generator's state is not."""

    def __init__(self, sampler: Any, order: list[int]) -> None:
        self.sampler, self.order = sampler, order

    def __iter__(self) -> Iterator[int]:
        import torch

        yield from self.order
        torch.randperm(
            len(self.order), generator=self.sampler.generator
        )  # RandomSampler's last line, for a rest of none

    def __len__(self) -> int:
        return len(self.order)


@contextlib.contextmanager
def _swapped(owner: Any, name: str, value: Any) -> Iterator[None]:
    original = vars(owner)[name]
    vars(owner)[name] = value
    try:
        yield
    finally:
        vars(owner)[name] = original


@contextlib.contextmanager
def _after_base(act: Callable[[Any], object]) -> Iterator[None]:
    """`act` on every DataLoader iterator that is made meanwhile, once the seed of its workers is drawn and before they are started."""
    base = sys.modules["torch.utils.data.dataloader"]._BaseDataLoaderIter
    original = base.__init__

    def begin(iterator: Any, loader: Any) -> None:
        original(iterator, loader)
        act(iterator)

    base.__init__ = begin
    try:
        yield
    finally:
        base.__init__ = original
