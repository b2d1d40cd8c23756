"""Where it is decided what all ranks of a job do or do not: a file that they all see, else a key in the store of their process group.

While a ballot is open nobody else agrees on anything with the same ranks, so that two changes never come in different orders on two ranks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import uuid
from collections.abc import Sequence
from typing import Any, Protocol

from ..agent.agreed import IN_STORE, decide
from ..attach.base import Link, ask_each
from ..errors import ActionRefused, DeadlineExceeded, TraindbgError
from ..language import text

__all__ = ["Ballot", "open_ballot"]

LOOK_AGAIN_S = 0.02
CAST_S = 3.0
CLAIM_S = 20.0
"""What a claim may last beyond our own deadline: it ends by itself where this process is killed."""


class Ballot(Protocol):
    """Use it with ``with``."""

    settled: bool
    """To be set once every rank has read the decision: it can be thrown away."""

    def open(self, name: str) -> str:
        """Begin a vote under `name`; how the agents are to name the decision."""

    def cast(self, wish: str) -> str:
        """Decide, unless it is decided; what stands."""

    def __enter__(self) -> Ballot: ...

    def __exit__(self, *_: object) -> None: ...


def open_ballot(links: Sequence[Link], inside: str, ends: float) -> Ballot:
    """The ballot of `links`; `inside` is the directory of the first one's agent. Raises `ActionRefused` where they share nothing."""
    if not all(link.here for link in links):
        return _StoreBallot(links, ends)
    try:
        return _FileBallot(links, inside, ends)
    except _Unshared as apart:
        try:
            return _StoreBallot(links, ends)
        except ActionRefused as why:
            raise ActionRefused(text("{one}, and {other}", one=apart.cause, other=why.cause), apart.next_step) from None


class _Unshared(ActionRefused):
    """The ranks do not see the same file."""


class _FileBallot:
    """A file in the agent's directory of the first rank, reached through /proc."""

    def __init__(self, links: Sequence[Link], inside: str, ends: float) -> None:
        self.settled = False
        self._inside, self._name = inside, ""
        self._directory = _open_directory(links[0], inside)
        try:
            self._check_shared(links)
            self._lock(ends)
        except BaseException:
            os.close(self._directory)
            raise

    def __enter__(self) -> _FileBallot:
        return self

    def __exit__(self, *_: object) -> None:
        if self.settled:
            with contextlib.suppress(FileNotFoundError):  # the agent has left and taken its directory along
                os.unlink(self._path())
        os.close(self._directory)

    def open(self, name: str) -> str:
        self._name = name
        return os.path.join(self._inside, name)

    def cast(self, wish: str) -> str:
        return decide(self._path(), wish)

    def _path(self) -> str:
        return f"/proc/self/fd/{self._directory}/{self._name}"

    def _check_shared(self, links: Sequence[Link]) -> None:
        """All ranks must see the same file under the same name; those in different containers do not."""
        mine = os.fstat(self._directory)
        for link in links[1:]:
            other = _open_directory(link, self._inside)
            theirs = os.fstat(other)
            os.close(other)
            if (theirs.st_dev, theirs.st_ino) != (mine.st_dev, mine.st_ino):
                raise _unshared(link, self._inside)

    def _lock(self, ends: float) -> None:
        while True:
            try:
                fcntl.flock(self._directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > ends:
                    raise _busy() from None
                time.sleep(LOOK_AGAIN_S)


def _open_directory(link: Link, inside: str) -> int:
    try:
        return os.open(f"/proc/{link.pid}/root{inside}", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as e:
        raise _unshared(link, inside) from e


def _unshared(link: Link, inside: str) -> _Unshared:
    return _Unshared(
        text(
            "rank {rank} (pid {pid}) does not see {inside}, where the ranks would agree: they do not share a file system",
            rank=link.rank,
            pid=link.pid,
            inside=inside,
        ),
        text("nothing was changed on any rank; ranks in containers need a common /tmp"),
    )


def _busy() -> ActionRefused:
    return ActionRefused(text("another client is changing this job at the moment"), text("try again"))


class _StoreBallot:
    """A key of the store, written through whichever rank answers. The first rank's agent keeps who may begin a vote."""

    def __init__(self, links: Sequence[Link], ends: float) -> None:
        self.settled = False
        self._links, self._claimant, self._key = links, uuid.uuid4().hex, ""
        self._claim(ends)
        try:
            self._check_shared()
        except BaseException:
            self._free()
            raise

    def __enter__(self) -> _StoreBallot:
        return self

    def __exit__(self, *_: object) -> None:
        if self.settled:
            self._forget(self._key)
        self._free()

    def open(self, name: str) -> str:
        self._key = f"traindbg/{self._claimant}/{name}"
        return f"{IN_STORE}{self._key}"

    def cast(self, wish: str) -> str:
        """Through any rank: where the first one's answer is lost, another one tells what stands. Raises where none answers."""
        problems: list[str] = []
        for link in self._links:
            try:
                return self._cast(link, self._key, wish)
            except TraindbgError as e:
                problems.append(text("rank {rank}: {cause}", rank=link.rank, cause=e.cause))
        raise DeadlineExceeded(
            text("no rank can tell what was decided ({problem})", problem=problems[0]),
            text("`traindbg lr` shows what is in force on each rank"),
        )

    def _check_shared(self) -> None:
        """All ranks must find what the first one has written: an in-process store is no place to agree."""
        probe = f"traindbg/{self._claimant}/probe"
        first, *others = self._links
        self._cast_or_refuse(first, probe, "seen")
        for link, stands in ask_each(others, lambda link: self._cast_or_refuse(link, probe, "not seen"), CAST_S):
            if isinstance(stands, TraindbgError):
                raise stands
            if stands != "seen":
                raise ActionRefused(
                    text(
                        "rank {rank} (pid {pid}) has another store than rank {first}",
                        rank=link.rank,
                        pid=link.pid,
                        first=first.rank,
                    ),
                    text("nothing was changed on any rank"),
                )
        self._forget(probe)

    def _cast_or_refuse(self, link: Link, key: str, wish: str) -> str:
        try:
            return self._cast(link, key, wish)
        except TraindbgError as e:
            raise ActionRefused(
                text("rank {rank} (pid {pid}) cannot vote: {cause}", rank=link.rank, pid=link.pid, cause=e.cause),
                text("nothing was changed on any rank"),
            ) from e

    def _claim(self, ends: float) -> None:
        first = self._links[0]
        while True:
            left = max(0.5, ends - time.monotonic())
            if self._vote(first, {"do": "claim", "claimant": self._claimant, "for_s": left + CLAIM_S})["claimed"]:
                return
            if time.monotonic() > ends:
                raise _busy()
            time.sleep(LOOK_AGAIN_S)

    def _free(self) -> None:
        with contextlib.suppress(TraindbgError):  # it ends by itself
            self._vote(self._links[0], {"do": "free", "claimant": self._claimant})

    def _forget(self, key: str) -> None:
        with contextlib.suppress(TraindbgError):  # some bytes stay in the store
            self._vote(self._links[0], {"do": "forget", "key": key})

    def _cast(self, link: Link, key: str, wish: str) -> str:
        return str(self._vote(link, {"do": "cast", "key": key, "wish": wish})["stands"])

    @staticmethod
    def _vote(link: Link, params: dict[str, Any]) -> Any:
        return link.call("vote", params, CAST_S)
