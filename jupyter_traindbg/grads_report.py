"""The gradients of all ranks, read after the same optimizer step wherever that can be told: only then can they be compared.

Each rank is asked where it is, a step a little ahead of all of them is chosen, and each reads when it gets there. Where that does not work
out (the ranks share no step, or do not step at all) they are read as they come, and the result says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from . import evidence
from .actions.matching import Pace, Unmatched, margin, offsets
from .diagnose.soundness.gradients import findings
from .errors import TraindbgError
from .model import NA, Grads, Maybe, NotAvailable, RankGrads, Silent
from .step_numbers import same_step

__all__ = ["Ask", "read"]

QUICK_S = 3.0
"""How long an agent may take to say where its rank is."""
MATCH_SHARE, MATCH_S = 0.25, 2.5
"""How long steps that all ranks share are waited for, as a share of the whole time and at most: the rest is for reading."""
LOOK_AGAIN_S = 0.05
ATTEMPTS = 2
"""A rank that prepares for long (it looks for its objects for the first time) may come too late once."""
ENOUGH_S = 1.0
"""With less time left there is no second attempt."""

T = TypeVar("T")


class Ask(Protocol):
    """`Job._ask`: one question to all ranks; parameters of a rank's own by its number."""

    def __call__(
        self,
        method: str,
        params: dict[str, Any],
        timeout: float,
        build: Callable[[int, int, Any], T],
        *,
        of_rank: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> tuple[tuple[T, ...], tuple[Silent, ...]]: ...


@dataclass(frozen=True)
class _Matched:
    """Where the ranks are, and by how much their step numbers differ from the first one's."""

    paces: Sequence[Pace]
    shift: Mapping[int, int]

    def target(self, attempt: int) -> dict[int, dict[str, int]]:
        """A step that none of them has made, by the number that each gives it."""
        latest = max(pace.step - self.shift[pace.rank] for pace in self.paces)
        ahead = latest + margin(self.paces, 0.0, attempt)
        return {rank: {"after_step": ahead + by} for rank, by in self.shift.items()}


def read(ask: Ask, *, several: bool, detail: bool, first_nan: int, timeout: float) -> Grads:
    """The gradients of all ranks, within `timeout` seconds; see `Job.grads`. Raises where nobody answers."""
    ends = time.monotonic() + timeout
    params: dict[str, Any] = {"detail": detail, "first_nan": first_nan}
    matched: Maybe[_Matched] = NA("each rank was watched for the first NaN, and read when that was over")
    if several and not first_nan:
        matched = _match(ask, ends, min(MATCH_S, timeout * MATCH_SHARE))
    for attempt in range(ATTEMPTS):
        left_s = max(0.05, ends - time.monotonic())
        target = None if isinstance(matched, NotAvailable) or len(matched.paces) < 2 else matched.target(attempt)
        found, silent = ask("grads", {**params, "deadline_s": left_s * 0.9}, left_s, evidence.grads, of_rank=target)
        same = _same_step(found, matched)
        stepping = all(rank.safe_point for rank in found)
        if target is None or same or silent or not stepping or ends - time.monotonic() < ENOUGH_S:
            break
        matched = _match(ask, ends, 0.0)
    return Grads(found, silent, tuple(findings(found)), same)


def _match(ask: Ask, ends: float, wait_s: float) -> Maybe[_Matched]:
    """Where all ranks are; waits at most so long for steps that they share, or the reason why there are none."""
    until = time.monotonic() + wait_s
    while True:
        asked = time.monotonic()

        def pace(rank: int, pid: int, told: Any, asked: float = asked) -> Pace:
            took_s = time.monotonic() - asked
            usual, mean, since = (told[name] for name in ("usual_step_s", "mean_step_s", "since_last_step_s"))
            return Pace(rank, told["step"], told["marks"], usual, mean, since, told["directory"], took_s)

        try:
            paces, _ = ask("pace", {}, max(0.05, min(QUICK_S, ends - asked)), pace)
            return _Matched(paces, {p.rank: by for p, by in zip(paces, offsets(paces), strict=True)})
        except Unmatched as e:
            if time.monotonic() + LOOK_AGAIN_S > until:
                return NA(str(e))
        except TraindbgError as e:
            return NA(e.cause)
        time.sleep(LOOK_AGAIN_S)


def _same_step(ranks: Sequence[RankGrads], matched: Maybe[_Matched]) -> Maybe[bool]:
    """Whether all were read after one step: by the steps that were found to be the same, or by the optimizers' own counts."""
    after = [rank.after_step for rank in ranks]
    if not all(rank.safe_point for rank in ranks):
        return NA("not all ranks were read at a safe point")
    if not isinstance(matched, NotAvailable) and all(rank.rank in matched.shift for rank in ranks):
        shift = [matched.shift[rank.rank] for rank in ranks]
        return (
            len({step - by for step, by in zip(after, shift, strict=True) if not isinstance(step, NotAvailable)}) <= 1
        )
    same = same_step([rank.number for rank in ranks])
    if same is None:
        return NA(matched.reason if isinstance(matched, NotAvailable) else evidence.NO_COUNT)
    return same
