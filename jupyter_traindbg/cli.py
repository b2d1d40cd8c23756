"""`traindbg`: the verbs of `jupyter_traindbg.magics` at a terminal.

Exit status: 0 done and nothing wrong found, 1 done and findings, 2 bad usage, 3 could not do it (one line on stderr: why, and the
next step). ``--json`` prints one JSON document on stdout and nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import difflib
import io
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from . import commands
from ._version import __version__
from .errors import TraindbgError, UsageError
from .job import Job, attach, connect
from .language import speaking, text
from .magics import base
from .magics.parser import Parser, meant
from .model import Result, as_records

DONE, FINDINGS, BAD_USAGE, COULD_NOT = 0, 1, 2, 3
Form = Literal["text", "json", "csv"]


class TerminalSession:
    """One command: attaches as far as the question needs, and leaves."""

    current: Job | None = None
    named: str | None = None

    def __init__(self, *, quiet: bool = False) -> None:
        """`quiet`: nothing is shown on the way, as where one JSON document is to be printed."""
        self._quiet = quiet

    @contextlib.contextmanager
    def live(self) -> Iterator[Callable[[Result, str], None]]:
        if self._quiet:
            yield lambda result, line: None
        elif sys.stdout.isatty():
            from rich.live import Live
            from rich.text import Text

            from .render import text

            with Live(auto_refresh=False, transient=True) as place:
                yield lambda result, line: place.update(Text.from_ansi(text(result, colour=_in_colour())), refresh=True)
        else:
            yield _Lines()

    @contextlib.contextmanager
    def job(self, target: str | None, timeout: float) -> Iterator[Job]:
        self.named = target
        with connect(target, timeout=timeout) as job:
            self.named = job.name
            yield job

    def attach(self, target: str | None, timeout: float) -> Result:
        self.named = target
        job = attach(target, timeout=timeout)
        self.named = job.name
        try:
            job.keep(timeout=timeout)
            return job.attached()
        finally:
            job.close()

    def detach(self, target: str | None, timeout: float, *, force: bool = False) -> Result:
        self.named = target
        with connect(target, timeout=timeout) as job:
            return job.detached(force=force, timeout=timeout)


class _Lines:
    """For a pipe: a line whenever it says something new."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, result: Result, line: str) -> None:
        if line != self._last:
            print(line, flush=True)
            self._last = line


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an ASCII terminal gets a question mark, not a traceback
    try:
        args = _parsed(words)
        form: Form = "json" if args.json else "csv" if getattr(args, "csv", False) else "text"
        with contextlib.nullcontext() if form == "text" else speaking("en"):  # programs read it
            result = base.run(args.verb, args, TerminalSession(quiet=form != "text"), shlex.join(words[1:]))
            _print(result, form)
    except TraindbgError as e:
        print(f"traindbg: {e}", file=sys.stderr)
        return BAD_USAGE if isinstance(e, UsageError) else COULD_NOT
    except KeyboardInterrupt:
        print(f"traindbg: {text('interrupted')}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `traindbg stacks | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    missing = result.undecided if result.failure is None else result.failure
    if missing is not None:
        with commands.about(result.asked_about):
            print(f"traindbg: {commands.spelled(missing)}", file=sys.stderr)
        return COULD_NOT
    return FINDINGS if result.findings else DONE


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    """The arguments. Raises `UsageError`, in the verb's name where there is one."""
    args, unknown = _parser(words).parse_known_args(words)
    if unknown:
        args.of.unrecognized(unknown)
    return args


def _parser(words: Sequence[str]) -> Parser:
    """All verbs; only the one that `words` ask for is imported."""
    parser = Parser(prog="traindbg", description="Attach to a training job that is already running.")
    parser.add_argument("--version", action="version", version=f"traindbg {__version__}")
    base.add_verbose(parser)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    names = commands.verbs()
    first = next((word for word in words if word not in ("-v", "--verbose")), "-")
    asked = [name for name in names if _spelt(name) == first] or names
    if not first.startswith("-") and len(asked) == len(names):
        near = difflib.get_close_matches(first, map(_spelt, names), 1)
        raise UsageError(
            text("there is no verb {first!r}", first=first),
            meant(f"traindbg {near[0]}" if near else None, text("`traindbg --help` shows all")),
        )
    for name in asked:
        summary = (base.load(name).__doc__ or "").strip()
        sub = base.complete_parser(verbs.add_parser(_spelt(name), help=summary), name)
        sub.add_argument("--json", action="store_true", help="print one JSON document")
        if getattr(base.load(name), "CSV", False):
            sub.add_argument("--csv", action="store_true", help="print the rows as CSV")
        sub.set_defaults(verb=name, of=sub)
    return parser


def _spelt(name: str) -> str:
    return name.replace("_", "-")


def _print(result: Result, form: Form) -> None:
    if form == "csv":
        _print_csv(result)
    elif form == "json":
        with commands.about(result.asked_about):
            document = commands.spelled_all(result.to_dict())
        print(json.dumps(document, ensure_ascii=False, allow_nan=False))
    elif result.failure is None:
        from .render import text

        print(text(result, colour=_in_colour()))
    sys.stdout.flush()


def _print_csv(result: Result) -> None:
    """NULL is empty, a list JSON."""
    made = as_records(result)
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(made.columns)
    for row in zip(*made.columns.values(), strict=True):
        out.writerow(json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value for value in row)


def _in_colour() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


if __name__ == "__main__":
    sys.exit(main())
