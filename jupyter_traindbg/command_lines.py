"""What a command line says of a process: the program that Python runs, a launcher of ranks, a Jupyter kernel, a helper. Pure functions."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence

__all__ = [
    "connection_file",
    "is_helper",
    "is_launcher",
    "is_of_a_fork_server",
    "is_rays",
    "is_tracker",
    "kernel_name",
    "launched_by",
    "program",
    "words",
    "written",
]

_LAUNCHER_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torch.distributed.launch",
    "deepspeed.launcher.launch": "deepspeed",
    "accelerate.commands.launch": "accelerate launch",
}
_LAUNCHER_SCRIPTS = {"torchrun": "torchrun", "accelerate-launch": "accelerate launch", "deepspeed": "deepspeed"}
"""Both with what people call them."""
_TRACKERS = ("multiprocessing.resource_tracker", "multiprocessing.semaphore_tracker")
_FORK_SERVER = "multiprocessing.forkserver"
_HELPERS = (
    *_TRACKERS,
    "torch/_inductor/compile_worker/",
    "ray-dashboard-",
)
"""Words in the command line of processes that only serve others."""
_HELPING_PROGRAMS = ("py-spy",)
_RAYS = (
    "ray/raylet/raylet",
    "ray/gcs/gcs_server",
    "ray/dashboard/dashboard.py",
    "ray/autoscaler/_private/monitor.py",
    "ray/_private/log_monitor.py",
    "ray.util.client.server",
    "ray::DashboardAgent",
    "ray::RuntimeEnvAgent",
    "ray-dashboard-",
)
"""What a cluster consists of, and ``ray.init()`` starts below the program that calls it."""
_KERNEL_ID = re.compile(r"kernel-([^/]+)\.json$")


def is_helper(command: Sequence[str]) -> bool:
    """Whether a process only serves others, as helpers of multiprocessing and of the compiler do."""
    if any(os.path.basename(part) in _HELPING_PROGRAMS for part in command[:2]):
        return True
    return any(word in part for part in command for word in _HELPERS)


def is_tracker(command: Sequence[str]) -> bool:
    """Whether a process is one of those in which multiprocessing keeps account of what is shared."""
    return any(word in part for part in command for word in _TRACKERS)


def is_of_a_fork_server(command: Sequence[str]) -> bool:
    """Whether a process forks for multiprocessing (by default from Python 3.14 on), or was forked so: both have this command line."""
    return any(_FORK_SERVER in part for part in command)


def is_rays(command: Sequence[str]) -> bool:
    """Whether a process is one of those that a Ray cluster consists of: no child of the program that has started the cluster."""
    return any(word in part for part in command[:4] for word in _RAYS)


def program(command: Sequence[str]) -> tuple[str, str, Sequence[str]]:
    """``("module", name, arguments)`` or ``("script", path, arguments)`` of a Python command line; ``("", "", ())``
    for neither.
    """
    words = iter(range(1, len(command)))
    for i in words:
        if command[i] == "-m" and i + 1 < len(command):
            return "module", command[i + 1], command[i + 2 :]
        if command[i] == "-c":
            break
        if command[i] in ("-X", "-W"):
            next(words, None)
        elif not command[i].startswith("-"):
            return "script", command[i], command[i + 1 :]
    return "", "", ()


def launched_by(command: Sequence[str]) -> tuple[str, Sequence[str]] | None:
    """The launcher of ranks that a command line runs, as people call it, and its arguments; None where it runs none."""
    if not command or "python" not in os.path.basename(command[0]):
        return None
    kind, name, arguments = program(command)
    script = os.path.basename(name)
    if script == "accelerate" and list(arguments[:1]) == ["launch"]:
        script, arguments = "accelerate-launch", arguments[1:]
    launcher = _LAUNCHER_MODULES.get(name) if kind == "module" else _LAUNCHER_SCRIPTS.get(script)
    return None if launcher is None else (launcher, arguments)


def is_launcher(command: Sequence[str]) -> bool:
    """Whether a command line is that of torchrun or another launcher of ranks."""
    return launched_by(command) is not None


def connection_file(command: Sequence[str]) -> str | None:
    """The connection file of an ipykernel, or None where the process is none."""
    kind, name, arguments = program(command)
    if not kind or "ipykernel" not in os.path.basename(name):
        return None
    for flag, value in zip(arguments, [*arguments[1:], ""], strict=True):
        if flag == "-f" and value:
            return value
        if flag.startswith(("-f=", "--f=", "--IPKernelApp.connection_file=")):
            return flag.split("=", 1)[1]
    return None


def kernel_name(connection_file: str) -> str:
    """The id where the file is named in Jupyter's way, else the file itself."""
    by_id = _KERNEL_ID.search(connection_file)
    return by_id.group(1) if by_id else connection_file


def written(command: Sequence[str]) -> str:
    """A command line as one would type it, quoted where a shell needs it. A single word, the title of a process, is as it is."""
    return command[0] if len(command) == 1 else shlex.join(command)


def words(line: str) -> list[str]:
    """The words of what `written` wrote. A line that is no shell's (a title, an open quote) is split at its spaces."""
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()
