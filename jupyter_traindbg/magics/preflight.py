"""Say before a run what will go wrong with it: its configuration or command line against this machine, with the arithmetic shown."""

from __future__ import annotations

import argparse
import functools
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ..model import Result
from ..preflight import config
from .base import Session

Parse = Callable[..., Any]
UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="CONFIG | a.b=value | -- COMMAND LINE",
        help="configuration files (YAML, JSON, TOML, or a shell script that holds the command), overrides, and after -- a command line as"
        " it would be started; none: this machine and its environment alone",
    )
    parser.add_argument(
        "--parameters",
        type=_parameters,
        metavar="N",
        help="the model's size where the configuration does not say it: 7B",
    )
    parser.add_argument(
        "--model",
        metavar="PATH",
        help="the model's config.json or its directory, on this machine; nothing is downloaded",
    )
    parser.add_argument(
        "--gpus", type=_count, metavar="N", help="GPUs of the machine that it is to run on (default: those here)"
    )
    parser.add_argument(
        "--gpu-memory", type=_size, metavar="SIZE", help="memory of each of them: 80GiB (default: of those here)"
    )
    parser.add_argument("--cpus", type=_count, metavar="N", help="its cores")
    parser.add_argument("--memory", type=_size, metavar="SIZE", help="its memory: 1TiB")
    parser.add_argument("--nodes", type=_count, metavar="N", help="how many such machines there are")
    parser.parse_known_args = functools.partial(_before_the_command, parser.parse_known_args)  # type: ignore[method-assign]


def _before_the_command(parse: Parse, args: Sequence[str] | None = None, namespace: Any = None) -> Any:
    """`parse` what stands before ``--``; what follows is a command line with options of its own, which argparse would take for ours where
    a configuration and an option of ours stand before it.
    """
    words = list(sys.argv[1:] if args is None else args)
    at = words.index("--") if "--" in words else len(words)
    found, unknown = parse(words[:at], namespace)
    found.words = [_unquoted(word) for word in [*(found.words or []), *words[at + 1 :]]]
    return found, unknown


def _unquoted(word: str) -> str:
    """A notebook's magic leaves quotes where a shell takes them off."""
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"" else word


def run(args: argparse.Namespace, session: Session) -> Result:
    described = config.Described(args.nodes, args.gpus, args.gpu_memory, args.cpus, args.memory)
    return config.check(
        args.words, described=described, parameters=args.parameters, model=args.model, timeout=args.timeout
    )


def _parameters(words: str) -> int:
    try:
        return config.parameters_in_words(words)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{words!r} is no number of parameters: 7B, 350M") from None


def _count(words: str) -> int:
    if not words.isdigit() or int(words) < 1:
        raise argparse.ArgumentTypeError(f"{words!r} is no number from 1 on")
    return int(words)


def _size(words: str) -> int:
    """GiB and GB are the same here: cards are sold as 80 GB and have 80 GiB."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *([kmgt]?)(?:i?b)?", words.strip(), re.IGNORECASE)
    if match is None or not float(match[1]) * UNITS[match[2].lower()] >= UNITS["m"]:
        raise argparse.ArgumentTypeError(f"{words!r} is no size: 80GiB")
    return int(float(match[1]) * UNITS[match[2].lower()])
