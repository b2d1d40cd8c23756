"""Open any checkpoint: tell its format by its bytes, not by its name, and sort what is in it into `Contents`. Nothing is executed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from ..errors import BadCheckpoint, UsageError
from ..language import later, text
from . import manifest
from .contents import Contents, Loaded, absorb
from .safetensors import read_safetensors
from .torchfile import LEGACY_START, read_legacy, read_plain, read_zip
from .values import shown

__all__ = ["SUFFIXES", "read", "read_into"]

SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".pkl", ".pickle", ".tar", ".th")
STRANGERS = (
    (b"GGUF", later("a GGUF file (llama.cpp)")),
    (b"\x89HDF", later("an HDF5 file (Keras)")),
    (b"\x93NUMPY", later("a NumPy array")),
    (b"\x1f\x8b", later("compressed with gzip: unpack it first")),
    (b"\x28\xb5\x2f\xfd", later("compressed with zstd: unpack it first")),
    (b"version https://git-lfs", later("a pointer of Git LFS: the file itself was not downloaded (`git lfs pull`)")),
)


def read(path: str | os.PathLike[str]) -> Contents:
    """What a checkpoint holds: a file of torch.save or safetensors, or a directory (Hugging Face, DCP, DeepSpeed, accelerate, ours).

    Reads headers and pickles, not the tensors' data: milliseconds to a second. Raises `UsageError` where there is nothing at `path`,
    `BadCheckpoint` where it cannot be read, `UnsafeCheckpoint` where loading it would run code.
    """
    at = Path(path)
    try:
        if not at.exists():
            manifest.read(at)  # says whether it was never finished, or that there is nothing
        if at.is_dir():
            from .directories import read_directory

            return told(read_directory(at))
        contents = Contents(str(at), "", at.stat().st_size, [at.name])
        contents.format = read_into(contents, at)
    except (OSError, ValueError) as e:
        why = (e.strerror if isinstance(e, OSError) else None) or str(e)
        raise UsageError(
            text("{path} cannot be read: {why}", path=shown(at), why=why), text("name a checkpoint file or directory")
        ) from e
    return told(contents)


def told(contents: Contents) -> Contents:
    """`contents` with its problems, which name what was found in files, made fit to be printed."""
    contents.problems = [shown(problem, 500) for problem in contents.problems]
    return contents


def read_into(contents: Contents, file: Path) -> str:
    """Add what is in `file` to `contents`; the format's name."""
    if not file.is_file():
        raise BadCheckpoint(text("{path} is no regular file", path=shown(file)))
    with file.open("rb") as stream:
        loaded = _reader(stream, file)(stream, shown(file.name))
        stem = file.name.split(".")[0]
        absorb(contents, loaded, file.name, stem)
        if loaded.format != "safetensors":
            contents.refused += [file.name] * bool(loaded.foreign)
            contents.classes = sorted({*(contents.classes or ()), *loaded.foreign})
    return _dialect(loaded)


def _reader(stream: BinaryIO, file: Path) -> Callable[[BinaryIO, str], Loaded]:
    head = stream.read(512)
    stream.seek(0)
    if not head:
        raise BadCheckpoint(text("{path} is empty", path=shown(file)))
    if head.startswith(b"PK\x03\x04"):
        return read_zip
    if head.startswith(LEGACY_START):
        return read_legacy
    if file.suffix == ".safetensors" or head[8:10] in (b'{"', b"{ ", b"{}"):
        return read_safetensors
    if head[257:262] == b"ustar":
        raise BadCheckpoint(
            text("{path} is a tar archive, as torch wrote before 0.4: not supported", path=shown(file)),
            text("save it again with torch 1.0 or newer"),
        )
    for start, what in STRANGERS:
        if head.startswith(start):
            raise BadCheckpoint(
                text("{path} is {what}", path=shown(file), what=text(what)),
                text("checkpoints of torch, safetensors and DCP are read"),
            )
    if (head[0] == 0x80 and len(head) > 1 and 2 <= head[1] <= 5) or file.suffix in SUFFIXES:
        return read_plain
    raise BadCheckpoint(
        text(
            "{path} is no checkpoint of torch or safetensors: its first bytes are {bytes}",
            path=shown(file),
            bytes=head[:8].hex(" "),
        )
    )


def _dialect(loaded: Loaded) -> str:
    """Whose way of writing a checkpoint it is, where that shows."""
    top = loaded.value if isinstance(loaded.value, dict) else {}
    if "pytorch-lightning_version" in top:
        return f"Lightning, {loaded.format}"
    if "ds_config" in top or "ds_version" in top:
        return f"DeepSpeed, {loaded.format}"
    return loaded.format
