"""Is every byte of a checkpoint what was written? All files are read again and their SHA-256 compared with the manifest's."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ..errors import BadCheckpoint
from ..language import text
from ..model import NA, CheckedFile, Finding, Maybe, Verified, things
from ..progress import BytesBar
from . import manifest
from .manifest import Manifest, Written

__all__ = ["verify"]

CHUNK = 4 * 1024**2
PROGRESS_FROM = 1024**3
"""Bytes from which a progress bar is shown, at a terminal."""
NAMED = 20


def verify(directory: str | os.PathLike[str]) -> Verified:
    """Read every file of one of our checkpoints again and compare it with what was written.

    Costs one read of the checkpoint (SHA-256 takes 0.5 to 2 s a GB) in 4 MiB of memory. Finds missing, shortened and changed files, the
    manifest included, and names those that are there and were not written. Raises `UsageError` where `directory` is not one of ours.
    """
    began = time.monotonic()
    path = Path(directory)
    try:
        found = manifest.read(path)
    except BadCheckpoint as e:
        if not manifest.is_ours(path):
            raise
        return _unreadable(path, e, time.monotonic() - began)
    files = _checked(path, found)
    size = (path / manifest.NAME).stat().st_size
    own = CheckedFile(manifest.NAME, "good" if found.sealed else "damaged", size, size, None, "")
    files = [own, *files, *_extra(path, found)]
    read = sum(f.found_bytes for f in files if isinstance(f.found_bytes, int) and f.state != "extra")
    return Verified(
        path=str(path),
        kind=found.kind,
        step=NA(manifest.no_step(found)) if found.step is None else found.step,
        files=tuple(files),
        bytes_read=read,
        taken_s=time.monotonic() - began,
        notes=tuple(found.notes),
        verdict=tuple(_findings(files, found)),
    )


def _checked(path: Path, found: Manifest) -> list[CheckedFile]:
    total, done = sum(written.bytes for written in found.files.values()), 0

    def tell(n: int) -> None:
        nonlocal done
        done += n
        bar(done, total)

    with BytesBar("verify", PROGRESS_FROM, widget=False) as bar:
        return [_check(path, name, written, tell) for name, written in sorted(found.files.items())]


def _unreadable(path: Path, error: BadCheckpoint, taken_s: float) -> Verified:
    size = (path / manifest.NAME).stat().st_size
    own = CheckedFile(manifest.NAME, "damaged", NA(text("it is not readable")), size, None, error.cause)
    missing = NA(text("its manifest is damaged"))
    return Verified(str(path), "", missing, (own,), size, taken_s, (), tuple(_findings([own], None)))


# --- one file --------------------------------------------------------------------------------------------------------


def _check(directory: Path, name: str, written: Written, tell: Callable[[int], object]) -> CheckedFile:
    if not _is_plain(name):
        return CheckedFile(
            name, "unreadable", written.bytes, NA(text("its name leads out of the directory")), written.rank
        )
    state, size, note = "good", 0, ""
    try:
        about = os.lstat(directory / name)
        size = about.st_size
        if not stat.S_ISREG(about.st_mode):
            return CheckedFile(
                name,
                "unreadable",
                written.bytes,
                NA(text("it is no regular file")),
                written.rank,
                text("it is a link or a device"),
            )
        digest, _ = _digest(directory / name, tell)
        if size != written.bytes:
            state = "wrong size"
        elif digest != written.sha256:
            state = "damaged"
    except FileNotFoundError:
        return CheckedFile(name, "missing", written.bytes, NA(text("it is not there")), written.rank)
    except OSError as e:
        return CheckedFile(
            name, "unreadable", written.bytes, NA(e.strerror or str(e)), written.rank, e.strerror or str(e)
        )
    return CheckedFile(name, state, written.bytes, size, written.rank, note)


def _is_plain(name: str) -> bool:
    return bool(name) and "\0" not in name and not name.startswith("/") and ".." not in name.split("/")


def _digest(file: Path, tell: Callable[[int], object]) -> tuple[str, int]:
    digest, total = hashlib.sha256(), 0
    buffer = memoryview(bytearray(CHUNK))
    with file.open("rb", buffering=0) as stream:
        while n := stream.readinto(buffer):
            digest.update(buffer[:n])
            total += n
            tell(n)
    return digest.hexdigest(), total


def _extra(directory: Path, found: Manifest) -> list[CheckedFile]:
    known = {*found.files, manifest.NAME}
    extra = []
    for folder, _, names in os.walk(directory):
        for name in names:
            file = Path(folder, name)
            relative = file.relative_to(directory).as_posix()
            if relative not in known:
                extra.append(CheckedFile(relative, "extra", NA(text("it is not in the manifest")), _size(file)))
    return sorted(extra, key=lambda f: f.name)


def _size(file: Path) -> Maybe[int]:
    try:
        return os.lstat(file).st_size
    except OSError as e:
        return NA(e.strerror or str(e))


# --- what it means -----------------------------------------------------------------------------------------------------


def _findings(files: list[CheckedFile], found: Manifest | None) -> Iterator[Finding]:
    bad = [f for f in files if f.state not in ("good", "extra")]
    if bad:
        yield _damaged(bad, len(files))
    if found is not None and found.mixed:
        yield _mixed(found)
    extra = [f.name for f in files if f.state == "extra"]
    if extra:
        yield Finding(
            code="checkpoint_extra_files",
            severity="info",
            title=text("{count} files are there that were not written with it", count=len(extra)),
            who=things(extra[:NAMED]),
            cause=text("They were put there later; nothing is known of them."),
            next_steps=[text("Load only the files that the manifest lists.")],
        )


def _damaged(bad: list[CheckedFile], total: int) -> Finding:
    more = len(bad) - 1
    others = text(" and {more} more files", more=more, count=len(bad)) if more else ""
    return Finding(
        code="checkpoint_damaged",
        severity="critical",
        title=text("{name}{others}: not what was written", name=bad[0].name, others=others),
        who=things(f.name for f in bad[:NAMED]),
        evidence=[_evidence(f) for f in bad[:NAMED]],
        cause=text(
            "The bytes changed after they were written: a disk or memory fault, a copy that was cut short, "
            "or somebody's edit. Without a checksum a flipped bit loads silently."
        ),
        next_steps=[
            text("Do not resume from it: use an older checkpoint."),
            text("If it was copied, copy the files named here again and verify once more."),
        ],
    )


def _evidence(f: CheckedFile) -> str:
    if f.state == "missing":
        return text("{name}: it is not there", name=f.name)
    if f.state == "wrong size":
        return text(
            "{name}: {found_bytes} bytes, {bytes} were written", name=f.name, found_bytes=f.found_bytes, bytes=f.bytes
        )
    if f.state == "unreadable":
        return text("{name}: {found_bytes}", name=f.name, found_bytes=f.found_bytes)
    note = f" ({f.note})" if f.note else ""
    return text("{name}: its SHA-256 is another one{note}", name=f.name, note=note)


def _mixed(found: Manifest) -> Finding:
    steps = ", ".join(f"rank {rank}: {step}" for rank, step in sorted(found.steps.items())[:NAMED])
    return Finding(
        code="checkpoint_mixed_steps",
        severity="warning",
        title=text("its ranks were at different optimizer steps"),
        evidence=[steps],
        cause=text("It was saved with allow_mixed=True from a job that stood still in the middle of a step."),
        next_steps=[text("Use it only where no other checkpoint is left.")],
    )
