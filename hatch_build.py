"""Build hook: compiles native/boot.c into native/boot.so, so that the wheel can attach to unprepared processes by pid.

The object uses no Python ABI: one wheel per machine type serves every Python. Without a C compiler, or outside Linux, a pure wheel is
built, which does everything else and says what is missing. ``python hatch_build.py`` compiles in place.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

AUTOSTART = "traindbg_autostart.pth"
NATIVE = Path(__file__).parent / "jupyter_traindbg" / "native"
# -fno-plt and the sibling calls: boot.c unmaps itself, so nothing that runs afterwards may lie in it. -nostdlib: see boot.c.
FLAGS = [
    "-shared", "-fPIC", "-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror=implicit-function-declaration", "-fvisibility=hidden",
    "-foptimize-sibling-calls", "-fno-plt", "-fno-stack-protector", "-U_FORTIFY_SOURCE", "-nostdlib", "-s",
    "-Wl,-z,noexecstack", "-Wl,-z,relro", "-Wl,-z,now", "-Wl,--build-id=none",
]  # fmt: skip
COMPILE_LIMIT_S = 120


def compile_boot(source: Path = NATIVE / "boot.c", output: Path = NATIVE / "boot.so") -> str | None:
    """Compile boot.c; returns why it could not be done, or None. Nothing stale is left where it fails. Takes about 0.1 s."""
    problem = _compile(source, output)
    if problem is not None:
        output.unlink(missing_ok=True)
    return problem


def _compile(source: Path, output: Path) -> str | None:
    if sys.platform != "linux":
        return f"attaching by pid needs Linux, this is {sys.platform}"
    compiler = shlex.split(os.environ.get("CC") or "cc")
    if shutil.which(compiler[0]) is None:
        return f"there is no C compiler ({compiler[0]}): install one (Debian: apt install gcc libc6-dev) and reinstall"
    draft = output.with_suffix(f".{os.getpid()}.so")
    command = [*compiler, *FLAGS, "-o", str(draft), str(source)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_LIMIT_S, check=False)
        if done.returncode != 0:
            return f"`{shlex.join(command)}` failed: {done.stderr.strip()}"
        draft.replace(output)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the C compiler did not run: {error}"
    finally:
        draft.unlink(missing_ok=True)
    return None


class NativeBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles for wheels and editable installs, and tags the wheel for this machine where that worked."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # Beside the packages, where the interpreter reads it at start: what makes `TRAINDBG=1 python train.py` work.
        kind = "force_include_editable" if version == "editable" else "force_include"
        build_data[kind][str(Path(__file__).with_name(AUTOSTART))] = AUTOSTART
        problem = compile_boot()
        if problem is not None:
            self.app.display_warning(f"jupyter-traindbg is built without attaching by pid: {problem}")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-linux_{platform.machine()}"


if __name__ == "__main__":
    trouble = compile_boot()
    if trouble is not None:
        sys.exit(trouble)
