"""What travels into a process: the agent's source as a zip, and the few lines that start it there.

It travels under a name of its own, so that it never meets an installed jupyter_traindbg of another version, and takes its own
modules out again when it leaves.
"""

from __future__ import annotations

import io
import zipfile
from functools import lru_cache
from pathlib import Path

from .._version import __version__

NAME = "_traindbg_agent"
ARCHIVE = "agent.zip"


@lru_cache(maxsize=1)
def archive() -> bytes:
    """The agent package as an uncompressed zip (zlib may be missing over there)."""
    root = Path(__file__).parent.parent / "agent"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as z:
        for file in sorted(root.rglob("*.py")):
            z.writestr(f"{NAME}/{file.relative_to(root)}", file.read_bytes())
    return buffer.getvalue()


def boot(directory: str) -> str:
    """Python source that starts the agent in `directory` (as the target sees it), where `ARCHIVE` lies already.

    It leaves ``sys.path`` as it found it and raises what goes wrong.
    """
    return f"""\
import sys
archive = {directory + "/" + ARCHIVE!r}
sys.path.insert(0, archive)
try:
    import {NAME} as agent
finally:
    sys.path.remove(archive)
agent.start({directory!r}, version={__version__!r})
"""
