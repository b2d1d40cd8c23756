"""A checkpoint of a running or hung job, coordinated from here: every rank writes its part, and only what is complete gets its name.

We are the coordinator because in a hung job nobody else can be: no collective is used and no rank waits for another. A job that makes
steps is saved at one boundary between two iterations, the same on all ranks; one that does not, as it stands. Whatever fails, all ranks
drop what they have, and a checkpoint that was there before stays as it is.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...agent.saying import Said, said
from ...attach.base import Link
from ...checkpoints import manifest as on_disk
from ...errors import ActionRefused, BadCheckpoint, DeadlineExceeded, TargetGone, TraindbgError
from ...language import later, text
from ...model import Checkpoint
from ...words.ranks import ranks_words
from . import boundary, ranks
from . import manifest as manifests
from . import place as places

__all__ = ["Progress", "save"]

Progress = Callable[[int, int], None]
"""Called now and then with the bytes written and the bytes in all."""

STALL_S = 60.0
"""Nothing written for so long: the disk or the process hangs."""
FLUSH_S = 600.0
"""The same once all is written: what the kernel has buffered goes to the disk, and that moves no counter."""
POLL_S = 0.02, 0.5
ABORT_S = 5.0
WENT_ON = said("it made no steps when asked, and then went on")
STOPPED = said("it made steps when asked, and then none")
OWN_DATA = said(
    "no DataLoader was seen: where the program stands in its data is for the program itself to find again, by its step count"
)
AS_BEFORE = later("no checkpoint was made, and what was there before is as it was")


def save(
    links: Sequence[Link],
    directory: str,
    *,
    overwrite: bool = False,
    allow_mixed: bool = False,
    timeout: float = 10.0,
    progress: Progress | None = None,
) -> Checkpoint:
    """Write a checkpoint of the job behind `links` to `directory`, which is ours to make; with `overwrite` it may exist.

    The training stands still for one copy of its state in memory (about 0.1 s for 1.2 GB), or not at all where it is hung; writing goes on
    beside it. `timeout` seconds bound every step but the writing, which goes on as long as bytes move. Raises `ActionRefused` where it
    cannot be done, naming the rank, and whichever `TraindbgError` ended it; then nothing is left of it.
    """
    began = time.monotonic()
    found = ranks.survey(links, timeout)
    ranks.refuse(found)
    place = places.find(directory, found.links)
    going, found = boundary.watch(found, timeout)
    notes = [place.note] if place.note else []

    def attempt() -> Checkpoint:
        part = found.alone() if going and found.missing else found
        try:
            return _Attempt(part, place, timeout, progress, hung=not going).run(began, overwrite, allow_mixed, notes)
        except places.NotShared as e:
            if part.kind == "sharded":
                raise
            notes.append(
                said(
                    "{why}; all ranks have the same weights, and those of rank {lowest} were written",
                    why=e.why,
                    lowest=part.lowest,
                )
            )
            alone = _Attempt(part.alone(unshared=True), place, timeout, progress, hung=not going)
            return alone.run(began, overwrite, allow_mixed, notes)

    try:
        return attempt()
    except ActionRefused as e:
        was = going
        going, found = _look_again(links, timeout, e)
        if going == was and not isinstance(e, boundary.NoStep):
            raise
    ranks.refuse(found)
    if going != was:
        notes.append(WENT_ON if going else STOPPED)
    return attempt()


def _look_again(links: Sequence[Link], timeout: float, refused: ActionRefused) -> tuple[bool, ranks.Survey]:
    """Whether the job makes steps now: where that has changed, another try is worth it. Raises `refused` where nobody tells."""
    try:
        return boundary.watch(ranks.survey(links, timeout), timeout)
    except TraindbgError:
        raise refused from None


class _Attempt:
    """One try, with an id of its own. Done as a whole or undone."""

    def __init__(
        self,
        found: ranks.Survey,
        place: places.Place,
        timeout: float,
        progress: Progress | None,
        *,
        hung: bool,
    ) -> None:
        self.found, self.place, self.timeout, self.hung = found, place, timeout, hung
        self.ident = uuid.uuid4().hex[:12]
        self._directory = {"directory": place.directory}
        self._progress = progress or (lambda written, total: None)

    def run(self, began: float, overwrite: bool, allow_mixed: bool, notes: Sequence[Said]) -> Checkpoint:
        if self.hung:
            _refuse_updating(self.found)
            ranks.refuse_unequal_steps(self.found, self.found.answers, allow=allow_mixed)
        try:
            self._ask_lowest("begin", self.timeout, bytes=self.found.bytes, overwrite=overwrite, **self._directory)
            self.place.check_shared(self.ident, self.found.links)
            taken = self._take() if self.hung else self._snapshot()
            unequal = ranks.refuse_unequal_steps(self.found, taken, allow=allow_mixed, agreed=not self.hung)
            reports = self._write(self._plans() if self.found.kind == "sharded" else {})
            if not any(answer["loaders"] for answer in taken.values()):
                notes = [*notes, OWN_DATA]
            outcome = manifests.Outcome(self.ident, self.found, taken, reports, self.hung, unequal, tuple(notes))
            self._commit(manifests.manifest(outcome), reports)
        except BaseException as e:
            left = self._abort()
            if left and isinstance(e, TraindbgError):
                e.next_step = text("; ").join((left, e.next_step))
            raise
        return manifests.result(outcome, self._verified(), self.place.directory, time.monotonic() - began)

    # --- what the ranks are asked ----------------------------------------------------------------------------------

    def _ask_lowest(self, do: str, deadline_s: float, **params: Any) -> Any:
        only = {self.found.lowest: self.found.links[self.found.lowest]}
        return self._each(do, deadline_s, lambda rank: params, only)[self.found.lowest]

    def _each(
        self,
        do: str,
        deadline_s: float,
        params: Callable[[int], Mapping[str, Any]] = lambda rank: {},
        links: Mapping[int, Link] | None = None,
    ) -> dict[int, Any]:
        """The answers of all ranks (or of `links`); the error of those that gave none is raised with their names."""
        links = self.found.links if links is None else links
        answers, errors = ranks.ask(links, lambda rank: {"do": do, "ident": self.ident, **params(rank)}, deadline_s)
        if errors:
            raise ranks.blame(errors)
        return answers

    def _part(self, rank: int) -> dict[str, Any]:
        """What `rank` saves, and where: of a replicated job the lowest has the weights."""
        return {**self._directory, "weights": self.found.kind == "sharded" or rank == self.found.lowest}

    def _snapshot(self) -> dict[int, Any]:
        return boundary.snapshot(self.found, self.ident, self._part, self.timeout)

    def _take(self) -> dict[int, Any]:
        return self._each("take", self.timeout, self._part)

    def _plans(self) -> dict[int, Any]:
        local = {rank: answer["plan"] for rank, answer in self._each("plan", self.timeout).items()}
        merged = self._ask_lowest("merge", self.timeout, plans=local)["plans"]
        return {int(rank): plan for rank, plan in merged.items()}

    def _write(self, plans: Mapping[int, Any]) -> dict[int, dict[str, Any]]:
        """Have all ranks write, and wait for the last one as long as bytes move. The last report of each rank."""
        self._each("write", self.timeout, lambda rank: {"plan": plans.get(rank)})
        reports: dict[int, dict[str, Any]] = {}
        moved, written, pause = time.monotonic(), -1, POLL_S[0]
        while not (len(reports) == len(self.found.links) and all(r["done"] for r in reports.values())):
            time.sleep(pause)
            pause = min(POLL_S[1], pause * 1.5)
            reports.update(self._reports())
            now = sum(int(r["written"]) for r in reports.values())
            total = sum(int(r["total"]) for r in reports.values())
            self._progress(now, total)
            if now > written:
                moved, written = time.monotonic(), now
            elif time.monotonic() - moved > (FLUSH_S if now >= total else STALL_S):
                late = [rank for rank in self.found.links if rank not in reports or not reports[rank]["done"]]
                raise DeadlineExceeded(
                    text(
                        "{ranks} wrote nothing for {seconds:.0f} s ({now:,} of {total:,} bytes)",
                        ranks=ranks_words(late),
                        seconds=time.monotonic() - moved,
                        now=now,
                        total=total,
                    ),
                    text(
                        "no checkpoint was made, and what was there before is as it was; see whether the file system of "
                        "{directory} hangs",
                        directory=self.place.directory,
                    ),
                )
        return reports

    def _reports(self) -> dict[int, dict[str, Any]]:
        """What the ranks say of their writing, the finished ones too: who hears nothing from us for a minute takes us for dead."""
        answers, errors = ranks.ask(
            self.found.links, lambda rank: {"do": "progress", "ident": self.ident}, max(self.timeout, 5.0)
        )
        for rank, error in errors.items():
            if not isinstance(error, DeadlineExceeded):  # one that is slow to answer may write on: the stall decides
                raise type(error)(text("rank {rank}: {cause}", rank=rank, cause=error.cause), text(AS_BEFORE))
        for rank, report in answers.items():
            if report["error"]:
                raise ActionRefused(
                    text("rank {rank} could not write: {error}", rank=rank, error=report["error"]), text(AS_BEFORE)
                )
        return answers

    def _commit(self, manifest: dict[str, Any], reports: Mapping[int, dict[str, Any]]) -> None:
        files = {name: facts for report in reports.values() for name, facts in report["files"].items()}
        results = {rank: report["results"] for rank, report in reports.items()}
        try:
            self._ask_lowest("commit", max(self.timeout, STALL_S), manifest=manifest, files=files, results=results)
        except (DeadlineExceeded, TargetGone):
            if not self._is_there():  # else it was done, and only the answer was lost
                raise
        self._tell("abort")  # the other ranks have nothing left to do, and nothing left there to remove

    def _is_there(self) -> bool:
        try:
            return self.place.manifest().ident == self.ident
        except TraindbgError:
            return False

    def _tell(self, do: str) -> None:
        """Say it to all ranks. One that does not hear it comes to the same by itself, a minute later."""
        ranks.ask(self.found.links, lambda rank: {"do": do, "ident": self.ident}, min(self.timeout, ABORT_S))

    def _abort(self) -> str:
        """Have every rank drop what it has; what could not be removed, in words."""
        self._tell("abort")
        return self.place.sweep(self.ident)

    def _verified(self) -> on_disk.Manifest:
        """The manifest as it lies there now, its seal and the sizes of its files checked."""
        manifest = self.place.manifest()
        sizes = self.place.sizes(list(manifest.files))
        wrong = [name for name, written in manifest.files.items() if sizes[name] != written.bytes]
        if wrong or not manifest.sealed:
            name = wrong[0] if wrong else on_disk.NAME
            raise BadCheckpoint(
                text(
                    "{name} in {directory} is not what was written a moment ago",
                    name=name,
                    directory=self.place.directory,
                )
            )
        return manifest


def _refuse_updating(found: ranks.Survey) -> None:
    inside = [rank for rank, answer in found.answers.items() if answer["updating"]]
    if inside:
        raise ActionRefused(
            text(
                "{ranks} stands in the middle of optimizer.step(): its parameters do not belong together",
                ranks=ranks_words(inside),
            ),
            text(
                "nothing was written; `traindbg stacks` shows where it stands; if it still moves, try again in a moment"
            ),
        )
