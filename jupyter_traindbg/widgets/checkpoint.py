"""An emergency checkpoint: what it would be, then, once that was confirmed, its progress, its result, and how to go on from it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from .. import checkpoints
from ..errors import TraindbgError, UsageError
from ..language import counted, later, later_counted, named, pgettext, text
from ..model import Checkpoint, CheckpointPlan, NotAvailable, StepNumber, Verified
from ..render.clean import clean
from ..render.units import size
from ..render.views.checkpoint import going_on, part_words
from ..render.views.verified import state_words
from ..step_numbers import step_words
from ..words.durations import duration
from ..words.ranks import compact_ranks
from .cards import cards, refusal
from .view import Content, Host, View

__all__ = ["CheckpointView"]

ASK_S = 10.0
SAVE_S = 6 * 3600.0
"""The saving itself ends where no bytes move for a minute; this is only so that a thread cannot wait for ever."""
TELL_EVERY_S = 0.25
VERIFY_AT_ONCE_BYTES = 4 * 1024**3
"""Reading so much again takes seconds; more is verified when somebody asks."""
LONGEST_PATH = 4000
KINDS = {"replicated": later("replicated"), "sharded": later("sharded")}


class CheckpointView(View):
    """Plans a checkpoint, and saves exactly the one that was planned when that is confirmed."""

    name: ClassVar[str] = "checkpoint"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._plans: dict[int, CheckpointPlan] = {}
        self._number = 0
        self._saving = False
        self._told = 0.0
        self._shown: list[dict[str, Any]] = []
        """What a page that comes later has to be told of the last checkpoint."""
        self._made: Checkpoint | None = None

    def received(self, content: Content, buffers: Sequence[memoryview]) -> None:
        do, page = content.get("do"), content.get("from")
        to = page if isinstance(page, str) else None
        if do == "hello":
            self.host.send({"kind": "hello", "directory": suggested(str(getattr(self.host.job, "name", "job")))}, to=to)
            for message in self._shown:
                self.host.send(message, to=to)
        elif do in ("plan", "save", "verify") and self._saving:
            self.host.send(
                {"kind": "invalid", "text": text("a checkpoint is being written"), "next_step": text("wait for it")},
                to=to,
            )
        elif do == "plan":
            self._ask_plan(content.get("directory"), to)
        elif do == "save":
            self._confirmed(content, to)
        elif do == "verify":
            self.host.work(text("verifying the checkpoint"), self._verify, deadline_s=SAVE_S)

    # --- before ----------------------------------------------------------------------------------------------------

    def _ask_plan(self, given: object, to: str | None) -> None:
        directory = given.strip() if isinstance(given, str) else ""
        if not directory or len(directory) > LONGEST_PATH or "\0" in directory:
            self.host.send(
                {
                    "kind": "invalid",
                    "text": text("there is no path to save to"),
                    "next_step": text("name a directory that is not there yet"),
                },
                to=to,
            )
            return
        self.host.work(text("planning a checkpoint"), lambda: self._plan(directory, to), deadline_s=ASK_S * 2)

    def _plan(self, directory: str, to: str | None) -> None:
        try:
            plan: CheckpointPlan = self.host.job.checkpoint_plan(directory, timeout=ASK_S)
        except TraindbgError as e:
            self.host.send({"kind": "refused", **refusal(e)}, to=to)
            return
        self._number += 1
        self._plans = {self._number: plan}
        self.host.send({"kind": "plan", "plan": self._number, **plan_words(plan)}, to=to)

    def _confirmed(self, content: Content, to: str | None) -> None:
        asked = content.get("plan")
        plan = self._plans.pop(asked, None) if isinstance(asked, int) else None
        if plan is None:
            self.host.send(
                {"kind": "invalid", "text": text("this plan is an old one"), "next_step": text("look at it anew")},
                to=to,
            )
            return
        overwrite, mixed = content.get("overwrite") is True, content.get("allow_mixed") is True
        self._saving = True
        self._tell_all(
            {
                "kind": "progress",
                "written": 0,
                "total": plan.bytes,
                "words": text("waiting for the boundary between two steps"),
            }
        )
        self.host.work(text("saving a checkpoint"), lambda: self._save(plan, overwrite, mixed), deadline_s=SAVE_S)

    # --- doing it --------------------------------------------------------------------------------------------------

    def _save(self, plan: CheckpointPlan, overwrite: bool, mixed: bool) -> None:
        try:
            made: Checkpoint = self.host.job.checkpoint(
                plan.directory, overwrite=overwrite, allow_mixed=mixed, timeout=ASK_S, progress=self._progress
            )
        except TraindbgError as e:
            self._tell_all({"kind": "refused", **refusal(e)})
            return
        except BaseException:
            self._shown = []
            raise
        finally:
            self._saving = False
        self._made = made
        self._tell_all({"kind": "saved", **saved_words(made), "verifying": made.bytes <= VERIFY_AT_ONCE_BYTES})
        if made.bytes <= VERIFY_AT_ONCE_BYTES:
            self._verify()

    def _progress(self, written: int, total: int) -> None:
        now = time.monotonic()
        if now - self._told >= TELL_EVERY_S or written >= total:
            self._told = now
            words = text(
                "{written} of {total} written; the training goes on meanwhile", written=size(written), total=size(total)
            )
            self._tell_all({"kind": "progress", "written": written, "total": total, "words": words})

    def _verify(self) -> None:
        made = self._made
        if made is None:
            raise UsageError(text("there is no checkpoint to verify yet"), text("save one first"))
        try:
            told = verified_words(checkpoints.verify(made.directory))
        except (
            TraindbgError
        ) as e:  # on another host, or taken away meanwhile: the checkpoint itself was checked when it was written
            told = {
                "good": None,
                "words": clean(text("it could not be read from here: {cause}", cause=e.cause)),
                "files": [],
            }
        self._shown = [message for message in self._shown if message["kind"] != "verified"]
        self._shown.append({"kind": "verified", **told})
        self.host.send(self._shown[-1])

    def _tell_all(self, message: dict[str, Any]) -> None:
        self._shown = [message]
        self.host.send(message)


def suggested(job: str) -> str:
    """A directory that is not there yet, beside the notebook; absolute, so that what is confirmed is what is meant."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", job).strip("-")[:40] or "job"
    return os.path.abspath(f"checkpoint-{name}-{time.strftime('%Y%m%d-%H%M%S')}")


# --- in words ------------------------------------------------------------------------------------------------------------


def plan_words(plan: CheckpointPlan) -> dict[str, Any]:
    """What is to be confirmed: the facts as pairs, what will happen as sentences, and what forbids it."""
    against = list(_against(plan))
    free = plan.free_bytes.reason if isinstance(plan.free_bytes, NotAvailable) else size(plan.free_bytes)
    if isinstance(plan.pause_s, NotAvailable):
        pause = text("none: {reasons}", reasons=plan.pause_s.reason)
    else:
        pause = text(
            "about {pause}: one copy of the state in memory; it is written while the training goes on",
            pause=duration(plan.pause_s),
        )
    ranks = text("{ranks} of {world_size}", ranks=compact_ranks(plan.ranks), world_size=plan.world_size)
    if plan.step is not None:
        ranks += text(", now at {step}", step=step_words(StepNumber(None, plan.step)))
    facts = [
        (text("path"), plan.directory),
        (text("size"), f"{size(plan.bytes)} ({named(KINDS, plan.kind)})"),
        (text("free there"), free),
        (text("pause of the training"), pause),
        (text("ranks"), ranks),
    ]
    return {
        "directory": clean(plan.directory),
        "facts": [[name, clean(words)] for name, words in facts],
        "lines": [clean(line) for line in _will_happen(plan)],
        "against": [clean(line) for line in against],
        "replace": plan.there in ("checkpoint", "empty directory"),
    }


def _will_happen(plan: CheckpointPlan) -> Iterator[str]:
    if plan.still:
        yield text(
            "{ranks} made no step for a while: the job is saved as it stands now.", ranks=compact_ranks(plan.still)
        )
    elif len(plan.ranks) > 1:
        yield text("All ranks are saved at the boundary after one and the same step.")
    else:
        yield text("It is taken at the next boundary between two steps.")
    if plan.missing:
        yield text(
            "{ranks} cannot be asked: their random generators and loader positions will not be in it.",
            ranks=compact_ranks(plan.missing),
        )
    if plan.there == "checkpoint":
        yield text("The checkpoint that is there is replaced once the new one is complete.")
    elif plan.there == "empty directory":
        yield text("The empty directory that is there becomes the checkpoint.")
    if plan.note:
        yield plan.note
    yield text("Nothing else changes. Where anything fails, nothing is left of the attempt.")


def _against(plan: CheckpointPlan) -> Iterator[str]:
    if isinstance(plan.free_bytes, NotAvailable):
        yield text("{reason}; make the directory above it, or choose another path", reason=plan.free_bytes.reason)
    elif plan.free_bytes < plan.needed_bytes:
        yield text(
            "not enough space: {needed} needed, {free} free; make room, or choose another path",
            needed=size(plan.needed_bytes),
            free=size(plan.free_bytes),
        )
    if plan.there == "something else":
        yield text("what is there is no checkpoint of ours and will not be replaced; choose another path")


def saved_words(made: Checkpoint) -> dict[str, Any]:
    pauses = [r.pause_s for r in made.ranks if not isinstance(r.pause_s, NotAvailable)]
    pause = (
        text("the training stood still for {pause} at most", pause=duration(max(pauses)))
        if pauses
        else text("none: the job stood still anyway")
    )
    steps = sorted({step for r in made.ranks if not isinstance(r.steps, NotAvailable) for step in r.steps})
    at = text("after step {steps}", steps=", ".join(f"{step:,}" for step in steps)) if steps else made.taken
    if made.exact:
        exact = text("yes: a run resumed from it is bit-identical to this one")
    else:
        exact = text("no: {why}", why=text("; ").join(made.inexact))
    written = counted(
        "{size} in {n:,} file, written in {duration}",
        "{size} in {n:,} files, written in {duration}",
        len(made.files),
        size=size(made.bytes),
        duration=duration(made.duration_s),
    )
    facts = [
        (text("path"), made.directory),
        (text("size"), written),
        (text("taken"), at + text(", ") + compact_ranks([r.rank for r in made.ranks])),
        (text("in it"), pgettext("list", ", ").join(map(part_words, made.contents))),
        (text("exact"), exact),
        (text("pause"), pause),
    ]
    return {
        "directory": clean(made.directory),
        "facts": [[name, clean(words)] for name, words in facts],
        "notes": [clean(note) for note in made.notes],
        "code": [{"what": what, "code": clean(code)} for what, code in going_on(made)],
        "cards": cards(made.verdict),
    }


def verified_words(found: Verified) -> dict[str, Any]:
    good = sum(f.state == "good" for f in found.files)
    bad = [
        f"{f.name}{text(': ')}{state_words(f)}{f' ({f.note})' if f.note else ''}"
        for f in found.files
        if f.state not in ("good", "extra")
    ]
    read = text("{size} read again in {duration}", size=size(found.bytes_read), duration=duration(found.taken_s))
    said, n = later_counted("verified: {n:,} file as written, {read}", "verified: {n:,} files as written, {read}"), good
    if not found.good:
        said, n = later_counted("damaged: {n:,} file, {read}", "damaged: {n:,} files, {read}"), len(bad)
    words = counted(*said, n, read=read)
    return {"good": found.good, "words": words, "files": [clean(line) for line in bad], "cards": cards(found.verdict)}
