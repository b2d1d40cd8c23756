"""Which step of one rank is which of another. Pure functions over what the probe `pace` answers, and `match`, which asks for it.

An agent counts the steps it has seen, so the counts of two ranks differ by when their agents came. What tells that two steps are one and
the same is the optimizer's own count, and the sequence number of the process group: how many collectives the program has begun.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import TraindbgError
from ..language import text
from ..model import Maybe, NotAvailable, Silent
from ..words.ranks import ranks_words

__all__ = ["Matched", "Pace", "Unmatched", "margin", "match", "numbered_alike", "offsets"]

ROUND_TRIPS = 4
SLACK_S = 0.1
"""A prepare takes a round trip like the one measured, but a busy interpreter may take several times as long to answer."""
GROWTH = 4
QUICK_S = 3.0
"""How long an agent may take to say where its rank is."""
LOOK_AGAIN_S = 0.05
SURE = 3
"""With so many marks on each rank, an optimizer that steps beside the one seen would have been seen as well."""

Mark = Sequence[Any]
"""``[step, optimizer index, the optimizer's own count, sequence number]``."""


class Unmatched(Exception):
    """The steps of these ranks cannot be told to be the same; the message says why."""


@dataclass(frozen=True)
class Pace:
    """Where one rank is. ``step`` counts since its agent came, ``round_trip_s`` is how long its answer took."""

    rank: int
    step: int
    marks: Sequence[Mark]
    usual_step_s: float | None
    mean_step_s: float | None
    since_last_step_s: float | None
    directory: str
    round_trip_s: float


def offsets(paces: Sequence[Pace]) -> list[int]:
    """For each rank what is to be added to a step number of the first rank to have its own number of that step.

    Raises `Unmatched` where no step is known that all ranks share, or where those that are shared contradict each other.
    """
    if len(paces) == 1:
        return [0]
    behind = [pace.rank for pace in paces if not pace.marks]
    if behind:
        raise Unmatched(text("no optimizer step was seen yet on {ranks}", ranks=ranks_words(behind)))
    for keys in _ways_to_tell(paces):
        shared = set(keys[0]).intersection(*keys[1:])
        if not shared:
            continue
        found = [{own[key] - keys[0][key] for key in shared} for own in keys]
        if any(len(differences) > 1 for differences in found):
            raise Unmatched(text("the ranks do not step in parallel: the steps that they share come in another order"))
        return [differences.pop() for differences in found]
    raise Unmatched(
        text(
            "no step is known that all ranks share: neither the optimizers' own counts nor the process group's numbers agree"
        )
    )


def numbered_alike(paces: Sequence[Pace], shift: Sequence[int]) -> bool:
    """Whether all ranks give their optimizers the same numbers. An agent numbers them as it sees them step first: one that came in the
    middle of an iteration with two of them starts with the other one."""
    first = {mark[0]: mark[1] for mark in paces[0].marks}
    return all(
        first.get(mark[0] - by, mark[1]) == mark[1]
        for pace, by in zip(paces[1:], shift[1:], strict=True)
        for mark in pace.marks
    )


@dataclass(frozen=True)
class Matched:
    """Where the ranks are, and by how much their step numbers differ from the first one's."""

    paces: Sequence[Pace]
    shift: Mapping[int, int]

    def target(self, attempt: int = 0, prepare_s: float = 0.0) -> dict[int, dict[str, int]]:
        """A step that none of them has made, by the number that each rank gives it, as probes are told of it; see `margin`."""
        latest = max(pace.step - self.shift[pace.rank] for pace in self.paces)
        ahead = latest + margin(self.paces, prepare_s, attempt)
        return {rank: {"after_step": ahead + by} for rank, by in self.shift.items()}


class AskAgents(Protocol):
    """`jupyter_traindbg.questions.base.Ranks.ask_agents`."""

    def __call__(
        self, method: str, params: Mapping[str, Any], timeout: float, build: Callable[[int, int, Any], Pace], /
    ) -> tuple[tuple[Pace, ...], tuple[Silent, ...]]: ...


def match(ask_agents: AskAgents, ends: float, wait_s: float) -> Maybe[Matched]:
    """Where all ranks are; waits at most so long for steps that they share, or the reason why there are none."""
    until = time.monotonic() + wait_s
    while True:
        asked = time.monotonic()

        def pace(rank: int, pid: int, told: Any, asked: float = asked) -> Pace:
            took_s = time.monotonic() - asked
            usual, mean, since = (told[name] for name in ("usual_step_s", "mean_step_s", "since_last_step_s"))
            return Pace(rank, told["step"], told["marks"], usual, mean, since, told["directory"], took_s)

        try:
            paces, _ = ask_agents("pace", {}, max(0.05, min(QUICK_S, ends - asked)), pace)
            return Matched(paces, {p.rank: by for p, by in zip(paces, offsets(paces), strict=True)})
        except Unmatched as e:
            if time.monotonic() + LOOK_AGAIN_S > until:
                return NotAvailable(str(e))
        except TraindbgError as e:
            return NotAvailable(e.cause)
        time.sleep(LOOK_AGAIN_S)


def _ways_to_tell(paces: Sequence[Pace]) -> list[list[Mapping[Hashable, int]]]:
    """For each way to tell steps apart, the surest first: per rank, a name for each step -> the rank's number of it."""
    ways: list[list[Mapping[Hashable, int]]] = []
    one_optimizer = all(len({m[1] for m in p.marks}) == 1 for p in paces)
    if one_optimizer and all(m[2] is not None for p in paces for m in p.marks):
        ways.append([{(m[2], m[3]): m[0] for m in p.marks} for p in paces])
        if all(len(p.marks) >= SURE for p in paces):
            # Sequence numbers may differ where some ranks alone send to each other (pipelines).
            ways.append([{m[2]: m[0] for m in p.marks} for p in paces])
    ways.append([_by_sequence_number(p.marks) for p in paces])
    return ways


def _by_sequence_number(marks: Sequence[Mark]) -> dict[Hashable, int]:
    """The last step before the program begins a further collective. Several may share a number (two optimizers in a row); whether the
    newest one has its last step yet is not known."""
    by_number: dict[Hashable, int] = {m[3]: m[0] for m in marks if m[3] is not None}
    if marks:
        by_number.pop(marks[-1][3], None)
    return by_number


def margin(paces: Sequence[Pace], prepare_s: float, attempt: int) -> int:
    """How many steps ahead to agree, so that all ranks are told in time and none waits for long: at least one.

    `prepare_s` is how long preparing takes beside the round trip. The mean step counts at first, since a median of uneven steps (two
    optimizers in a row) can be off by any factor; later attempts grow, and trust the shorter of the two. A rank that has been seen to step
    only once may take any time for a step: as few as possible, then.
    """
    window: float = (ROUND_TRIPS * max(p.round_trip_s for p in paces) + SLACK_S + prepare_s) * GROWTH**attempt
    measured = [p.mean_step_s for p in paces] + ([p.usual_step_s for p in paces] if attempt else [])
    known = [s for s in measured if s]
    if not known:
        return int(GROWTH**attempt)
    return max(1, math.ceil(window / max(min(known), 1e-5)))
