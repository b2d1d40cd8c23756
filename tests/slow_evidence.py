"""Windows over ranks that step, made by hand: where their training threads were, their steps, batches, workers and collectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from soundness_evidence import step

from jupyter_traindbg.diagnose.slow import judge
from jupyter_traindbg.model import (
    BatchSeen,
    Collective,
    Frame,
    FullCollections,
    Group,
    LoaderSetUp,
    ProcessLooks,
    RankCollectives,
    RankWindow,
    Slow,
    SlowCause,
    SourceLine,
    Step,
    TimedLook,
    TrainingHost,
)

BEGAN_S = 1e9
STEPS = 20
LOOKS_A_STEP = 10
TORCH = "/env/lib/python3.11/site-packages/torch"
LOOP = Frame("/job/train.py", 10, "main")
BACKWARD = (
    Frame(f"{TORCH}/autograd/graph.py", 900, "_engine_run_backward", library=True),
    Frame(f"{TORCH}/_tensor.py", 600, "Tensor.backward", library=True),
    Frame("/job/train.py", 14, "main"),
)
FORWARD = (
    Frame(f"{TORCH}/nn/modules/linear.py", 130, "Linear.forward", library=True),
    Frame(f"{TORCH}/nn/modules/module.py", 1780, "Module._call_impl", library=True),
    Frame("/job/train.py", 12, "main"),
)
OPTIMIZER = (
    Frame(f"{TORCH}/optim/sgd.py", 380, "_single_tensor_sgd", library=True),
    Frame("/job/train.py", 15, "main"),
)
LOADER = (
    Frame("/usr/lib/python3.11/queue.py", 171, "Queue.get", library=True),
    Frame(f"{TORCH}/utils/data/dataloader.py", 1200, "_MultiProcessingDataLoaderIter._next_data", library=True),
    Frame(f"{TORCH}/utils/data/dataloader.py", 700, "_BaseDataLoaderIter.__next__", library=True),
    LOOP,
)
ALL_REDUCE = (
    Frame(f"{TORCH}/distributed/distributed_c10d.py", 2800, "all_reduce", library=True),
    Frame("/job/train.py", 16, "main"),
)


@dataclass(frozen=True)
class Spell:
    """So many seconds of each step in one place. `call`: the system call it sits in; `late_s`: how long looks wait for the GIL."""

    frames: Sequence[Frame]
    seconds: float
    call: str = ""
    late_s: float = 0.0001
    forward: bool = False
    every: int = 1
    """In every so many steps alone."""


SOUND = (Spell(FORWARD, 0.02, forward=True), Spell(BACKWARD, 0.03), Spell(OPTIMIZER, 0.005))
"""A step of 55 ms in which nothing is to be mended."""


def at(line: int, function: str = "main", *inner: Frame) -> tuple[Frame, ...]:
    """A stack with the user's line; what that has called comes first."""
    own = Frame("/job/train.py", line, function)
    return (*inner, own) if function == "main" else (*inner, own, Frame("/job/train.py", 20, "main"))


def window(rank: int, spells: Sequence[Spell], *, parts: dict[str, float] | None = None, **more: Any) -> RankWindow:
    """`STEPS` steps of these spells. `parts`: what the records say of a step, in seconds, else what the spells make up."""
    step_s = sum(spell.seconds / spell.every for spell in spells)
    looks: list[TimedLook] = []
    now = BEGAN_S
    for number in range(STEPS):
        for n, spell in enumerate(spells):
            if number % spell.every:
                continue
            pieces = max(1, round(LOOKS_A_STEP * spell.seconds / step_s))
            for _ in range(pieces):
                now += spell.seconds / pieces
                idle_s = spell.seconds / pieces if spell.call else 0.0
                looks.append(
                    TimedLook(now, n, spell.seconds / pieces, idle_s, spell.late_s, spell.call, number, spell.forward)
                )
    told = parts if parts is not None else _parts(spells)
    steps = [recorded(number, step_s, told, micro_batches=more.pop("micro", 1)) for number in range(1, STEPS + 1)]
    return RankWindow(
        rank, 1000 + rank, BEGAN_S, now - BEGAN_S, steps, [tuple(s.frames) for s in spells], looks, **{**QUIET, **more}
    )


QUIET: dict[str, Any] = {"collections": FullCollections(0, 0.0, 0.0), "workers": (), "host": TrainingHost(1, 8)}


def _parts(spells: Sequence[Spell]) -> dict[str, float]:
    """As the agent's records have them."""
    names = {
        id(FORWARD): "forward_s",
        id(BACKWARD): "backward_s",
        id(OPTIMIZER): "optimizer_s",
        id(LOADER): "data_wait_s",
    }
    told: dict[str, float] = {}
    for spell in spells:
        name = names.get(id(spell.frames), "other_s")
        if any("graph.py" in f.file for f in spell.frames):
            name = "backward_s"
        elif spell.forward:
            name = "forward_s"
        told[name] = told.get(name, 0.0) + spell.seconds / spell.every
    return told


def recorded(number: int, step_s: float, parts: dict[str, float], **more: Any) -> Step:
    zero = dict.fromkeys(("data_wait_s", "forward_s", "backward_s", "optimizer_s", "other_s"), 0.0)
    made = step(number, duration_s=step_s, **more)
    return Step(**{**vars(made), **zero, **parts})


def workers(many: int, *, working: float, at_line: Frame, looks: int = 40) -> tuple[ProcessLooks, ...]:
    """DataLoader workers that make batches for that share of the time, all of it at one line."""
    fetch = Frame(f"{TORCH}/utils/data/_utils/fetch.py", 54, "_MapDatasetFetcher.fetch", library=True)
    loop = Frame(f"{TORCH}/utils/data/_utils/worker.py", 340, "_worker_loop", library=True)
    get = Frame("/usr/lib/python3.11/multiprocessing/queues.py", 113, "Queue.get", library=True)
    busy = round(working * looks)
    stacks = (((at_line, fetch, loop), busy), ((get, loop), looks - busy))
    return tuple(ProcessLooks(9000 + n, looks, tuple(pair for pair in stacks if pair[1])) for n in range(many))


def loader(workers: int, **more: Any) -> LoaderSetUp:
    settings: dict[str, Any] = {"persistent_workers": True, "pin_memory": False, **more}
    return LoaderSetUp("Texts", workers, 32, 2, **settings)


def batches(elements: Sequence[int] = (100,) * STEPS) -> tuple[BatchSeen, ...]:
    """One a step."""
    return tuple(BatchSeen(0, number, 32, many) for number, many in enumerate(elements, 1))


def collectives(rank: int, arrivals: Sequence[float], ranks: int = 2) -> RankCollectives:
    """An all_reduce at each of these times, in seconds since the window began."""
    calls = [
        Collective("0", n, "all_reduce", ((100,),), ((100,),), ("float32",), "completed", issued_s=BEGAN_S + s)
        for n, s in enumerate(arrivals)
    ]
    return RankCollectives(
        rank, 1000 + rank, "agent", (Group("0", "", "gloo", tuple(range(ranks)), 1, 1),), tuple(calls)
    )


def judged(*windows: RankWindow, **lines: str) -> Slow:
    """`lines`: what stands at the lines of train.py: ``l20="gc.collect()"``."""
    return judge(windows, {f"/job/train.py:{name[1:]}": SourceLine(said) for name, said in lines.items()})


def codes(slow: Slow) -> list[str]:
    return [finding.code for finding in slow.findings]


def only(*windows: RankWindow, **lines: str) -> SlowCause:
    """The one cause there is."""
    slow = judged(*windows, **lines)
    (cause,) = slow.causes
    return cause
