"""Go on from a checkpoint that was taken of a running or a hung job, as if it had never been interrupted: `resume`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from ..agent.counters import EPOCHS
from ..errors import UsageError
from ..language import text
from . import others as find_others
from . import position, saved, weights

__all__ = ["Resumed", "resume"]

FastForward = Literal["batches", "indices"]


class Resumed:
    """What was taken up again, and where the interrupted loop goes on.

    ::

        resumed = traindbg.resume("ckpt", model=model, optimizer=optimizer, scheduler=scheduler)
        for epoch in range(resumed.epoch or 0, epochs):
            for x, y in resumed.batches(loader):
                ...
    """

    def __init__(
        self, step: int | None, counters: Mapping[str, int], boundary: Mapping[str, Any], notes: list[str]
    ) -> None:
        self.step = step
        """Optimizer steps behind the checkpoint, by the optimizer's own count; None where it keeps none."""
        self.counters = dict(counters)
        """Loop counters of the program when the checkpoint was taken: ``"file:function:name"`` -> value, innermost function first."""
        self.actions: list[Any] = []
        """What `Job.set_lr` and the like had in force; it is in force again."""
        self.notes = notes
        """What is not exact, one sentence each; empty where the next losses will be those of the uninterrupted run."""
        self._boundary = dict(boundary)
        self._entries: list[dict[str, Any]] = list(boundary.get("loaders", ()))

    @property
    def epoch(self) -> int | None:
        """The program's own epoch counter at the boundary that `batches` goes on from; None where it had no counter of a known name."""
        counted = next((v for key, v in self.counters.items() if key.rpartition(":")[2] in EPOCHS), None)
        trained = [e for e in self._boundary.get("loaders", ()) if e["trained"]]
        return counted if counted is None or not trained else counted - int(trained[0]["begun_since"])

    def batches(self, loader: Any, *, fast_forward: FastForward = "batches") -> Iterator[Any]:
        """The rest of the pass over `loader` that was interrupted; on every later call simply ``iter(loader)``.

        The random generators are set to what they were when that pass began, the batches that were used are taken once more and dropped,
        then the generators are set to what they were at the boundary: the next batch is the very next one, also with random augmentation in
        worker processes. That costs the loading of those batches. ``fast_forward="indices"`` skips them unloaded: exact for map-style
        datasets whose ``__getitem__`` draws no random numbers. Raises UsageError where the loader is not like the one that was saved.
        """
        entry = position.match(loader, self._entries)
        if entry is None:
            return iter(loader)
        self._entries.remove(entry)
        iterator, notes = position.continue_pass(loader, entry, self._boundary["rng"], fast_forward)
        self.notes.extend(n for n in notes if n not in self.notes)
        return iterator

    def __repr__(self) -> str:
        exact = "; ".join(self.notes) if self.notes else "exact"
        return f"<Resumed at step {self.step}, epoch {self.epoch}: {exact}>"


def resume(
    directory: str | os.PathLike[str],
    *,
    model: Any = None,
    optimizer: Any = None,
    scheduler: Any = None,
    scaler: Any = None,
    loader: Any = None,
    others: Mapping[str, Any] | Sequence[Any] | Any = None,
    rank: int | None = None,
    strict: bool = True,
    verify: bool = True,
) -> Resumed:
    """Load a checkpoint of `Job.checkpoint` into a freshly built `model`, `optimizer` ... and take up its training where it was.

    Each of them may be a list, in the order of the checkpoint's; what is not given is left alone. Wrappers (``DistributedDataParallel``,
    ``torch.compile``, FSDP2's ``fully_shard``, accelerate's) may differ from the saved job's, and a sharded checkpoint takes any number of
    ranks; then every rank calls this. Shapes, dtypes and devices stay those of `model`. Optimizer state is matched to parameters by name
    where the model is given, else by position. `loader` is only looked at: is there a position for it? `others`: what the checkpoint holds
    besides (an average of the weights, a target network, an object with a ``state_dict()``), by the names that it has there, or a list
    where each class is there once; an object's own ``load_state_dict()`` is called. `rank` is whose random generators to take: this
    process's, from the process group or ``RANK``.

    Everything is read and compared before anything is changed: the checksums of all files (`verify`; about 1 s a GB), names and shapes
    (`strict`: none missing, none left over). Needs as much memory as this rank's part. Nothing in the files is executed.

    Raises BadCheckpoint (no checkpoint, or damaged), UnsafeCheckpoint (its pickle would run code) and UsageError (it is not this model's).

    The format is torch's own (`torch.save`, `torch.distributed.checkpoint`); exactness rests on the generators' states, see PyTorch's notes
    on reproducibility. Where it cannot be exact, `Resumed.notes` says why.
    """
    checkpoint = saved.open_checkpoint(os.fspath(directory), verify=verify)
    own_rank, world_size = saved.place(rank)
    boundary, notes = checkpoint.boundary(own_rank, world_size)
    training = checkpoint.training
    models, optimizers = (
        [weights.unwrapped(m) for m in _several(model)],
        [weights.inner(o) for o in _several(optimizer)],
    )
    schedulers, scalers = [weights.inner(s, "scheduler") for s in _several(scheduler)], _several(scaler)
    state = weights.read(checkpoint, models, optimizers, strict=strict)
    scheduled = _matched("scheduler", schedulers, training["schedulers"])
    scaled = _matched("scaler", scalers, training["scalers"])
    besides = training.get("others", [])
    pairs = find_others.match(others, besides)
    stated = find_others.read(checkpoint, pairs, state, strict=strict)
    restored = {"model": models, "optimizer": optimizers, "scheduler": schedulers, "scaler": scalers}
    find_others.check(stated, restored)
    for each in _several(loader):
        if boundary["loaders"] and position.match(each, boundary["loaders"]) is None:
            raise UsageError(
                position.no_position(each, boundary["loaders"]), text("build the loader as the saved job did")
            )
    state.load()
    for given, of in [*scheduled, *scaled]:
        given.load_state_dict(of["state"])
    find_others.load(stated, restored)
    notes += [*state.notes, *find_others.not_given(pairs, besides)]
    resumed = Resumed(training["step"], training["counters"], boundary, notes)
    resumed.actions = _put_in_force(training["actions"], optimizers)
    if boundary.get("rng") is not None:
        resumed.notes.extend(position.restore(boundary["rng"]))
    return resumed


def _several(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, (list, tuple)) else [given]


def _matched(
    what: str, given: Sequence[Any], states: Sequence[Mapping[str, Any]]
) -> list[tuple[Any, Mapping[str, Any]]]:
    """Each of `given` with what was saved of it: the next one in order."""
    if len(given) > len(states):
        raise UsageError(
            text(
                "{given} {what}s were given and the checkpoint has {saved}",
                given=len(given),
                what=what,
                saved=len(states),
            ),
            text("give no more {what}s than that", what=what),
        )
    for one, of in zip(given, states, strict=False):
        saved_class = of.get("class", "").rpartition(".")[2]
        if saved_class and saved_class != type(one).__name__:
            raise UsageError(
                text(
                    "the checkpoint's {what} is a {saved}, not a {given}",
                    what=what,
                    saved=saved_class,
                    given=type(one).__name__,
                ),
                text("build the {what} as the saved job did", what=what),
            )
    return list(zip(given, states, strict=False))


def _put_in_force(actions: list[Any], optimizers: list[Any]) -> list[Any]:
    """Live changes go on living: an agent in this process holds them, and `attach` finds it and can release them."""
    if not actions or not optimizers:
        return []
    from .. import agent
    from .._version import __version__

    agent.start(keep=True, version=__version__).tuning.adopt(actions)
    return actions
