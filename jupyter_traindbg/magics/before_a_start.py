"""The options of ``nccl-check --preflight``: those of torchrun, and what to look at besides."""

from __future__ import annotations

import argparse

from ..errors import UsageError
from ..language import text
from ..model import Preflight
from ..questions.jobless import preflight
from ..questions.jobless.preflight import DEFAULT_PORT, PlannedJob

__all__ = ["add_arguments", "asked", "run"]


OPTIONS = ("nnodes", "nproc_per_node", "rdzv_endpoint", "master_addr", "master_port", "hosts", "backend", "all_reduce")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything about a job that is not there yet; ``--preflight`` itself asks for it."""
    group = parser.add_argument_group("before a start")
    group.add_argument(
        "--preflight",
        action="store_true",
        help="look at this machine and the ways to the others before a job is started, or while it does not come up",
    )
    group.add_argument("--nnodes", metavar="N", help="machines, as for torchrun (of MIN:MAX, MAX counts; default 1)")
    group.add_argument(
        "--nproc-per-node", metavar="N", help="processes on each: a number, or gpu (default: the GPUs here, else 1)"
    )
    group.add_argument("--rdzv-endpoint", metavar="HOST[:PORT]", help="where they meet, as for torchrun")
    group.add_argument("--master-addr", metavar="HOST", help="the same, as MASTER_ADDR")
    group.add_argument("--master-port", type=int, metavar="PORT", help=f"and MASTER_PORT (default {DEFAULT_PORT})")
    group.add_argument(
        "--hosts", nargs="+", metavar="HOST", help="the other machines: is there a way to them, and how far is it?"
    )
    group.add_argument("--backend", choices=("nccl", "gloo"), help="default: nccl where there are GPUs")
    group.add_argument(
        "--all-reduce",
        type=int,
        metavar="N",
        help="try the backend among N processes here, with time and bandwidth; takes some seconds",
    )


def asked(args: argparse.Namespace) -> bool:
    """Whether the command line asks for it: any of its options does."""
    return bool(args.preflight) or any(getattr(args, name) is not None for name in OPTIONS)


def run(args: argparse.Namespace) -> Preflight:
    """The answer to what `add_arguments` made of the command line. Raises `UsageError`."""
    if getattr(args, "target", None) is not None:
        raise UsageError(
            text("--preflight looks at this machine, and {target!r} is a job or a dump", target=args.target),
            text("leave one of the two out"),
        )
    address, port = _endpoint(args)
    job = PlannedJob(
        nodes=_nodes(args.nnodes),
        per_node=_per_node(args.nproc_per_node),
        address=address,
        port=port,
        hosts=tuple(part for words in args.hosts or () for part in words.split(",") if part),
        backend=args.backend,
        all_reduce=args.all_reduce,
    )
    return preflight.ask(job, timeout=args.timeout)


def _endpoint(args: argparse.Namespace) -> tuple[str | None, int | None]:
    if args.rdzv_endpoint and args.master_addr:
        raise UsageError(text("--rdzv-endpoint and --master-addr say the same"), text("give one of them"))
    if not args.rdzv_endpoint:
        return args.master_addr, args.master_port
    host, colon, port = (
        args.rdzv_endpoint.rpartition(":") if not args.rdzv_endpoint.endswith("]") else (args.rdzv_endpoint, "", "")
    )
    if not colon:
        return args.rdzv_endpoint.strip("[]"), args.master_port
    if not port.isdigit():
        raise UsageError(
            text("{words!r} is no HOST:PORT", words=args.rdzv_endpoint),
            text("write it as for torchrun: node1:29400"),
        )
    return host.strip("[]"), int(port)


def _nodes(words: str | None) -> int:
    if words is None:
        return 1
    most = words.rpartition(":")[2]
    if not most.isdigit() or int(most) < 1:
        raise UsageError(text("--nnodes {words!r} is no number of machines", words=words), text("a number, or MIN:MAX"))
    return int(most)


def _per_node(words: str | None) -> int | None:
    if words is None or words in ("gpu", "auto"):
        return None
    if not words.isdigit() or int(words) < 1:
        raise UsageError(
            text("--nproc-per-node {words!r} is no number of processes", words=words), text("a number, or gpu")
        )
    return int(words)
