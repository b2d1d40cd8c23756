"""Where a checkpoint goes: one directory that all ranks see as the same, and how it is looked at, from here or through a rank."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ...agent.checkpoint.files import partial, what_is_there
from ...agent.saying import NOTHING, Said, said
from ...attach.base import Link
from ...checkpoints import manifest as manifests
from ...errors import ActionRefused, BadCheckpoint, TraindbgError
from ...language import text
from ...outside import host
from ...spoken import spoken
from ...words.ranks import ranks_words
from .ranks import ask, blame, said_ranks

__all__ = ["NotShared", "Place", "find"]

ASK_S, SEEN_S, LOOK_S = 5.0, 5.0, 0.2
"""How long a network file system may take to show on one host what was made on another, and how often we look."""


class NotShared(ActionRefused):
    """The ranks do not all see the directory that the lowest one has made."""

    why = NOTHING
    """Its cause, as a manifest has it, too."""


class Place(Protocol):
    """``directory`` as the job's processes see it; ``note``: what is to be said of it."""

    @property
    def directory(self) -> str: ...

    @property
    def note(self) -> Said: ...

    def check_shared(self, ident: str, links: Mapping[int, Link]) -> None:
        """Raise `NotShared` where a rank of `links` does not see the directory that was made for the attempt `ident`."""

    def there(self) -> str:
        """What is there, in the words of `CheckpointPlan`."""

    def free_bytes(self) -> int | None:
        """None where that cannot be told."""

    def manifest(self) -> manifests.Manifest:
        """Raises what `checkpoints.manifest.read` raises."""

    def sizes(self, names: Sequence[str]) -> dict[str, int | None]:
        """The size of each file as it lies there now, in bytes; None where there is none."""

    def sweep(self, ident: str) -> str:
        """Remove what is left of an attempt whose writer has died; in words why that could not be, or nothing."""


@dataclass(frozen=True)
class _Here:
    """`here` is the directory as this process sees it, through ``/proc`` where the job runs in a container."""

    directory: str
    here: str
    note: Said = NOTHING

    def check_shared(self, ident: str, links: Mapping[int, Link]) -> None:
        """`find` has compared what the ranks see."""

    def there(self) -> str:
        return what_is_there(self.here)

    def free_bytes(self) -> int | None:
        parent = os.path.dirname(self.here)
        return host.free_bytes([parent]).get(parent)

    def manifest(self) -> manifests.Manifest:
        return manifests.read(self.here)

    def sizes(self, names: Sequence[str]) -> dict[str, int | None]:
        found: dict[str, int | None] = {}
        for name in names:
            try:
                found[name] = os.stat(os.path.join(self.here, name)).st_size
            except OSError:
                found[name] = None
        return found

    def sweep(self, ident: str) -> str:
        left = partial(self.here, ident)
        try:
            if os.path.lexists(left):
                shutil.rmtree(left)
        except OSError as e:
            return text("{left} could not be removed ({why}) and is no checkpoint", left=left, why=e.strerror)
        return ""


@dataclass(frozen=True)
class _Elsewhere:
    """Looked at through the lowest rank, which has made it: the ranks are on several hosts."""

    directory: str
    link: Link
    note: Said = NOTHING

    def check_shared(self, ident: str, links: Mapping[int, Link]) -> None:
        ends = time.monotonic() + SEEN_S
        while True:
            answers, errors = ask(links, lambda rank: self._question(ident), ASK_S)
            if errors:
                raise blame(errors)
            apart = [rank for rank, answer in answers.items() if not answer["partial"]]
            if not apart:
                return
            if time.monotonic() > ends:
                break
            time.sleep(LOOK_S)
        found = {
            "directory": os.path.dirname(self.directory),
            "ranks": said_ranks(r for r in links if r not in apart),
            "others": said_ranks(apart),
        }
        why = said("{directory} of {ranks} is not what {others} on another host sees there", **found)
        if len(apart) > 1:
            why = said("{directory} of {ranks} is not what {others} on another host see there", **found)
        refused = NotShared(
            spoken(why), text("nothing was written; name a directory on a file system that all hosts share")
        )
        refused.why = why
        raise refused

    def there(self) -> str:
        return str(self._look()["there"])

    def free_bytes(self) -> int | None:
        free: int | None = self._look()["free_bytes"]
        return free

    def manifest(self) -> manifests.Manifest:
        found = self._look()["manifest"]
        if found is None:
            raise BadCheckpoint(
                text(
                    "there is no {name} in {directory}, or it cannot be read",
                    name=manifests.NAME,
                    directory=self.directory,
                )
            )
        return manifests.parse(Path(self.directory), found.encode())

    def sizes(self, names: Sequence[str]) -> dict[str, int | None]:
        found: dict[str, int | None] = self._look(names=list(names))["sizes"]
        return found

    def sweep(self, ident: str) -> str:
        """Its maker alone can remove it, and does so when it is told to, or after a minute without us."""
        with contextlib.suppress(TraindbgError):
            if not self._look(ident=ident)["partial"]:
                return ""
        return text("{left} may be left there and is no checkpoint", left=partial(self.directory, ident))

    def _look(self, ident: str = "", names: Sequence[str] = ()) -> dict[str, Any]:
        answer: dict[str, Any] = self.link.call("checkpoint", self._question(ident, names), ASK_S)
        return answer

    def _question(self, ident: str, names: Sequence[str] = ()) -> dict[str, Any]:
        return {"do": "look", "directory": self.directory, "ident": ident, "names": list(names)}


def find(directory: str, links: Mapping[int, Link]) -> Place:
    """The place for `directory` and the ranks `links`; it may be relative to our working directory or begin with ``~``.

    Where ranks are on other hosts it is a whole path as they see it. Raises `ActionRefused` where not all see the same directory there.
    """
    wanted = os.path.expanduser(directory)
    if not all(link.here for link in links.values()):
        return _Elsewhere(os.path.normpath(wanted), links[min(links)])
    pids = {rank: link.pid for rank, link in links.items()}
    absolute = os.path.abspath(wanted)
    parent = os.path.dirname(absolute)
    seen = {rank: _identity(f"/proc/{pid}/root", parent) for rank, pid in pids.items()}
    ours = _identity("", parent)
    known = {rank: identity for rank, identity in seen.items() if identity is not None}
    if not known:
        return _Here(
            absolute, absolute
        )  # no rank lets us look, or none has that directory: `begin` will say so in the job itself
    lowest = min(known)
    apart = [rank for rank, identity in known.items() if identity != known[lowest]]
    apart += [rank for rank in seen if rank not in known]
    if apart:
        raise ActionRefused(
            text(
                "{parent} is not the same directory for rank {lowest} and for {ranks} (containers, or not there)",
                parent=parent,
                lowest=lowest,
                ranks=ranks_words(apart),
            ),
            text("nothing was written; name a directory on a file system that all ranks share"),
        )
    if known[lowest] == ours:
        return _Here(absolute, absolute)
    if not os.path.isabs(wanted):
        raise ActionRefused(
            text(
                "the job runs in a container (or another mount namespace), where {parent} is not the directory that "
                "it is here",
                parent=parent,
            ),
            text("nothing was written; give DIR as an absolute path, as the job sees it"),
        )
    here = f"/proc/{pids[lowest]}/root{absolute}"
    own = said(
        "{place} is in the job's own file system (a container); from here it is {here}", place=absolute, here=here
    )
    return _Here(absolute, here, own)


def _identity(root: str, path: str) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        found = os.stat(root + path)
        return found.st_dev, found.st_ino
    return None
