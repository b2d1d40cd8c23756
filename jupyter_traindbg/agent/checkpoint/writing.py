"""One checkpoint being written by this rank: taken (a snapshot at a boundary, or a hung job's live tensors), written, committed."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple, TypeVar, cast

from .. import cuda
from ..gpu_steps import STEPS
from ..refused import Refused
from ..safepoint import NEXT_BATCH
from ..saying import Said, Text, packed, said, unpacked
from . import archive, files, reading, seal, shards
from .arena import Arena
from .collect import SHARDED, Contents, Found, collect, describe, described_others, own_steps, place
from .finite import Finite
from .layout import Layout
from .named import statistics_kept
from .survey import NO_TORCH, NOTHING, unsupported

if TYPE_CHECKING:
    from ..core import Agent

SILENT_S = 60.0
"""A rank that hears nothing from the client for so long gives the checkpoint up."""
DONE_SILENT_S = 900.0
"""A rank that is done waits longer: the client may be busy with the others."""
JOIN_S = 5.0
GPU_UNSEEN = said(
    "the GPU had not done all that it was given, and no step was seen before: the weights may be older than the counters"
)
MID_STEP = said("wait until the step is over; if it never is, no consistent state is left to save")


Stage = TypeVar("Stage", bound=Callable[..., Any])


class Stopped(Exception):
    """The checkpoint was given up while it was being written."""


def attended(stage: Stage) -> Stage:
    """A client waits for `stage`: however long it takes, that is no silence."""

    @functools.wraps(stage)
    def run(writing: Any, *args: Any, **kwargs: Any) -> Any:
        writing.waiting += 1
        try:
            return stage(writing, *args, **kwargs)
        finally:
            writing.heard()
            writing.waiting -= 1

    return cast(Stage, run)


class Writing:
    """The state of one checkpoint on this rank. Its methods are called by clients' threads, `_snapshot` by the training thread."""

    def __init__(self, agent: Agent, ident: str, directory: str, arena: Arena) -> None:
        self.ident, self.directory = ident, directory
        self.temporary = files.partial(directory, ident)
        self._agent, self._arena = agent, arena
        self._made: Optional[str] = None
        self._leads = self._overwrite = False
        self._weights = self._hung = False
        self.found: Optional[Found] = None
        self._kind = ""
        self._contents: Optional[Contents] = None
        self._layout: Optional[Layout] = None
        self._manifest: Dict[str, Any] = {}
        self._notes: List[Said] = []
        self._arrivals: List[Any] = []
        self._before: Any = None
        self._plans: Dict[str, Any] = {}
        self._thread: Optional[threading.Thread] = None
        self._stop = False
        self._done = threading.Event()
        self._written = self._total = 0
        self._error: Optional[Text] = None
        self._results: Any = None
        self._files: Dict[str, Dict[str, Any]] = {}
        self._finite: Optional[Finite] = None
        self._heard_s = time.monotonic()
        self.waiting = 0
        """Clients that wait for an answer about this checkpoint."""

    # -- asked by the client --

    def heard(self) -> None:
        """The client has said something about this checkpoint."""
        self._heard_s = time.monotonic()

    @property
    def silent_s(self) -> float:
        return 0.0 if self.waiting else time.monotonic() - self._heard_s

    @property
    def given_up(self) -> bool:
        """True where the client has been silent for too long."""
        waits = self._done.is_set() and self._error is None and not self._leads
        return self.silent_s > (DONE_SILENT_S if waits else SILENT_S)

    @attended
    def begin(self, nbytes: int, *, overwrite: bool) -> Dict[str, Any]:
        """Make the temporary directory, where there is nothing against it."""
        self._leads, self._overwrite = True, overwrite
        self._made = files.prepare(self.directory, self.ident, nbytes, overwrite=overwrite)
        return {"temporary": self._made}

    @attended
    def prepare(self, after_step: int, decision: Optional[str], *, weights: bool) -> Dict[str, Any]:
        """Get the memory and have the snapshot taken at the first boundary after `after_step` steps."""
        self._find()
        self._weights = weights
        layout = self._with_room()
        self._agent.agreed.prepare(self.ident, after_step, decision, self._snapshot)
        return {"bytes": layout.nbytes}

    def _with_room(self) -> Layout:
        """Get the memory for a snapshot: for all, else at least for model and optimizer. What is to be copied."""
        assert self.found is not None
        layout = Layout(self._collect(self._agent.boundary.for_checkpoint()).tensors())
        try:
            self._arena.ensure(layout.host_bytes, pin=bool(layout.devices()))
        except Refused as e:
            if not self.found.others.give_up(e.cause):
                raise
            return self._with_room()
        return layout

    @attended
    def take(self, *, weights: bool) -> Dict[str, Any]:
        """Take a job that hangs as it is: nothing is copied, the write reads the live tensors. Refused inside an optimizer's step."""
        if self._agent.boundary.updating():
            raise Refused(
                said("the job is in the middle of an optimizer step: its parameters do not belong together"), MID_STEP
            )
        self._find()
        self._weights, self._hung = weights, True
        behind = self._behind()
        self._before = self._now()
        boundary = self._agent.boundary.for_checkpoint()
        boundary["notes"] += behind
        self._contents = self._collect(boundary)
        self._layout = Layout(self._contents.tensors())
        self._describe(boundary, self._contents)
        if self._now() != self._before or self._agent.boundary.updating():
            raise Refused(
                said("the job went on while it was being looked at: it does not hang"), said("save it at a boundary")
            )
        return self._answer(boundary)

    @attended
    def outcome(self, wait_s: float) -> Dict[str, Any]:
        """What became of the snapshot: `Agreed.outcome`."""
        outcome = self._agent.agreed.outcome(self.ident, wait_s)
        if outcome["done"]:
            for start, arrived in self._arrivals:
                reading.wait_for(arrived)
                # the copies go on after the training thread has gone on: the GPU's pause is theirs
                outcome["value"]["pause_s"] = max(outcome["value"]["pause_s"], start.elapsed_time(arrived) / 1e3)
        return outcome

    def cancel(self) -> Dict[str, Any]:
        """The step that was agreed on is off; another one will be."""
        self._agent.agreed.abort(self.ident)
        return {}

    @attended
    def plan(self) -> Any:
        """This rank's part of a sharded checkpoint: what it could write, JSON-ready."""
        contents, layout = self._taken()
        return shards.local_plan(contents.flat, layout)

    @attended
    def merge(self, plans: Dict[str, Any]) -> Dict[str, Any]:
        """Decide which rank writes what. Raises `Refused` where parts are missing."""
        self._plans = shards.merge(plans)
        return {"plans": self._plans}

    def write(self, plan: Any) -> Dict[str, Any]:
        """Begin to write, on a thread of its own."""
        if self._thread is not None:
            raise Refused(said("it is being written already"), said("ask for its progress"))
        contents, layout = self._taken()
        if self._kind == SHARDED and plan is None:
            raise Refused(
                said("a sharded checkpoint is written after a plan"), said("ask for `plan` and `merge` first")
            )
        self._total = layout.nbytes if plan is None else shards.nbytes(plan)
        self._thread = threading.Thread(
            target=self._run, args=(contents, layout, plan), name="traindbg-checkpoint", daemon=True
        )
        self._thread.start()
        return {"total": self._total}

    def progress(self) -> Dict[str, Any]:
        """``written`` and ``total`` bytes, whether it is ``done``, the ``error`` in words, the ``files`` that are complete.

        Once it is done: what of it is ``not_finite``, see `Finite.found`.
        """
        done = self._done.is_set()
        return {
            "written": self._written,
            "total": max(self._total, self._written),
            "done": done,
            "error": self._error,
            "files": {name: dict(f) for name, f in list(self._files.items())},
            "results": self._results if done else None,
            "not_finite": self._finite.found() if done and self._finite is not None else [],
        }

    @attended
    def commit(
        self, manifest: Dict[str, Any], written: Dict[str, Dict[str, Any]], results: Dict[str, Any]
    ) -> Dict[str, Any]:
        """The last rank is done: write what belongs to all, the manifest last, and give the directory its name."""
        if self._made is None:
            raise Refused(said("this rank has not begun the checkpoint"), said("ask the lowest rank"))
        all_files = {name: dict(entry) for name, entry in written.items()}
        try:
            if self._plans:
                all_files[shards.METADATA] = self._put(shards.METADATA, shards.metadata(self._plans, results))
            self._check_files(all_files)
            content = {**self._manifest, **manifest, "files": all_files}
            told = [
                unpacked(note) for note in manifest.get("notes", ())
            ]  # ours among them, with the ranks that they are of
            own = [note for note in self._notes if not any(str(text).endswith(str(note)) for text in told)]
            notes = list(dict.fromkeys([*own, *told]))
            content.update(notes=[str(note) for note in notes], said=[packed(note) for note in notes])
            self._put(files.MANIFEST, seal.file_bytes(content))
            files.finish(self._made, self.directory, overwrite=self._overwrite)
        except OSError as e:
            words = files.space_words(self._made, e, self._total)
            raise Refused(words, said("nothing was replaced; make room or choose another directory")) from e
        self._made = None
        return {"directory": self.directory, "bytes": sum(int(f["bytes"]) for f in all_files.values())}

    def abort(self) -> bool:
        """Stop, and remove what was made. True where nothing of ours runs any more; memory is given back with the last piece."""
        self._stop = True
        self._agent.agreed.abort(self.ident)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(JOIN_S)
        ended = thread is None or not thread.is_alive()
        if ended:
            self._remove()
            self._forget()
        return ended

    # -- on the training thread --

    def _snapshot(self) -> Dict[str, Any]:
        began = time.perf_counter()
        if self._stop:
            raise Stopped
        if cuda.capturing():
            raise Refused(
                said("the training captures a CUDA graph at this very step"), said("try again: the next one will do")
            )
        boundary = self._agent.boundary.for_checkpoint()
        contents = self._collect(boundary)
        layout = Layout(contents.tensors())
        clocks = [(device, _clock(device)) for device in layout.devices() if device.type == "cuda"]
        layout.copy_into(self._arena)
        self._arrivals = [(start, _clock(device)) for device, start in clocks]
        self._describe(boundary, contents)
        self._contents, self._layout = contents, layout
        answer = self._answer(boundary)
        answer["pause_s"] = time.perf_counter() - began
        return answer

    # -- on a thread of our own --

    def _run(self, contents: Contents, layout: Layout, plan: Any) -> None:
        path = self.temporary
        cuda.stand_aside()
        try:
            for _, arrived in self._arrivals:
                reading.wait_for(arrived)
            self._to_numbers(contents, layout)
            self._finite = Finite(contents.by_part(), layout)
            if plan is not None:
                self._results = self._write_shards(plan, contents, layout)
            for name, tree in contents.files.items():
                path = os.path.join(self.temporary, name)
                self._files[name] = self._write_file(name, tree, layout)
            if self._hung:
                self._check_unchanged()
        except Stopped:
            self._error = said("given up")
        except OSError as e:
            self._error = files.space_words(path, e, self._total)
        except Refused as e:
            self._error = e.cause
        except Exception as e:  # whatever it is, it is the checkpoint's and not the training's
            self._error = f"{type(e).__name__}: {e}"
        finally:
            del contents, layout
            if self._error is not None:
                self._remove()
            self._forget()
            self._done.set()

    def _write_file(self, name: str, tree: Any, layout: Layout) -> Dict[str, Any]:
        def write(file: Any) -> Dict[str, Any]:
            output = archive.Output(file, self._advance)
            archive.write(output, tree, layout, self._pieces)
            return {"bytes": output.offset, "sha256": output.sha256, "rank": _rank()}

        return dict(files.written(os.path.join(self.temporary, name), write))

    def _write_shards(self, plan: Any, contents: Contents, layout: Layout) -> Any:
        def write(file: Any) -> Any:
            output = archive.Output(file, self._advance)
            results = shards.write(output, plan, contents.flat, layout, self._pieces)
            self._files[name] = {"bytes": output.offset, "sha256": output.sha256, "rank": _rank()}
            return results

        name = shards.file_name(_rank())
        return files.written(os.path.join(self.temporary, name), write)

    @property
    def _pieces(self) -> archive.Pieces:
        pieces = reading.from_live if self._hung else reading.from_snapshot
        return pieces if self._finite is None else self._finite.watched(pieces)

    def _advance(self, nbytes: int) -> None:
        """Called before each piece is written."""
        if self._stop or self.given_up:
            raise Stopped
        self._written += nbytes

    def _to_numbers(self, contents: Contents, layout: Layout) -> None:
        for holder, key in contents.numbers:
            leaf = layout.leaves[id(holder[key])]
            value = reading.fetched(leaf.tensor) if self._hung else reading.typed(leaf.store)[leaf.offset]
            holder[key] = value.item()

    # -- shared --

    def _find(self) -> None:
        if "torch" not in sys.modules:
            raise Refused(NO_TORCH, said("there is nothing to save"))
        self.found = Found(self._agent)
        if not self.found.models and not self.found.optimizers:
            raise Refused(NOTHING, said("wait until the training has begun"))
        why = unsupported(self._agent, self.found)
        if why is not None:
            raise Refused(why, said("save it with the job's own code"))
        self._kind = self.found.kind

    def _collect(self, boundary: Dict[str, Any]) -> Contents:
        assert self.found is not None
        contents = collect(self._agent, self.found, kind=self._kind, weights=self._weights, boundary=boundary)
        if self._kind == SHARDED and not self._leads:
            # every rank has weights to write, and one of them writes these
            for name in ["training.pt", *(other["file"] for other in described_others(self.found))]:
                contents.files.pop(name, None)
            contents.numbers.clear()
        return contents

    def _taken(self) -> Tuple[Contents, Layout]:
        if self._contents is None or self._layout is None:
            raise Refused(said("nothing has been taken yet"), said("ask for `outcome` first"))
        return self._contents, self._layout

    def _answer(self, boundary: Dict[str, Any]) -> Dict[str, Any]:
        assert self.found is not None
        return {
            "pause_s": 0.0,
            "step": self._agent.recorder.step,
            "own_steps": own_steps(self._agent, self.found),
            "where": boundary["where"],
            "loaders": len(boundary["loaders"]),
            "notes": [packed(note) for note in self._notes],
            "others": self.found.others.digests() if place()[1] > 1 else {},
        }

    def _describe(self, boundary: Dict[str, Any], contents: Contents) -> None:
        """What the manifest says of this rank's part, written down while it is true."""
        assert self.found is not None
        where = boundary["where"]
        for text in boundary["notes"]:
            contents.note(text)
        kept = self._agent.boundary.statistics
        moved = sum(statistics_kept(m) for m in self.found.models if not kept.covers(m))
        if moved and (self._hung or where != NEXT_BATCH):
            contents.note(
                said(
                    "the running statistics of {count} normalisation layers are those of the iteration under way",
                    count=moved,
                )
            )
        self._notes = contents.notes
        self._manifest = describe(self._agent, self.found, self._kind)
        self._manifest["taken"] = "hung" if self._hung else where

    def _behind(self) -> List[Said]:
        """What is to be said where a GPU has not done yet what the program has queued there. Raises `Refused` inside a step."""
        left, inside = self._agent.gpu_steps.behind()
        if inside or left == STEPS:
            raise Refused(
                said("the GPU is in the middle of an optimizer step: its parameters do not belong together"), MID_STEP
            )
        if left:
            assert self.found is not None
            self.found.behind = left
            return [
                said(
                    "the GPU hangs with {steps} still to do: weights and optimizer are those before; schedule, random generators and "
                    "loader positions may be those after",
                    steps=said("{count} optimizer steps", count=left) if left > 1 else said("1 optimizer step"),
                )
            ]
        return [] if self._agent.gpu_steps.seen or not cuda.busy() else [GPU_UNSEEN]

    def _now(self) -> Any:
        assert self.found is not None
        behind = self._agent.gpu_steps.behind()
        sampled = reading.samples(self.found.optimizers, self.found.models)
        return self._agent.recorder.step, own_steps(self._agent, self.found), behind, sampled

    def _check_unchanged(self) -> None:
        if self._now() != self._before or self._agent.boundary.updating():
            raise reading.Changed(said("the job went on while it was being saved"))

    def _put(self, name: str, data: bytes) -> Dict[str, Any]:
        path = os.path.join(self.temporary, name)
        files.written(path, lambda file: archive.Output(file, lambda n: None).write(data))
        return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "rank": None}

    def _check_files(self, expected: Dict[str, Dict[str, Any]]) -> None:
        for name, entry in expected.items():
            if os.path.basename(name) != name or name in ("", ".", "..", files.MANIFEST):
                raise Refused(said("{name} is no name of a file of a checkpoint", name=repr(name[:80])))
            try:
                size = os.stat(os.path.join(self.temporary, name)).st_size
            except FileNotFoundError:
                raise Refused(
                    said("{name} is not in {place}, as this rank sees it", name=name, place=self.temporary),
                    said("all ranks must see the directory under the same path: use a shared one"),
                ) from None
            if size != entry["bytes"]:
                raise Refused(
                    said(
                        "{name} has {size} bytes and should have {expected}",
                        name=name,
                        size=size,
                        expected=entry["bytes"],
                    ),
                    said("take the checkpoint again"),
                )

    def _remove(self) -> None:
        """Remove what this rank has made; the lowest rank the whole directory."""
        if self._made is not None:
            files.remove(self._made)
            self._made = None
            return
        names = [*self._files, *(self._contents.files if self._contents is not None else ()), shards.file_name(_rank())]
        for name in names:
            try:
                os.unlink(os.path.join(self.temporary, name))
            except OSError:
                pass  # never begun, or the directory is gone already

    def _forget(self) -> None:
        """Let go of the training's objects and of the memory."""
        self.found = None
        self._contents = self._layout = None
        self._arrivals = []
        self._arena.spare()


def _clock(device: Any) -> Any:
    """A CUDA event on the stream that is current on `device`."""
    torch = sys.modules["torch"]
    with torch.cuda.device(device):
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(device))
    return event


def _rank() -> int:
    return place()[0]
