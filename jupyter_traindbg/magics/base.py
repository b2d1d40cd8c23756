"""A verb is one thing a person can ask for: a magic in a notebook and a subcommand of `traindbg`, from one file and one parser."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from .. import commands
from ..errors import FORMS, AmbiguousTarget, TraindbgError, UsageError
from ..job import DEADLINE_S, Job
from ..language import text
from ..model import Result, is_cluster, parse_cluster
from ..verbose import at_stderr
from .parser import RAY, TARGET, Parser, completed_by

__all__ = [
    "Session",
    "Verb",
    "add_ray_address",
    "add_target",
    "add_verbose",
    "complete_parser",
    "load",
    "parser",
    "ray_address",
    "run",
    "split",
]


class Session(Protocol):
    """Where a verb runs: a notebook, which keeps its job, or a terminal, which attaches for one command."""

    current: Job | None
    """The job that is attached to and stays so."""
    named: str | None
    """The target that commands about what was asked last have to name; None where they mean it by themselves."""

    def job(self, target: str | None, timeout: float) -> AbstractContextManager[Job]:
        """The job to ask: the one named, else the current one, else the only candidate."""

    def attach(self, target: str | None, timeout: float) -> Result:
        """Attach and stay."""

    def live(self) -> AbstractContextManager[Callable[[Result, str], None]]:
        """Shows results in one place, each instead of the one before. Where there is no such place, as in a pipe, it writes the line
        that comes with a result whenever that is another one than before.
        """

    def detach(self, target: str | None, timeout: float, *, force: bool = False) -> Result:
        """Take the agents out."""


class Verb(Protocol):
    """What a module of this package defines, where a verb is more than a question to a job (see `questioning`). Its docstring is its help;
    the module's name, its verb.

    It may have a way of its own to tell the words of a magic's line apart, ``split(line)``, and to complete them,
    ``offers(typed, behind)``: the word that is being typed and what it may become. With ``CELL`` it is a magic of cells, too, and the
    cell is the last of its words; with ``CSV`` a terminal prints the rows of its result by ``--csv``.
    """

    EXAMPLES: Sequence[tuple[str, str]]
    """What may be typed after the verb, most useful first, and what that does."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Describe the arguments, apart from ``--timeout`` and ``--verbose``, which every verb has."""

    def run(self, args: argparse.Namespace, session: Session) -> Result:
        """Do it. Raises a `TraindbgError`."""


def load(name: str) -> Verb:
    """The verb called `name`: a module of this package, or what `questioning` makes of a question."""
    if find_spec(f"{__package__}.{name}") is None:
        from .questioning import OfQuestion

        return OfQuestion(name)
    verb: Verb = import_module(f"{__package__}.{name}")
    return verb


def add_target(parser: argparse.ArgumentParser) -> None:
    """The job to ask, which need not be named."""
    target = parser.add_argument(
        "target",
        nargs="?",
        help=f"{FORMS}; none: the job attached to, else the only candidate there is",
    )
    completed_by(target, TARGET)


def add_verbose(parser: argparse.ArgumentParser, default: Any = False) -> None:
    """``-v``."""
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        default=default,
        help="tell on stderr what is done, and how long it took",
    )


def add_ray_address(parser: argparse.ArgumentParser) -> None:
    """The Ray cluster to ask, which need not be named: see `ray_address`."""
    address = parser.add_argument(
        "address",
        nargs="?",
        help="auto, host:port, ray://host:port, http://dashboard:port, or ray:JOB@ADDRESS; none: the Ray job attached to, else "
        "$RAY_ADDRESS, else the only cluster of this machine",
    )
    completed_by(address, "auto", RAY)


def ray_address(args: argparse.Namespace, session: Session) -> str:
    """The cluster that is meant: the one named, else that of the Ray job attached to, else the only one."""
    session.named = None if args.address is None else str(parse_cluster(args.address))
    attached = session.current.name if session.current is not None else ""
    return args.address or (attached if is_cluster(attached) else "auto")


def split(line: str) -> list[str]:
    """The words of a magic's line, quoted as in a shell. Raises `UsageError`."""
    try:
        return shlex.split(line)
    except ValueError as e:
        raise UsageError(
            text("the line cannot be read: {why}", why=str(e).lower()),
            text("close the quotation, or put a backslash before the quote"),
        ) from None


def parser(name: str) -> Parser:
    """The parser of verb `name` for a notebook."""
    return complete_parser(Parser(prog=commands.magic_name(name)), name)


def complete_parser(parser: Parser, name: str) -> Parser:
    """`parser` with everything that verb `name` accepts."""
    verb = load(name)
    parser.verb, parser.examples = name, verb.EXAMPLES
    parser.description = (verb.__doc__ or "").strip()
    verb.add_arguments(parser)
    parser.add_argument(
        "--timeout",
        type=_seconds,
        action=_Given,
        default=DEADLINE_S,
        metavar="S",
        help=f"seconds to wait at most (default {DEADLINE_S:g})",
    )
    add_verbose(parser, default=argparse.SUPPRESS)
    parser.set_defaults(timeout_given=False)
    if "parse_known_args" not in vars(parser):  # preflight has one of its own
        _let_options_stand_anywhere(parser)
    return parser


def _let_options_stand_anywhere(parser: argparse.ArgumentParser) -> None:
    """Between a verb's words, too (``lr 4711 --timeout 5 1e-4``): argparse by itself takes the first word for all that there are."""
    plain = parser.parse_known_args

    def parse(args: Sequence[str] | None = None, namespace: Any = None) -> Any:
        parser.parse_known_args = plain  # type: ignore[method-assign]
        try:
            return parser.parse_known_intermixed_args(args, namespace)
        finally:
            parser.parse_known_args = parse  # type: ignore[method-assign, assignment]

    parser.parse_known_args = parse  # type: ignore[method-assign, assignment]


def run(name: str, args: argparse.Namespace, session: Session, typed: str = "") -> Result:
    """Do what verb `name` is asked for, with `typed` after it. A verb may have a default deadline of its own, ``deadline_s(args)``.

    Commands in what comes back, or in the `TraindbgError` that is raised, name the job where they have to.
    """
    verb = load(name)
    own = getattr(verb, "deadline_s", None)
    if own is not None and not args.timeout_given:
        args.timeout = own(args)
    session.named = None
    try:
        with at_stderr(wanted=getattr(args, "verbose", False)):
            result = verb.run(args, session)
    except TraindbgError as e:
        e.asked_about = session.named
        if isinstance(e, AmbiguousTarget):
            e.asked = (name, typed)
        raise
    return result.about(session.named) if isinstance(result, Result) else result


class _Given(argparse.Action):
    """Stores the value, and that there was one."""

    def __call__(
        self, parser: object, namespace: argparse.Namespace, values: object, option_string: object = None
    ) -> None:
        setattr(namespace, self.dest, values)
        setattr(namespace, f"{self.dest}_given", True)


def _seconds(words: str) -> float:
    try:
        value = float(words)
    except ValueError:
        raise argparse.ArgumentTypeError(text("{words!r} is no number of seconds", words=words)) from None
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(text("must be a positive number of seconds"))
    return value
