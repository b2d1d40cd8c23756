"""What travels into a process: the agent's source as a zip, and the few lines that start it there.

It travels under a name of its own, so that it never meets an installed jupyter_traindbg of another version, and takes its own
modules out again when it leaves.
"""

from __future__ import annotations

import importlib.util
import io
import struct
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
            name = f"{NAME}/{file.relative_to(root)}"
            z.writestr(name, file.read_bytes())
            compiled = _compiled(file)
            if compiled is not None:
                z.writestr(name + "c", compiled)
    return buffer.getvalue()


def _compiled(file: Path) -> bytes | None:
    """The bytecode of `file` where the import system has left it, as one that needs no source to be compared with.

    A target with the same Python starts the agent four times faster with it; any other one sees by its first bytes that it is not its own,
    and compiles the source. (The format: PEP 552.)
    """
    try:
        content = Path(importlib.util.cache_from_source(str(file))).read_bytes()
    except (OSError, NotImplementedError):
        return None  # nobody has imported it yet, or bytecode is switched off
    source = file.stat()
    made_from = struct.pack("<III", 0, int(source.st_mtime) & 0xFFFFFFFF, source.st_size & 0xFFFFFFFF)
    if content[:4] != importlib.util.MAGIC_NUMBER or content[4:16] != made_from:
        return None
    unchecked = struct.pack("<I", 1)
    return content[:4] + unchecked + importlib.util.source_hash(file.read_bytes()) + content[16:]


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
