"""What a `Job` offers for watching it: its new steps, its feed, the live view, export."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from . import evidence
from .errors import CannotAttach, DeadlineExceeded, GilHeld, NotPermitted, ProbeFailed, TargetGone, UsageError
from .language import text
from .model import Exported, NewSteps, Picture, Rank, RankSteps, Watched
from .questions import Askable
from .questions.base import Ranks

if TYPE_CHECKING:
    from .export.metrics import MetricsServer
    from .live import Feed
    from .live.tracks import Track
    from .polling import Poller

__all__ = ["Watchable"]

T = TypeVar("T")

KEEP_HZ = 0.5
FEW_STEPS = 3
"""What is shown of fewer says nothing."""
_YOUNG = ("waiting", "training")
_ASKED_WITH: Mapping[str, Mapping[str, Any]] = {"profile": {"sample": True}}
"""What a question is asked with for its picture: of a profile only the stacks are drawn, so nothing is recorded."""


class Watchable(Askable, Ranks, ABC):
    """The part of `Job` that is asked again and again."""

    def __init__(self) -> None:
        self._poller: Poller | None = None
        self._feed: Feed | None = None
        self._servers: list[MetricsServer] = []
        self._making = threading.Lock()

    @property
    @abstractmethod
    def ranks(self) -> list[Rank]:
        """See `Job.ranks`."""

    @property
    def who(self) -> Mapping[int, str]:
        """What each rank is called."""
        return {rank.rank: f"rank {rank.rank}" for rank in self.ranks}

    def poll(self, since: Mapping[int, int] | None, *, timeout: float = 1.0) -> list[NewSteps]:
        """The steps of each rank named after the number given, over lines of their own; None: all steps of all that train. See `Feed`.

        About 0.3 ms a rank. A rank that gives none says why. Raises `TargetGone` where this job is closed.
        """
        links = self.open_links()
        if since is None:
            assert self.ranks  # by their own numbers
        with self._making:
            if self._poller is None:
                from .polling import Poller

                self._poller = Poller(links)
        return self._poller.poll(since, timeout)

    def feed(self, *, rate_hz: float = 2.0) -> Feed:
        """The feed of this job: one for all who watch it, running. It stops when the job is closed.

        `rate_hz` is how often the ranks are asked, by whoever wants it most often.
        """
        feed = self._made_feed(rate_hz)
        feed.quiet = False
        feed.start()
        return feed

    def keep_steps(self) -> None:
        """Ask for new steps every two seconds from now on, until this job is closed, so that `steps` has them when the job has died.

        The latest 2048 of each rank (of many ranks fewer, 32768 in all), and thinned out all that were recorded. Each time 0.3 ms a
        rank and 20 us a step, half of it in the agent's thread.
        """
        self._made_feed(KEEP_HZ, quiet=True).start()

    def _made_feed(self, rate_hz: float, *, quiet: bool = False) -> Feed:
        from .live import Feed

        with self._making:
            if self._feed is None:
                self._feed = Feed(self, rate_hz=rate_hz, quiet=quiet)
            self._feed.rate_hz = max(self._feed.rate_hz, rate_hz)
            return self._feed

    @abstractmethod
    def _ended(self) -> Mapping[int, str]:
        """The ranks whose process is seen to have ended, and how."""

    def left_steps(self, since: int, last: int) -> list[RankSteps]:
        """What is known of the ranks that have ended, where their steps were kept: those after number `since`, at most the `last` ones."""
        feed = self._feed
        if feed is None or not feed.running:
            return []
        tracks = [track for rank in feed.ranks if (track := feed.left_of(rank)) is not None]
        how = {track.rank: track.problem for track in tracks if track.gone} | dict(self._ended())
        return [_left(track, how[track.rank], since, last) for track in tracks if track.rank in how]

    def steps_were_shown(self) -> None:
        """Have what is recorded kept soon, where steps are kept: what a person has seen must not be lost."""
        if self._feed is not None:
            self._feed.hurry()

    @property
    def over(self) -> bool:
        """Whether who watches this job has seen its end."""
        return self._feed is not None and self._feed.state.code in ("finished", "detached")

    def watched(self, *, timeout: float = 10.0) -> Watched:
        """One moment of what `traindbg watch` shows: the state, each rank's latest figures, and what happened: changes, checkpoints, a loss
        that is not finite, ranks that were lost.

        Since this job is watched, else since the attach. Costs what `poll` does. Raises why nobody can be asked.
        """
        from .live.frame import frame

        feed = self._made_feed(KEEP_HZ, quiet=True)
        self.first_round(feed, timeout, few_steps=False)
        return frame(feed)

    def watch(self, *, view: str = "curves", rate_hz: float = 2.0) -> Any:
        """The live view of this job as a widget for a notebook, on the tab `view`; `traindbg watch` shows the same at a terminal.

        What is drawn stays when the job has ended, and in a saved notebook as a picture. Raises `MissingPiece` without anywidget.
        """
        from .widgets import watch

        return watch(self, view=view, rate_hz=rate_hz, feed=self.feed(rate_hz=rate_hz))

    def export(self, path: str) -> Exported:
        """Write the recorded steps of all ranks to `path`: ``"run.parquet"`` or, for Perfetto, ``"trace.json"`` (or ``".json.gz"``).

        All that was seen since this job is watched, or what the agents still have, 8192 steps; also when the job has ended. The file
        appears complete or not at all. Raises `UsageError` for a path that cannot be written, `MissingPiece` without pyarrow (Parquet),
        `NoTarget` where there is no step.
        """
        from .export import write

        feed = self._made_feed(KEEP_HZ)
        feed.refresh()
        return write(feed, path)

    def plot(self, of: str = "loss", *, timeout: float = 10.0) -> Picture:
        """A picture of this job: ``"loss"`` and ``"lr"`` over all steps recorded since the attach or since it is watched, ``"grads"``,
        ``"memory"`` or ``"collectives"`` as `grads`, `memory` and `collectives` find them now, ``"profile"`` as `profile` samples it.

        Takes what asking takes, and 0.4 s where it is looked at. Static: SVG and PNG, kept in the notebook; `Picture.figure` is
        matplotlib's. Raises `UsageError` for another name, `NoTarget` where nothing was recorded, `MissingPiece` without matplotlib.
        """
        from . import pictures

        if of in pictures.OVER_STEPS:
            feed = self._made_feed(KEEP_HZ, quiet=True)
            self.first_round(feed, timeout)
            return pictures.of_feed(of, feed)
        if of not in pictures.OF_JOBS:
            raise UsageError(
                text("there is no picture of {of!r}", of=of),
                text("there are {names}", names=text(", ").join(pictures.OF_JOBS)),
            )
        ask: Any = getattr(self, of)
        return pictures.of_result(ask(timeout=timeout, **_ASKED_WITH.get(of, {})))

    def first_round(self, feed: Feed, timeout: float, *, few_steps: bool = True) -> None:
        """Have `feed` try, and know of a few steps where the job makes any within `timeout`. Raises why nobody can be asked; a job that has
        no trainers yet is waited for.
        """
        ends = time.monotonic() + timeout
        self.need_training(timeout)
        feed.refresh(timeout)
        lost = isinstance(feed.problem, TargetGone) and not feed.ranks
        if feed.problem is not None and (lost or isinstance(feed.problem, (CannotAttach, NotPermitted))):
            raise feed.problem
        if feed.ranks and len(feed.silent) == len(feed.ranks) and not feed.last_step:
            with contextlib.suppress(DeadlineExceeded, GilHeld, ProbeFailed):  # a job that hangs is there to be watched
                self.steps(last=1, timeout=min(3.0, timeout))
        while few_steps and feed.last_step < FEW_STEPS and feed.state.code in _YOUNG and time.monotonic() < ends:
            time.sleep(0.05)
            feed.refresh(ends - time.monotonic())

    def serve_metrics(self, port: int = 0) -> MetricsServer:
        """Serve loss, times, memory and state to Prometheus at ``.url``, on 127.0.0.1 only, until ``.close()`` or the end of this job.

        `port` 0 takes a free one. Every process of this machine can read it. Raises `MissingPiece` without prometheus-client.
        """
        from .export.metrics import MetricsServer

        server = MetricsServer(self.feed(), port)
        self._servers.append(server)
        return server

    def _end_watching(self) -> None:
        """Stop the feed and whatever serves it, and hang up."""
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        feed, poller, self._poller = self._feed, self._poller, None
        if feed is not None:
            feed.detach()
        if poller is not None:
            poller.close()


def _left(track: Track, how: str, since: int, last: int) -> RankSteps:
    at = track.fields.index("step") if track.fields else 0
    records: Sequence[Sequence[Any]] = [record for record in track.latest if record[at] > since]
    answer = {
        "fields": track.fields,
        "records": records[-last:] if last else records,
        "note": "",
        "time_s": track.told_s,
    }
    return dataclasses.replace(evidence.steps(track.rank, track.pid, answer), ended=how)
