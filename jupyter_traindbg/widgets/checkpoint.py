"""An emergency checkpoint: what it would be, then, once that was confirmed, its progress, its result, and how to go on from it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from .. import checkpoints
from ..errors import TraindbgError, UsageError
from ..language import text
from ..model import Checkpoint, CheckpointPlan, NotAvailable, StepNumber, Verified
from ..render.clean import clean
from ..render.units import plural, size
from ..render.views.checkpoint import going_on
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
                {"kind": "invalid", "text": "a checkpoint is being written", "next_step": "wait for it"}, to=to
            )
        elif do == "plan":
            self._ask_plan(content.get("directory"), to)
        elif do == "save":
            self._confirmed(content, to)
        elif do == "verify":
            self.host.work("verifying the checkpoint", self._verify, deadline_s=SAVE_S)

    # --- before ----------------------------------------------------------------------------------------------------

    def _ask_plan(self, given: object, to: str | None) -> None:
        directory = given.strip() if isinstance(given, str) else ""
        if not directory or len(directory) > LONGEST_PATH or "\0" in directory:
            self.host.send(
                {
                    "kind": "invalid",
                    "text": "there is no path to save to",
                    "next_step": "name a directory that is not there yet",
                },
                to=to,
            )
            return
        self.host.work("planning a checkpoint", lambda: self._plan(directory, to), deadline_s=ASK_S * 2)

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
                {"kind": "invalid", "text": "this plan is an old one", "next_step": "look at it anew"}, to=to
            )
            return
        overwrite, mixed = content.get("overwrite") is True, content.get("allow_mixed") is True
        self._saving = True
        self._tell_all(
            {
                "kind": "progress",
                "written": 0,
                "total": plan.bytes,
                "words": "waiting for the boundary between two steps",
            }
        )
        self.host.work("saving a checkpoint", lambda: self._save(plan, overwrite, mixed), deadline_s=SAVE_S)

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
            words = f"{size(written)} of {size(total)} written; the training goes on meanwhile"
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
            told = {"good": None, "words": clean(f"it could not be read from here: {e.cause}"), "files": []}
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
        pause = f"none: {plan.pause_s.reason}"
    else:
        pause = (
            f"about {duration(plan.pause_s)}: one copy of the state in memory; it is written while the training goes on"
        )
    step = "" if plan.step is None else f", now at {step_words(StepNumber(None, plan.step))}"
    facts = [
        ("path", plan.directory),
        ("size", f"{size(plan.bytes)} ({plan.kind})"),
        ("free there", free),
        ("pause of the training", pause),
        ("ranks", f"{compact_ranks(plan.ranks)} of {plan.world_size}{step}"),
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
        yield f"{compact_ranks(plan.still)} made no step for a while: the job is saved as it stands now."
    elif len(plan.ranks) > 1:
        yield "All ranks are saved at the boundary after one and the same step."
    else:
        yield "It is taken at the next boundary between two steps."
    if plan.missing:
        yield f"{compact_ranks(plan.missing)} cannot be asked: their random generators and loader positions will not be in it."
    if plan.there == "checkpoint":
        yield "The checkpoint that is there is replaced once the new one is complete."
    elif plan.there == "empty directory":
        yield "The empty directory that is there becomes the checkpoint."
    if plan.note:
        yield plan.note
    yield "Nothing else changes. Where anything fails, nothing is left of the attempt."


def _against(plan: CheckpointPlan) -> Iterator[str]:
    if isinstance(plan.free_bytes, NotAvailable):
        yield f"{plan.free_bytes.reason}; make the directory above it, or choose another path"
    elif plan.free_bytes < plan.needed_bytes:
        yield f"not enough space: {size(plan.needed_bytes)} needed, {size(plan.free_bytes)} free; make room, or choose another path"
    if plan.there == "something else":
        yield "what is there is no checkpoint of ours and will not be replaced; choose another path"


def saved_words(made: Checkpoint) -> dict[str, Any]:
    pauses = [r.pause_s for r in made.ranks if not isinstance(r.pause_s, NotAvailable)]
    pause = (
        f"the training stood still for {duration(max(pauses))} at most"
        if pauses
        else "none: the job stood still anyway"
    )
    steps = sorted({step for r in made.ranks if not isinstance(r.steps, NotAvailable) for step in r.steps})
    at = f"after step {', '.join(f'{step:,}' for step in steps)}" if steps else made.taken
    exact = "a run resumed from it is bit-identical to this one" if made.exact else "; ".join(made.inexact)
    facts = [
        ("path", made.directory),
        ("size", f"{size(made.bytes)} in {plural(len(made.files), 'file')}, written in {duration(made.duration_s)}"),
        ("taken", f"{at}, {compact_ranks([r.rank for r in made.ranks])}"),
        ("in it", ", ".join(made.contents)),
        ("exact", f"{'yes' if made.exact else 'no'}: {exact}"),
        ("pause", pause),
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
        f"{f.name}: {f.state}{f' ({f.note})' if f.note else ''}"
        for f in found.files
        if f.state not in ("good", "extra")
    ]
    read = f"{size(found.bytes_read)} read again in {duration(found.taken_s)}"
    words = (
        f"verified: {plural(good, 'file')} as written, {read}"
        if found.good
        else f"damaged: {plural(len(bad), 'file')}, {read}"
    )
    return {"good": found.good, "words": words, "files": [clean(line) for line in bad], "cards": cards(found.verdict)}
