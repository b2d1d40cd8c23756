"""What is said of a checkpoint: in its manifest, which the lowest rank writes, and in the result for the person who asked."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...agent.boundary import AS_FOUND
from ...agent.saying import Said, packed, said, unpacked
from ...checkpoints import manifest as on_disk
from ...checkpoints.inspecting import not_finite
from ...language import later, text
from ...model import NA, Checkpoint, CheckpointFile, CheckpointRank, Finding, Maybe, things
from ...spoken import spoken
from . import ranks
from .ranks import said_ranks

LOOP_BOUNDARY, HUNG = "loop boundary", "hung"
NOT_SEEN = later("no step of it was seen before it stopped")


@dataclass(frozen=True)
class Outcome:
    """All that is known of a checkpoint once every rank has written. ``taken`` and ``reports`` are by rank."""

    ident: str
    found: ranks.Survey
    taken: Mapping[int, Mapping[str, Any]]
    reports: Mapping[int, Mapping[str, Any]]
    hung: bool
    unequal: ranks.Unequal
    notes: Sequence[Said]

    @property
    def inexact(self) -> list[Said]:
        """Why a run that is resumed from it would not be the very same one."""
        why = [self.unequal.why] if self.unequal.why else []
        if self.found.missing:
            who = said_ranks(self.found.missing)
            lost = said("{ranks} had no part in it: random generators and loader positions are not in it", ranks=who)
            if self.found.unshared:
                lost = said(
                    "{ranks} cannot write there: random generators and loader positions are not in it", ranks=who
                )
            why.append(lost)
        doubts: dict[Said, list[int]] = {}
        for rank, taken in self.taken.items():
            for note in taken["notes"]:
                doubts.setdefault(unpacked(note), []).append(rank)
        of_ranks = [said("{ranks}: {note}", ranks=said_ranks(who), note=note) for note, who in doubts.items()]
        return [*why, *of_ranks, *self._not_alike()]

    def _not_alike(self) -> list[Said]:
        """What the ranks hold besides the model and not alike: only the lowest one's is written."""
        lowest, different = self.found.lowest, dict[str, list[int]]()
        for rank, taken in self.taken.items():
            for name in {*taken["others"], *self.taken[lowest]["others"]}:
                if taken["others"].get(name) != self.taken[lowest]["others"].get(name):
                    different.setdefault(name, []).append(rank)
        return [
            said(
                "{name} of {ranks} is not as that of rank {lowest}, and only that one is in it",
                name=name,
                ranks=said_ranks(who),
                lowest=lowest,
            )
            for name, who in sorted(different.items())
        ]

    @property
    def not_finite(self) -> list[Said]:
        """The parts with a NaN or an infinity in them."""
        worst: dict[str, Mapping[str, Any]] = {}
        for report in self.reports.values():
            for part in report["not_finite"]:
                known = worst.setdefault(part["part"], part)
                worst[part["part"]] = max(known, part, key=lambda p: int(p["tensors"]))
        return [
            said(
                "{part}: {tensors} of {of} tensors, first {first}",
                **{k: part[k] for k in ("part", "tensors", "of", "first")},
            )
            for part in worst.values()
        ]

    def boundary(self, rank: int) -> str | None:
        """The moment that the generators and loader positions of `rank` are from; None where no boundary was seen."""
        where = self.taken[rank]["where"]
        return None if where in (None, AS_FOUND) else str(where)


def manifest(outcome: Outcome) -> dict[str, Any]:
    """Our part of the manifest, with its notes as they are sent; the lowest rank adds what it alone knows."""
    found = outcome.found
    steps = {rank: _first(taken["own_steps"]) for rank, taken in outcome.taken.items()}
    known = [step for step in steps.values() if step is not None]
    notes = list(dict.fromkeys([*outcome.notes, *outcome.inexact]))
    return {
        "format": on_disk.FORMAT,
        "version": on_disk.VERSION,
        "ident": outcome.ident,
        "kind": found.kind,
        "created_s": time.time(),
        "world_size": found.world_size,
        "ranks": sorted(outcome.taken),
        "missing_ranks": list(found.missing),
        "step": max(known) if known else None,
        "steps": {str(rank): step for rank, step in sorted(steps.items())},
        "since_attach": {str(rank): int(taken["step"]) for rank, taken in sorted(outcome.taken.items())},
        "mixed": outcome.unequal.mixed,
        "taken": HUNG if outcome.hung else LOOP_BOUNDARY,
        "exact": not outcome.inexact,
        "not_finite": [str(part) for part in outcome.not_finite],
        "notes": [packed(note) for note in notes],
    }


def result(outcome: Outcome, written: on_disk.Manifest, directory: str, duration_s: float) -> Checkpoint:
    """The result for a checkpoint whose manifest, read again, is `written`."""
    found = outcome.found
    files = [CheckpointFile(name, f.bytes, f.sha256, f.rank) for name, f in sorted(written.files.items())]
    return Checkpoint(
        directory=directory,
        kind=found.kind,
        taken=HUNG if outcome.hung else LOOP_BOUNDARY,
        mixed=outcome.unequal.mixed,
        exact=not outcome.inexact,
        inexact=tuple(map(spoken, outcome.inexact)),
        world_size=found.world_size,
        ranks=tuple(_rank(outcome, rank) for rank in sorted(outcome.taken)),
        missing_ranks=found.missing,
        contents=tuple(_contents(outcome, written)),
        files=tuple(files),
        bytes=sum(f.bytes for f in files),
        duration_s=duration_s,
        notes=tuple(spoken(note) for note in outcome.notes if note not in outcome.inexact),
        verdict=tuple(_findings(outcome)),
        others=tuple(str(other["name"]) for other in written.others),
    )


def _rank(outcome: Outcome, rank: int) -> CheckpointRank:
    taken = outcome.taken[rank]
    counts = [int(step) for step in taken["own_steps"] if step is not None]
    pause: Maybe[float] = NA(text("it made no steps anyway")) if outcome.hung else float(taken["pause_s"])
    return CheckpointRank(
        rank=rank,
        pid=outcome.found.links[rank].pid,
        step=int(taken["step"]),
        steps=tuple(counts) if counts else NA(text("its optimizers keep no count")),
        boundary=outcome.boundary(rank) or NA(text(NOT_SEEN)),
        pause_s=pause,
        written_bytes=int(outcome.reports[rank]["written"]),
    )


def _contents(outcome: Outcome, written: on_disk.Manifest) -> Iterator[str]:
    parts = {"model": written.models, "optimizer": written.optimizers, "scheduler": written.schedulers}
    for name, many in parts.items():
        if many:
            yield name if len(many) == 1 else f"{len(many)} {name}s"
    for other in written.others:
        yield f"{other['name']} ({str(other['class']).rpartition('.')[2]})"
    yield "random generators"
    if any(taken["loaders"] for taken in outcome.taken.values()):
        yield "loader positions"
    if written.actions:
        yield "settings in force"


def _first(steps: Sequence[int | None]) -> int | None:
    return next((int(step) for step in steps if step is not None), None)


def _findings(outcome: Outcome) -> Iterator[Finding]:
    if outcome.unequal.mixed:
        yield Finding(
            code="checkpoint_mixed_steps",
            severity="warning",
            title=text("its ranks may be at different optimizer steps"),
            who=things([str(said_ranks(outcome.taken))]),
            evidence=[spoken(outcome.unequal.why)] if outcome.unequal.why else [],
            cause=text("It was saved all the same, as allow_mixed asks."),
            next_steps=[text("Use it only where no other checkpoint is left; its manifest says that it is mixed.")],
        )
    if outcome.not_finite:
        yield not_finite([spoken(part) for part in outcome.not_finite])
    inexact = [why for why in outcome.inexact if not (outcome.unequal.mixed and why == outcome.unequal.why)]
    if inexact:
        yield Finding(
            code="checkpoint_not_exact",
            severity="warning",
            title=text("a run resumed from it goes on, but not bit-identically"),
            evidence=[spoken(why) for why in inexact],
            cause=_what_is_whole(outcome),
            next_steps=[
                text("Resume from it as from any checkpoint: only what is named above begins anew or differs.")
            ],
        )


def _what_is_whole(outcome: Outcome) -> str:
    rest = text("; what is named above is not in it, or of another moment.")
    if any(answer["optimizers"] for answer in outcome.found.answers.values()):
        return text("Model and optimizer are complete") + rest
    return text("The model is complete") + rest
