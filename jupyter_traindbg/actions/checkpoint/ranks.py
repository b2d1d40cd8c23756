"""Who takes part in a checkpoint: what the ranks say of themselves, and what forbids writing one. Decides; changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...agent.saying import Said, Text, joined, said
from ...attach.base import Link, ask_each
from ...errors import ActionRefused, TraindbgError
from ...language import later, text
from ...spoken import spoken
from ...words.ranks import FEW, rank_list, ranks_words

__all__ = ["Survey", "ask", "blame", "pace_of", "refuse", "refuse_unequal_steps", "said_ranks", "survey"]

SLOWER_THAN_USUAL = 5.0
AT_LEAST_S, WITHOUT_HISTORY_S = 1.0, 5.0
"""A step may be as much slower than usual before the job counts as hung, and this many seconds in any case."""
STILL_S = 20.0
"""After so long without a step, the next one is not waited for any more."""

TOUCHED_PER_S = 0.3e9
"""Bytes of new host memory that a rank can make ready in a second, at least."""

Answers = dict[int, Any]
Errors = dict[int, TraindbgError]


def ask(
    links: Mapping[int, Link], params: Callable[[int], dict[str, Any]], deadline_s: float, method: str = "checkpoint"
) -> tuple[Answers, Errors]:
    """Ask all ranks at once, each with its own parameters; what they answered, and the errors of those that did not."""

    rank_of = {id(link): rank for rank, link in links.items()}

    def one(link: Link) -> Any:
        return link.call(method, params(rank_of[id(link)]), deadline_s)

    given = [(rank_of[id(link)], answer) for link, answer in ask_each(list(links.values()), one, deadline_s)]
    answers = {rank: answer for rank, answer in given if not isinstance(answer, TraindbgError)}
    errors = {rank: answer for rank, answer in given if isinstance(answer, TraindbgError)}
    return answers, errors


def blame(errors: Errors, next_step: str | None = None) -> TraindbgError:
    """One error for all: that of the first rank, saying which ranks it is about."""
    first = errors[min(errors)]
    same = [rank for rank, e in errors.items() if type(e) is type(first)]
    return type(first)(
        text("{who}: {what}", who=ranks_words(same), what=first.cause),
        first.next_step if next_step is None else next_step,
    )


@dataclass(frozen=True)
class Unequal:
    """``why`` says of ranks that they are at different steps; None where all are at the same. ``mixed``: what is written may not belong
    together.
    """

    why: Said | None
    mixed: bool


@dataclass(frozen=True)
class Survey:
    """What the ranks that answered said, by rank, and which ones did not."""

    links: dict[int, Link]
    answers: dict[int, dict[str, Any]]
    errors: Errors
    missing: tuple[int, ...]
    world_size: int
    unshared: bool = False
    """Those that are missing would have taken part, and do not see the directory."""

    @property
    def kind(self) -> str:
        return str(self.answers[min(self.answers)]["kind"])

    @property
    def lowest(self) -> int:
        return min(self.answers)

    @property
    def bytes(self) -> int:
        """What is going to be written: by every rank of a sharded job, by one rank of a replicated one."""
        if self.kind == "sharded":
            return sum(int(a["bytes"]) for a in self.answers.values())
        return int(self.answers[self.lowest]["bytes"])

    @property
    def to_prepare_s(self) -> float:
        """How long a rank may take to have host memory for its part: it goes with the size, as writing does."""
        return max(int(a["bytes"]) for a in self.answers.values()) / TOUCHED_PER_S

    def alone(self, *, unshared: bool = False) -> Survey:
        """The lowest rank by itself, the others counted as missing: all that can be saved of a job that runs on with ranks unasked."""
        rank = self.lowest
        others = tuple(r for r in range(self.world_size) if r != rank)
        return Survey(
            {rank: self.links[rank]}, {rank: self.answers[rank]}, self.errors, others, self.world_size, unshared
        )


def survey(links: Sequence[Link], timeout: float) -> Survey:
    """Ask all ranks. Raises the error of the first one where none answers, `ActionRefused` where two say that they are the same rank."""
    by_rank: dict[int, Link] = {}
    for link in links:
        twin = by_rank.setdefault(link.rank, link)
        if twin is not link:
            raise ActionRefused(
                text(
                    "processes {pid} and {other} both say that they are rank {rank}: they are not one job",
                    pid=twin.pid,
                    other=link.pid,
                    rank=link.rank,
                ),
                text("nothing was written; checkpoint each of them by its pid"),
            )
    answers, errors = ask(by_rank, lambda rank: {"do": "survey"}, timeout)
    if not answers:
        raise blame(errors)
    world_size = max(links[0].world_size, *(link.world_size for link in links), len(by_rank))
    missing = tuple(rank for rank in range(world_size) if rank not in answers)
    return Survey({rank: by_rank[rank] for rank in answers}, answers, errors, missing, world_size)


# --- what forbids it -----------------------------------------------------------------------------------------------


def refuse(found: Survey) -> None:
    """Raise `ActionRefused` where these ranks cannot be saved together, before anything is written."""
    cannot = {rank: str(a["unsupported"]) for rank, a in found.answers.items() if a["unsupported"]}
    if cannot:
        words = cannot[min(cannot)]
        raise ActionRefused(
            text("{who}: {what}", who=ranks_words(r for r in cannot if cannot[r] == words), what=words),
            text("nothing was written"),
        )
    _refuse_different(
        found,
        "kind",
        later("{names} do not keep their parameters in the same way (pipeline or tensor parallel by hand?)"),
    )
    _refuse_different(
        found, "fingerprint", later("{names} do not have the same parameters (pipeline or tensor parallel by hand?)")
    )
    if found.missing and found.kind == "sharded":
        lost = text(
            "the parameters are sharded and the shards of {ranks} are missing", ranks=ranks_words(found.missing)
        )
        raise ActionRefused(
            text("{who}: {what}", who=lost, what=found.errors[min(found.errors)].cause) if found.errors else lost,
            text(
                "nothing was written; a sharded job needs all {world_size} ranks: attach to the whole job, not to one "
                "of its processes",
                world_size=found.world_size,
            ),
        )


def _refuse_different(found: Survey, key: str, message: str) -> None:
    groups: dict[str, list[int]] = {}
    for rank, answer in found.answers.items():
        groups.setdefault(repr(answer[key]), []).append(rank)
    if len(groups) > 1:
        names = text(" and ").join(ranks_words(ranks) for ranks in list(groups.values())[:4])
        raise ActionRefused(
            text(message, names=names),
            text("nothing was written; checkpoint each group of equal ranks by a pid of its own"),
        )


def refuse_unequal_steps(
    found: Survey, taken: Mapping[int, dict[str, Any]], *, allow: bool, agreed: bool = False
) -> Unequal:
    """What is to be said of ranks that are at different optimizer steps, or may be; raises `ActionRefused` with all steps unless `allow`.

    Equal are ranks whose optimizers count the same steps or, where they do not count, whose last step had the same sequence number of the
    process group. `taken` has the ``own_steps`` to go by. Of a replicated job only one rank's weights are written: there it is enough that
    the steps are not known to differ. `agreed`: they were copied at a step that all have agreed on; the numbers in `found` are those of
    the moments at which each running rank was asked, and say nothing of that.
    """
    own = {rank: tuple(answer["own_steps"]) for rank, answer in taken.items()}
    counted = any(step is not None for steps in own.values() for step in steps)
    if agreed and not counted:
        return Unequal(None, mixed=False)
    at: dict[int, Any] = dict(own) if counted else {rank: _last_sequence(found.answers[rank]) for rank in taken}
    if len(taken) == 1 or (len(set(at.values())) == 1 and None not in at.values()):
        return Unequal(None, mixed=False)
    sharded = found.kind == "sharded"
    if not counted and None in at.values():
        unknown = said(
            "whether all ranks are at the same step is not known: their optimizers do not count, and the agent came later"
        )
        if sharded and not allow:
            raise ActionRefused(
                spoken(unknown), text("nothing was written; with --allow-mixed it is written all the same, and says so")
            )
        return Unequal(unknown, mixed=sharded)
    different = _different_steps(at, counted)
    if not allow:
        raise ActionRefused(
            spoken(different),
            text("nothing was written; --allow-mixed writes it all the same and says so in the manifest")
            if sharded
            else text(
                "nothing was written; --allow-mixed writes it all the same and says so in the manifest; one rank alone, by its "
                "pid, is consistent: all have the whole model"
            ),
        )
    return Unequal(different, mixed=True)


def _last_sequence(answer: dict[str, Any]) -> int | None:
    marks = answer["marks"]
    number: int | None = marks[-1][3] if marks else None
    return number


def _different_steps(at: Mapping[int, Any], counted: bool) -> Said:
    groups: dict[Any, list[int]] = {}
    for rank, step in at.items():
        groups.setdefault(step, []).append(rank)
    each = [
        said("{ranks} at step {step}", ranks=said_ranks(ranks), step=_step_words(step))
        if counted
        else said("{ranks} at collective {step}", ranks=said_ranks(ranks), step=_step_words(step))
        for step, ranks in groups.items()
    ]
    return said("the ranks are at different optimizer steps: {steps}", steps=joined(each))


def said_ranks(ranks: Iterable[int]) -> Said:
    """``rank 5``, ``ranks 0-2``, ``ranks 0-5 (6)``, of one rank at least."""
    unique = sorted(set(ranks))
    numbers, count = rank_list(unique), len(unique)
    if count == 1:
        return said("rank {rank}", rank=numbers)
    return said("ranks {ranks}", ranks=f"{numbers} ({count})" if count > FEW else numbers)


def _step_words(step: Any) -> Text:
    if not isinstance(step, tuple):
        return str(step)
    return said("none") if step == (None,) else ", ".join("-" if s is None else str(s) for s in step)


# --- healthy or hung -----------------------------------------------------------------------------------------------


def pace_of(answer: Mapping[str, Any], more_s: float = 0.0) -> Literal["going", "pausing", "still", "unseen"]:
    """Whether a rank makes steps; one may take `more_s` longer. ``pausing``: none for a moment (an evaluation?); ``unseen``: none since
    the agent came in."""
    since, usual = answer["since_last_step_s"], answer["usual_step_s"]
    if since is None:
        return "unseen"
    patience = WITHOUT_HISTORY_S if usual is None else max(AT_LEAST_S, SLOWER_THAN_USUAL * usual)
    if since < patience + more_s:
        return "going"
    return "pausing" if since < max(STILL_S, patience) else "still"
