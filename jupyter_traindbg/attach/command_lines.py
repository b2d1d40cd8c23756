"""What a command line says of a process: the program that Python runs, a launcher of ranks, a Jupyter kernel, a helper. Pure functions."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

__all__ = ["connection_file", "is_helper", "is_launcher", "is_rays", "kernel_name", "program"]

_LAUNCHER_MODULES = (
    "torch.distributed.run",
    "torch.distributed.launch",
    "deepspeed.launcher.launch",
    "accelerate.commands.launch",
)
_LAUNCHER_SCRIPTS = ("torchrun", "accelerate-launch", "deepspeed")
_HELPERS = (
    "multiprocessing.resource_tracker",
    "multiprocessing.semaphore_tracker",
    "compile_worker",
    "py-spy",
    "ray-dashboard-",
)
"""Words in the command line of processes that only serve others."""
_RAYS = (
    "ray/raylet/raylet",
    "ray/gcs/gcs_server",
    "ray/dashboard/dashboard.py",
    "ray/autoscaler/_private/monitor.py",
    "ray/_private/log_monitor.py",
    "ray.util.client.server",
)
"""What a cluster consists of, and ``ray.init()`` starts below the program that calls it."""
_KERNEL_ID = re.compile(r"kernel-([^/]+)\.json$")


def is_helper(command: Sequence[str]) -> bool:
    """Whether a process only serves others, as helpers of multiprocessing and of the compiler do."""
    return any(word in part for part in command for word in _HELPERS)


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


def is_launcher(command: Sequence[str]) -> bool:
    """Whether a command line is that of torchrun or another launcher of ranks."""
    if not command or "python" not in os.path.basename(command[0]):
        return False
    kind, name, arguments = program(command)
    if kind == "module":
        return name in _LAUNCHER_MODULES
    script = os.path.basename(name)
    return script in _LAUNCHER_SCRIPTS or (script == "accelerate" and list(arguments[:1]) == ["launch"])


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
