"""Another Debian beside this system, for a Python that this machine does not have: real processes with their own files and libraries."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from support import PROGRAMS, REPO, need

INSTALLING_S = 400
SHARED = (str(REPO), tempfile.gettempdir(), "/tmp")


@contextlib.contextmanager
def python_of_debian(suite: str, folder: Path) -> Iterator[Path]:
    """A command that is the Python of Debian's `suite` there, named as that Python is: ``python3.14``.

    It has no torch. What it starts has a mount namespace of its own and shares this system's processes and /tmp. Takes a minute and
    300 MB, which are given back. Skips, with the reason, where there are no means for that; fails in CI.
    """
    need("root, for a container", os.geteuid() == 0)
    for tool in ("debootstrap", "unshare", "pivot_root"):
        need(tool, shutil.which(tool) is not None)
    root = folder / "root"
    try:
        _install(suite, root)
        enter = f"SHARED={':'.join(dict.fromkeys(SHARED))} ROOT={root} exec sh {PROGRAMS / 'in_container.sh'} /usr/bin/python3"
        command = folder / "python"
        command.write_text(f'#!/bin/sh\n{enter} "$@"\n')
        command.chmod(0o755)
        seen = subprocess.run([command, "-V"], capture_output=True, text=True, timeout=60, check=False)
        version = re.match(r"Python (3\.\d+)\.", seen.stdout)
        need(f"a container that can be entered ({seen.stderr.strip()})", version is not None)
        assert version is not None
        yield command.rename(folder / f"python{version[1]}")
    finally:
        shutil.rmtree(root, ignore_errors=True)  # nothing is mounted below it: mounts are in the namespaces of what ran


def _install(suite: str, root: Path) -> None:
    words = ["debootstrap", "--variant=minbase", "--include=python3", suite, str(root), _mirror()]
    contained = ["unshare", "--mount", "--propagation", "private", *words]
    with tempfile.TemporaryFile("w+") as log:
        done = subprocess.run(contained, stdout=log, stderr=log, timeout=INSTALLING_S, check=False)
        log.seek(0)
        need(f"Debian's {suite} from {words[-1]} ({log.read()[-300:].strip()})", done.returncode == 0)


def _mirror() -> str:
    """Where this system has its packages from, if it is a Debian."""
    files = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*.sources")]
    text = "\n".join(file.read_text() for file in files if file.exists())
    found = re.search(r"https?://\S+/debian/?(?=\s)", text)
    return found[0] if found else "http://deb.debian.org/debian"
