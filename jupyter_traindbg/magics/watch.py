"""Watch a job live: loss, learning rate, times, memory, state, events; a widget in a notebook, a view that refreshes at a terminal."""

from __future__ import annotations

import argparse
import contextlib
import time
from typing import Any

from ..errors import UsageError
from ..job import Job
from ..language import text
from ..model import Result, Watched
from .base import Session, add_target
from .parser import completed_by

AT_A_TERMINAL = ("curves", "ranks", "events")
IN_A_NOTEBOOK = ("curves", "gradients", "learning_rate", "checkpoint", "diagnosis")
MOST_FRAMES_HZ = 4.0
OVER = ("finished", "detached")

EXAMPLES = (
    ("", "the job attached to, else the only one there is"),
    ("--view gradients", "with the scan for NaN in front"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    view = parser.add_argument(
        "--view",
        default="curves",
        metavar="NAME",
        help=f"what to show first: in a notebook {', '.join(IN_A_NOTEBOOK)}; at a terminal {', '.join(AT_A_TERMINAL)}",
    )
    completed_by(view, *dict.fromkeys((*IN_A_NOTEBOOK, *AT_A_TERMINAL)))
    parser.add_argument(
        "--rate", type=float, dest="rate_hz", default=2.0, metavar="HZ", help="how often to ask, up to 10 (default 2)"
    )
    parser.add_argument("--once", action="store_true", help="at a terminal: show one frame, and end")
    parser.add_argument("--for", type=float, dest="for_s", metavar="S", help="at a terminal: watch for so many seconds")


def run(args: argparse.Namespace, session: Session) -> Result:
    if not 0 < args.rate_hz <= 10:
        raise UsageError(
            text("--rate is a number of rounds a second, more than 0 and at most 10"), text("2 is what most want")
        )
    if args.for_s is not None and args.for_s <= 0:
        raise UsageError(text("--for is seconds, more than none"), text("leave it out to watch until the job ends"))
    notebook = getattr(session, "stay", None)
    known = AT_A_TERMINAL if notebook is None or args.once else IN_A_NOTEBOOK
    if args.view not in known:
        raise UsageError(
            text("there is no view {view!r} here", view=args.view),
            text("there are {names}", names=text(", ").join(known)),
        )
    if notebook is not None and not args.once:
        widget: Result = _widget(notebook(args.target, args.timeout), args)  # which IPython shows, as it does results
        return widget
    with session.job(args.target, args.timeout) as job:
        return _at_a_terminal(job, args, session)


def _widget(job: Job, args: argparse.Namespace) -> Any:
    """The widget; without anywidget one frame, and what to install."""
    try:
        import anywidget  # noqa: F401
    except ImportError:
        print(text("the live view needs anywidget: pip install anywidget; this is one frame of it"))
        return _once(job, args)
    job.need_training(args.timeout)
    widget: Any = job.watch(view=args.view, rate_hz=args.rate_hz)
    return widget


def _once(job: Job, args: argparse.Namespace) -> Watched:
    from ..live.frame import frame

    feed = job.feed(rate_hz=10.0)
    job.first_round(feed, min(args.timeout, 10.0))
    feed.refresh()
    return frame(feed, args.view)


def _at_a_terminal(job: Job, args: argparse.Namespace, session: Session) -> Watched:
    """Frame after frame, in place of the one before, until the job ends, the time is over, or Ctrl-C; the last one is returned."""
    if args.once:
        return _once(job, args)
    from ..live.frame import frame, line

    feed = job.feed(rate_hz=args.rate_hz)
    job.first_round(feed, args.timeout, few_steps=False)
    ends = None if args.for_s is None else time.monotonic() + args.for_s
    seen: Watched | None = None
    with contextlib.suppress(KeyboardInterrupt), session.live() as show:
        while seen is None or (seen.state not in OVER and (ends is None or time.monotonic() < ends)):
            seen = frame(feed, args.view)
            show(seen, line(seen))
            time.sleep(1 / min(args.rate_hz, MOST_FRAMES_HZ))
    if seen is None:
        raise KeyboardInterrupt  # before there was anything to tell
    return frame(feed, args.view)
