"""Say before a run what will go wrong with it: its configuration or command against this machine or a Ray cluster, with the arithmetic."""

from __future__ import annotations

import argparse
import functools
import json
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import UsageError
from ..job import DEADLINE_S
from ..language import text
from ..model import Result
from ..preflight import config
from .base import Session
from .parser import PATH, completed_by

Parse = Callable[..., Any]
TRIAL_S = 60.0
UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}

EXAMPLES = (
    ("train.yaml", "what will go wrong with this configuration on this machine"),
    ("-- torchrun --nproc-per-node 4 train.py", "of a command, as it would be typed"),
    ("train.yaml --ray auto --workers 100", "on the machines of a Ray cluster"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    words = parser.add_argument(
        "words",
        nargs="*",
        metavar="CONFIG | a.b=value | -- COMMAND LINE",
        help="configuration files (YAML, JSON, TOML, or a shell script that holds the command), overrides, and after -- a command line as"
        " it would be started; none: this machine and its environment alone",
    )
    completed_by(words, PATH)
    parser.add_argument(
        "--parameters",
        type=_parameters,
        metavar="N",
        help="the model's size where the configuration does not say it: 7B",
    )
    model = parser.add_argument(
        "--model",
        metavar="PATH",
        help="the model's config.json or its directory, on this machine; nothing is downloaded",
    )
    completed_by(model, PATH)
    parser.add_argument(
        "--gpus", type=_count, metavar="N", help="GPUs of the machine that it is to run on (default: those here)"
    )
    parser.add_argument(
        "--gpu-memory", type=_size, metavar="SIZE", help="memory of each of them: 80GiB (default: of those here)"
    )
    parser.add_argument("--cpus", type=_count, metavar="N", help="its cores")
    parser.add_argument("--memory", type=_size, metavar="SIZE", help="its memory: 1TiB")
    parser.add_argument("--nodes", type=_count, metavar="N", help="how many such machines there are")
    _on_ray(parser.add_argument_group("on a Ray cluster"))
    parser.parse_known_args = functools.partial(_before_the_command, parser.parse_known_args)  # type: ignore[method-assign]


def _on_ray(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="the resources of this cluster in place of this machine's: auto, host:port, ray://host:port, or its dashboard",
    )
    group.add_argument(
        "--workers",
        metavar="N|KEY",
        help="how many Ray workers the run starts, or the key of the configuration that says so",
    )
    group.add_argument(
        "--each", type=_resources, default={}, metavar="CPU=1,GPU=0.25", help="what every one of them asks Ray for"
    )
    group.add_argument(
        "--time-worker",
        nargs="?",
        const="",
        metavar="MODULE:CLASS",
        help="start one worker on the cluster, time it, and end it again (none named: the configuration's _target_)",
    )
    group.add_argument(
        "--init", type=_named, default={}, metavar="JSON", help='the arguments of its __init__: \'{"device": "cpu"}\''
    )
    group.add_argument("--call", metavar="METHOD", help="a method of it that is called once")
    group.add_argument("--call-with", type=_listed, default=[], metavar="JSON", help="that call's arguments: '[1, 2]'")
    group.add_argument(
        "--working-dir", metavar="DIR", help="a directory that Ray brings to the node (default: what is there already)"
    )


def _before_the_command(parse: Parse, args: Sequence[str] | None = None, namespace: Any = None) -> Any:
    """`parse` what stands before ``--``; what follows is a command line with options of its own, which argparse would take for ours where
    a configuration and an option of ours stand before it.
    """
    words = list(sys.argv[1:] if args is None else args)
    at = words.index("--") if "--" in words else len(words)
    found, unknown = parse(words[:at], namespace)
    found.words = [*(found.words or []), *words[at + 1 :]]
    return found, unknown


def deadline_s(args: argparse.Namespace) -> float:
    """A worker may take its time."""
    return DEADLINE_S if args.time_worker is None else TRIAL_S


def run(args: argparse.Namespace, session: Session) -> Result:
    described = config.Described(args.nodes, args.gpus, args.gpu_memory, args.cpus, args.memory)
    return config.check(
        args.words,
        described=described,
        parameters=args.parameters,
        model=args.model,
        ray=_cluster(args),
        timeout=args.timeout,
    )


def _cluster(args: argparse.Namespace) -> config.OnRay | None:
    """What is said of Ray; `UsageError` where it is said without a cluster."""
    named = {
        "--time-worker": args.time_worker is not None,
        "--init": args.init,
        "--call": args.call,
        "--each": args.each,
    }
    named |= {"--working-dir": args.working_dir, "--workers": args.workers}
    if args.ray is None:
        lonely = next((option for option, given in named.items() if given), None)
        if lonely is not None:
            raise UsageError(
                text("{option} is about a Ray cluster, and none is named", option=lonely),
                text("add --ray auto, or its address"),
            )
        return None
    worker = None
    if args.time_worker is not None:
        name = args.time_worker or None
        worker = config.Worker(name, args.init, args.call, args.call_with, args.working_dir)
    elif args.init or args.call or args.working_dir:
        raise UsageError(
            text("--init, --call and --working-dir are for a worker to time"), text("add --time-worker MODULE:CLASS")
        )
    return config.OnRay(args.ray, args.workers, args.each, worker)


def _resources(words: str) -> dict[str, float]:
    """``CPU=1,GPU=0.25,memory=2GiB``, by Ray's names."""
    found: dict[str, float] = {}
    for part in words.split(","):
        name, equals, value = part.strip().partition("=")
        name = {"cpu": "CPU", "gpu": "GPU"}.get(name.lower(), name)
        try:
            found[name] = float(_size(value)) if name == "memory" and not value.isdigit() else float(value)
        except ValueError:
            equals = ""
        if not equals or not name or not 0 <= found[name] < float("inf"):
            raise argparse.ArgumentTypeError(
                text("{part!r} is no resource: CPU=1, GPU=0.25, memory=2GiB", part=part.strip())
            )
    return found


def _named(words: str) -> dict[str, Any]:
    found: dict[str, Any] = _json(words, dict, '{"device": "cpu"}')
    return found


def _listed(words: str) -> list[Any]:
    found: list[Any] = _json(words, list, "[1, 2]")
    return found


def _json(words: str, kind: type, like: str) -> Any:
    try:
        found = json.loads(words)
    except ValueError:
        found = None
    if not isinstance(found, kind):
        raise argparse.ArgumentTypeError(text("{words!r} is no JSON such as {like}", words=words, like=like))
    return found


def _parameters(words: str) -> int:
    try:
        return config.parameters_in_words(words)
    except ValueError:
        raise argparse.ArgumentTypeError(
            text("{words!r} is no number of parameters such as 7B or 350M", words=words)
        ) from None


def _count(words: str) -> int:
    if not words.isdigit() or int(words) < 1:
        raise argparse.ArgumentTypeError(text("{words!r} is no number from 1 on", words=words))
    return int(words)


def _size(words: str) -> int:
    """GiB and GB are the same here: cards are sold as 80 GB and have 80 GiB."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *([kmgt]?)(?:i?b)?", words.strip(), re.IGNORECASE)
    if match is None or not float(match[1]) * UNITS[match[2].lower()] >= UNITS["m"]:
        raise argparse.ArgumentTypeError(text("{words!r} is no size such as 80GiB", words=words))
    return int(float(match[1]) * UNITS[match[2].lower()])
