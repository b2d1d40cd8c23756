"""What belonged to the last boundary between two iterations, written down when it came: random generators, DataLoader positions, marks.

A job that hangs does so in the middle of an iteration, when dropout has drawn numbers and a batch has been taken. Its parameters are still
those of the last step; with what is kept here a checkpoint taken then continues as if nothing had happened. 2 us each: one before
every batch, and where not every step is followed by a fetch, one after every step.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections import deque
from types import FrameType
from typing import Any, Deque, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from . import counters, cuda, epochs, randomness, reachable
from .epochs import Epoch, Loader
from .patch import Patches, Spot
from .randomness import Generators, Randomness
from .recorder import OF_OPTIMIZER, OPTIMIZER_STEP, STEP, Recorder
from .safepoint import NEXT_BATCH, STEPS_WITHOUT_A_BATCH, SafePoints
from .saying import Said, said
from .statistics import Statistics
from .steppers import is_step, stepping

CLOSURES, MODULES = ("torch.autograd", "torch._tensor", "torch.utils.data.dataloader"), "torch.nn.modules."
"""Where the training thread is not while an optimizer changes parameters."""
STANDARD_LIBRARY = frozenset(getattr(sys, "stdlib_module_names", ("contextlib", "functools", "threading")))
MARKS = 256
MOST_LOADERS = 16
"""A program may make a loader for every epoch, of samplers whose end cannot be seen."""
AFTER_STEP, AS_FOUND = "after the optimizer step", "as found"
FRAMES_TO_READER = 8
"""How far above a fetch the function may run that reads ahead for the program (accelerate's)."""

NOT_THE_BOUNDARY = said(
    "the debugger came after the last step: random generators and loader positions are those of the moment, not of a step's end;"
    " weights and optimizer are exact, dropout and augmentation will differ"
)
BATCH_IN_HAND = said("the batch that the program had in hand when it stopped is taken as not trained on")
SCHEDULER_IN_DOUBT = said(
    "the program stopped after optimizer.step() and before its next batch: a scheduler.step() that follows the step"
    " may be missing"
)
BY_HAND = said(
    "no optimizer of torch's was found: what the program keeps for its own updates (momentum, a learning rate, averages) is not in it"
)
GENERATORS_AS_FOUND = said("random generators are those of the moment, not of the step's end")
ORDER_UNKNOWN = said(
    "the debugger came in the middle of this pass and its sampler keeps its order to itself: the remaining batches are"
    " not those of the saved job"
)
WORKERS_GO_ON = said(
    "the loader's workers are persistent and kept their random generators from an earlier pass: exact only where"
    " __getitem__ draws no random numbers"
)
READ_AHEAD = said(
    "accelerate's loader had read a batch ahead in the training process, whose random numbers were drawn between those of"
    " the training: exact only where __getitem__ draws none"
)


Position = Tuple[Loader, Epoch, Optional[int], int, Dict[str, Any]]
"""Of a pass over a DataLoader: its batches that were taken, how many passes were begun, and the loader's own generators."""


class Written(NamedTuple):
    """A boundary as it was written down. ``passed``: whether an iteration was complete with all that follows its step."""

    step: int
    time_s: float
    where: str
    passed: bool
    rng: Generators
    loaders: List[Position]


class Boundary:
    """Keeps the last boundary. `for_checkpoint` gives it away."""

    def __init__(self, safepoints: SafePoints, recorder: Recorder) -> None:
        self._safepoints, self._recorder = safepoints, recorder
        self._randomness = Randomness()
        self.statistics = Statistics()
        self._watched: Optional[List[int]] = None
        self._loaders: List[Loader] = []
        self._fetched: Optional[Loader] = None
        self._trained: Optional[Loader] = None
        self._patches = Patches()
        self._on = False
        self._state: Optional[Written] = None
        self._ended: Optional[Tuple[int, float]] = None
        """The last step and when it ended, where nothing has been written down since: what follows a step is still to come."""
        self._numbers: Deque[Tuple[int, int]] = deque(maxlen=MARKS)
        """Steps, and how many collectives the default process group had begun by then."""
        self._distributed: Any = None

    def open(self) -> None:
        self._on = True
        self._careful(self._randomness.open)
        self._safepoints.after.append(self._after_step)
        self._safepoints.fetching.append(self._fetching)
        self._safepoints.at_boundary.append(self._at_boundary)
        self._patches.open([Spot("torch.utils.data.dataloader", "DataLoader", "__iter__", self._wrap_iter)])

    def close(self) -> None:
        self._on = False
        self._patches.close()
        for loader in self._loaders:
            loader.forget()
        self._loaders = []
        self._fetched = self._trained = None
        self._randomness = Randomness()
        self.statistics.clear()
        self._numbers.clear()
        self._state = self._ended = None

    def place(self) -> Optional[Tuple[int, str]]:
        """The step and the ``where`` of the last boundary; None before the first step. For `for_checkpoint`."""
        ended, state = self._ended, self._state
        if ended is not None:
            return ended[0], AFTER_STEP
        return None if state is None else (state.step, state.where)

    def marks(self) -> List[List[Optional[int]]]:
        """``[step, optimizer index, the optimizer's own step count, sequence number of the default process group]`` of the last
        `MARKS` steps, oldest first; the latter two are None where there is no such thing. On a client's thread, 0.2 ms."""
        numbers = dict(list(self._numbers))
        recent = self._recorder.since(self._recorder.step - MARKS)
        return [[r[STEP], r[OF_OPTIMIZER], r[OPTIMIZER_STEP], numbers.get(r[STEP])] for r in recent]

    def for_checkpoint(self) -> Dict[str, Any]:
        """The last boundary, in tensors and plain values: ``step``, ``where``, ``rng``, ``loaders``, ``notes``, ``time_s``. About 0.2 ms;
        as long as no batch was fetched since we came, for 64 steps at most, 0.1 us more for each object that the collector tracks.

        ``where`` is "before the next batch" where an iteration was complete with its scheduler's step, "after the optimizer step" where no
        more was seen, "as found" where no step was: then it is read now. ``step`` counts from the agent's coming; None as found.

        A loader: what `epochs.describe` says, ``batches`` that were taken (None between two passes), ``begun``: {"rng", "generators",
        "epochs"} when that pass began, or None, then ``recovered`` (`epochs.recover`); ``again`` for a pass with the workers of an earlier
        one, ``ahead`` where a batch is fetched ahead of the program, ``generators`` at the boundary, ``begun_since``: passes begun after
        it, ``trained``: whether the last step's batch was its. ``notes``: why a resume will not be exact, one sentence each.
        """
        ended = self._ended
        state = self._state if ended is None else self._written(*ended, AFTER_STEP)
        if state is None:
            return self._as_found()
        passes, trained = state.loaders, self._trained
        if trained is None and self._recorder.step < STEPS_WITHOUT_A_BATCH:
            unseen = _passes_under_way(besides=passes)  # what the first step had was fetched before we came
            passes, trained = [*passes, *unseen], unseen[0][0] if unseen else None
        loaders = [_plain_loader(position, trained) for position in passes]
        notes = _doubts(loaders)
        if self._safepoints.by_hand is not None:
            notes.append(BY_HAND)
        elif state.where == AFTER_STEP and not state.passed:
            notes.append(SCHEDULER_IN_DOUBT)
            if ended is not None and self._training_thread() != threading.get_ident():
                notes.append(GENERATORS_AS_FOUND)
        return {
            "step": state.step,
            "time_s": state.time_s,
            "where": state.where,
            "rng": randomness.plain(state.rng),
            "loaders": loaders,
            "notes": notes,
        }

    def look(self) -> None:
        """Find the modules with running statistics. On the agent's thread, now and then; once for each set of stepping optimizers."""
        by_hand = self._safepoints.by_hand
        trained = list(self._safepoints.optimizers) if by_hand is None else [id(by_hand)]
        if not trained or trained == self._watched or not self._on:
            return
        self._watched = trained
        base = getattr(sys.modules.get("torch.nn.modules.module"), "Module", None)
        if base is not None:
            self.statistics.watch([value for value in reachable.from_frames() if issubclass(type(value), base)])

    def counters(self) -> Dict[str, int]:
        """The program's loop counters as they stand now, see `counters.read`."""
        return counters.read(self._training_thread())

    def updating(self) -> bool:
        """True where the training thread is inside the part of an optimizer's ``step`` that changes parameters. In its closure only where
        that is evaluated again and again (LBFGS): then parameters are those of a trial."""
        frame = sys._current_frames().get(self._training_thread() or 0)
        inside: List[str] = []
        for f, local in reachable.look_at_stack(frame) if frame is not None else ():
            if is_step(f):
                own = {
                    "torch",
                    *(cls.__module__.partition(".")[0] for cls in stepping(local).__mro__),
                } | STANDARD_LIBRARY
                return self._recorder.losses.evaluations > 1 or not any(_of_closure(module, own) for module in inside)
            inside.append(str(f.f_globals.get("__name__")))
        return False

    # -- on the training thread --

    def _after_step(self, optimizer: Any) -> None:
        if self._safepoints.on_cuda and cuda.capturing():
            return
        self._trained = self._fetched
        step = self._recorder.step
        self._ended = (step, time.time())
        if self.statistics.kept:
            self.statistics.copy()
        if not self._safepoints.step_a_batch:  # before the next boundary dropout, or the other half of a GAN, draws
            self._state, self._ended = self._written(*self._ended, AFTER_STEP), None
        number = self._sequence_number()
        if number is not None and (not self._numbers or self._numbers[-1][0] != step):
            self._numbers.append((step, number))

    def _at_boundary(self, where: str) -> None:
        state = self._state
        if where == NEXT_BATCH:
            if not (self._safepoints.on_cuda and cuda.capturing()):
                self._state, self._ended = self._written(self._recorder.step, time.time(), where), None
                if self.statistics.kept:
                    self.statistics.copy()
        elif state is not None and not state.passed:  # dropout has drawn since: what was read after the step stays
            self._state = state._replace(passed=True)
        if self._patches.spots:
            self._patches.catch_up()

    def _written(self, step: int, time_s: float, where: str) -> Written:
        positions: List[Position] = []
        for loader in self._loaders:
            epoch = loader.epoch
            if epoch is not None:
                own = loader.own_states() if loader.generators else {}
                positions.append((loader, epoch, epoch.batches(), loader.begun, own))
        rng = self._randomness.read(on_cuda=self._safepoints.on_cuda)
        return Written(step, time_s, where, where == NEXT_BATCH, rng, positions)

    def _sequence_number(self) -> Optional[int]:
        """How many collectives the default process group has begun: the same number at the same point of the program on all ranks."""
        distributed = self._distributed
        if distributed is None:
            distributed = self._distributed = sys.modules.get("torch.distributed.distributed_c10d")
        world = getattr(getattr(distributed, "GroupMember", None), "WORLD", None)  # it may be half imported
        if world is None:
            return None
        try:
            number: int = world._get_sequence_number_for_group()
        except (AttributeError, RuntimeError):  # a backend without numbers
            return None
        return number

    def _fetching(self, iterator: Any) -> None:
        """A batch is about to be fetched. Its iterator is new to us where it was begun before we came."""
        loader = self._fetched
        if loader is not None and loader.epoch is not None and loader.epoch.iterator() is iterator:
            return
        for loader in self._loaders:
            if loader.epoch is not None and loader.epoch.iterator() is iterator:
                break
        else:
            loader = self._known(iterator)
            loader.epoch = Epoch(iterator, None, _reads_ahead())
            if self._trained is None and self._recorder.step:  # we came between a fetch and its step
                self._trained = loader
        self._fetched = loader

    def _known(self, like: Any) -> Loader:
        for loader in self._loaders:
            if loader.is_of(like):
                return loader
        self._loaders = [x for x in self._loaders if x.alive][-MOST_LOADERS:]
        loader = Loader(like)
        self._loaders.append(loader)
        return loader

    def _wrap_iter(self, begin: Any) -> Any:
        @functools.wraps(begin)
        def traindbg_iter(loader: Any) -> Any:
            if not self._on or self._training_thread() != threading.get_ident():
                return begin(loader)
            noted = self._careful(self._begun, loader)
            iterator = begin(loader)
            if noted is not None:
                self._careful(self._began, iterator, *noted)
            return iterator

        return traindbg_iter

    def _careful(self, function: Any, *args: Any) -> Any:
        """Whatever goes wrong in a note of ours, the training never sees it; then the pass is one of which nothing is known."""
        try:
            return function(*args)
        except Exception as e:
            self._safepoints.failures.append(f"boundary.{function.__name__}: {type(e).__name__}: {e}")
            return None

    def _begun(self, like: Any) -> Optional[Tuple[Loader, Dict[str, Any]]]:
        if cuda.capturing():
            return None
        if self._ended is not None:  # its seed is about to be drawn
            self._state, self._ended = self._written(*self._ended, AFTER_STEP), None
        loader = self._known(like)
        samplers = loader.saw(like)
        began = {
            "rng": self._randomness.read(on_cuda=cuda.in_use()),
            "generators": loader.own_states(),
            "epochs": epochs.sampler_epochs(samplers),
        }
        return loader, began

    def _began(self, iterator: Any, loader: Loader, began: Dict[str, Any]) -> None:
        if hasattr(iterator, "_num_yielded"):
            again = loader.epoch is not None and loader.epoch.iterator() is iterator
            loader.begun += 1
            self._fetched = loader
            loader.epoch = Epoch(iterator, began, _reads_ahead(), again=again)

    # -- where no step was seen --

    def _training_thread(self) -> Optional[int]:
        return self._safepoints.thread_id or threading.main_thread().ident

    def _as_found(self) -> Dict[str, Any]:
        """What can be read now. A batch was taken and not trained on where the program stands in a forward or backward pass."""
        notes = [NOT_THE_BOUNDARY]
        in_hand = self._has_batch_in_hand()
        passes = _passes_under_way(in_hand=in_hand)
        found = [_plain_loader(position, passes[0][0]) for position in passes]
        notes += _doubts(found)
        if in_hand and found:
            notes.append(BATCH_IN_HAND)
        return {
            "step": None,
            "time_s": time.time(),
            "where": AS_FOUND,
            "rng": randomness.plain(self._randomness.read(on_cuda=cuda.in_use())),
            "loaders": found,
            "notes": notes,
        }

    def _has_batch_in_hand(self) -> bool:
        thread = self._training_thread()
        frame = sys._current_frames().get(thread) if thread is not None else None
        while frame is not None:
            place = (str(frame.f_globals.get("__name__")), frame.f_code.co_name)
            if place in (("torch.nn.modules.module", "_call_impl"), ("torch.autograd", "backward")):
                return True
            frame = frame.f_back
        return False


def _of_closure(module: str, own: Set[str]) -> bool:
    """Whether code of `module` below an optimizer's step is that of its closure: not the optimizer's, or a model."""
    return module in CLOSURES or module.startswith(MODULES) or module.partition(".")[0] not in own


def _passes_under_way(*, besides: Sequence[Position] = (), in_hand: bool = False) -> List[Position]:
    """Where the iterators of DataLoaders in this process stand now, but for those of `besides`; `in_hand`: one batch before that.

    A ``for`` holds its iterator where only the collector finds it.
    """
    module = sys.modules.get("torch.utils.data.dataloader")
    base = getattr(module, "_BaseDataLoaderIter", None)
    known = [epoch.iterator() for _, epoch, *_ in besides]
    found: List[Position] = []
    for iterator in [] if base is None else reachable.from_gc([base]):
        if getattr(iterator, "_num_yielded", 0) and not any(iterator is k for k in known):
            loader, epoch = Loader(iterator), Epoch(iterator, None)
            batches = epoch.batches()
            found.append((loader, epoch, batches - 1 if in_hand and batches else batches, 0, loader.own_states()))
    return found


def _reads_ahead() -> Any:
    """accelerate's loader where it is what iterates, further up the stack of this thread."""
    frame: Optional[FrameType] = sys._getframe(1)
    for _ in range(FRAMES_TO_READER):
        if frame is None:
            return None
        if frame.f_code.co_name == "__iter__" and frame.f_globals.get("__name__") == "accelerate.data_loader":
            _, local = next(reachable.look_at_stack(frame))
            owner = local.get("self")
            return owner if hasattr(type(owner), "end_of_dataloader") else None
        frame = frame.f_back
    return None


def _plain_loader(position: Position, trained: Optional[Loader]) -> Dict[str, Any]:
    loader, epoch, batches, begun, own = position
    began, recovered = epoch.begun, epoch.recovered
    if began is not None:
        began = {**began, "rng": randomness.plain(began["rng"])}
    if recovered is not None and recovered["order"] is not None:
        order = sys.modules["torch"].tensor(recovered["order"], dtype=sys.modules["torch"].int64, device="cpu")
        recovered = {**recovered, "order": order}
    return {
        **loader.about,
        "batches": batches,
        "iteration": epoch.iteration,
        "begun": began,
        "again": epoch.again,
        "ahead": epoch.ahead,
        "recovered": recovered,
        "generators": own,
        "begun_since": loader.begun - begun,
        "trained": loader is trained,
    }


def _doubts(entries: List[Dict[str, Any]]) -> List[Said]:
    """Why the batches to come will not be those that would have come. An order that is not known counts of every loader: a step may take a
    batch of several.
    """
    passes = [entry for entry in entries if entry["batches"] is not None]
    notes = [ORDER_UNKNOWN] if any(map(_order_unknown, passes)) else []
    for entry in passes:
        if entry["trained"] and entry["again"]:
            notes.append(WORKERS_GO_ON)
        if entry["trained"] and entry["ahead"] and entry["num_workers"] == 0:
            notes.append(READ_AHEAD)
    return notes


def _order_unknown(entry: Dict[str, Any]) -> bool:
    recovered, length = entry["recovered"], entry["length"]
    if (
        recovered is None or recovered["settled"] or entry["batches"] == length
    ):  # at its end there is no order left to know
        return False
    return recovered["seed"] is None and recovered["order"] is None


__all__ = ["AFTER_STEP", "AS_FOUND", "Boundary"]
