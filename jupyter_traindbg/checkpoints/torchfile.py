"""Files written by ``torch.save``: the zip archive of today, the pickle stream of before 1.6, and plain pickles."""

from __future__ import annotations

import io
import math
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, BinaryIO

from ..errors import BadCheckpoint
from ..language import text
from .contents import Loaded
from .pickles import Limits, Read, read_pickle
from .values import StorageRef, TensorEntry, tensors_in

__all__ = ["read_legacy", "read_plain", "read_zip"]

NESTED_KEY = "nested-"
MAGIC = 0x1950A86A20F9469CFC6C
LEGACY_PROTOCOL = 1001
LEGACY_START = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
MOST_ENTRIES = 2_000_000
NUMBERS = {
    "float64": "d", "float32": "f", "float16": "e", "int64": "q", "int32": "i", "int16": "h", "int8": "b", "uint8": "B", "bool": "?",
}  # fmt: skip
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    NotImplementedError,
    RuntimeError,
    OverflowError,
)
"""What `zipfile` raises over a damaged archive; RuntimeError says that it is encrypted."""


# --- zip -------------------------------------------------------------------------------------------------------------


def read_zip(stream: BinaryIO, name: str, limits: Limits | None = None) -> Loaded:
    """The archive in `stream`: only its directory and its pickle are read, and of tensors only what is asked for later.

    Raises `BadCheckpoint` where it is damaged, is another kind of zip file, or declares sizes that it cannot have.
    """
    limits = limits or Limits()
    try:
        archive = zipfile.ZipFile(stream)
        root, sizes = _directory(archive, name)
        info = archive.getinfo(f"{root}data.pkl")
        if info.file_size > limits.bytes:
            raise BadCheckpoint(
                text(
                    "the pickle in {name} is declared as {declared:,} bytes, more than {most:,}: refused as a bomb",
                    name=name,
                    declared=info.file_size,
                    most=limits.bytes,
                )
            )
        with archive.open(info) as packed:
            data = packed.read(limits.bytes + 1)
        if len(data) != info.file_size:
            raise BadCheckpoint(
                text(
                    "the pickle in {name} has {there:,} bytes, and {declared:,} are declared",
                    name=name,
                    there=len(data),
                    declared=info.file_size,
                )
            )
    except _ZIP_ERRORS as e:
        raise BadCheckpoint(text("{name} is a damaged zip archive: {why}", name=name, why=str(e)[:200])) from e
    read = read_pickle(io.BytesIO(data), name, limits, _Nested(name, limits))
    scripted = any(n.startswith("__torch__.") for n in read.names)
    loaded = Loaded("TorchScript archive" if scripted else "torch.save (zip)", read.value, read.names, read.foreign)
    loaded.problems += _storage_problems(read, sizes)
    loaded.number = _from_archive(archive, root)
    return loaded


def _directory(archive: zipfile.ZipFile, name: str) -> tuple[str, dict[str, int]]:
    """The archive's top folder, and the bytes of each storage. Refuses names that lead out of it, links, and zip bombs."""
    entries = archive.infolist()
    if len(entries) > MOST_ENTRIES:
        raise BadCheckpoint(text("{name} has {count:,} entries: refused as a zip bomb", name=name, count=len(entries)))
    for entry in entries:
        if entry.filename.startswith("/") or "\\" in entry.filename or ".." in entry.filename.split("/"):
            raise BadCheckpoint(
                text(
                    "{name} has an entry whose name leads out of it: {entry!r}",
                    name=name,
                    entry=entry.filename[:100],
                )
            )
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise BadCheckpoint(
                text(
                    "{name} has an entry that is a symbolic link: {entry!r}",
                    name=name,
                    entry=entry.filename[:100],
                )
            )
        if entry.compress_type != zipfile.ZIP_STORED and entry.file_size > 1000 * max(entry.compress_size, 1000):
            raise BadCheckpoint(
                text(
                    "{name} has an entry that unpacks to {size:,} bytes: refused as a zip bomb",
                    name=name,
                    size=entry.file_size,
                )
            )
    pickles = [e.filename for e in entries if e.filename.endswith("data.pkl") and e.filename.count("/") <= 1]
    if not pickles:
        raise BadCheckpoint(text("{name} is a zip archive, but not one of torch.save's: it has no data.pkl", name=name))
    root = pickles[0].removesuffix("data.pkl")
    folder = f"{root}data/"
    return root, {e.filename[len(folder) :]: e.file_size for e in entries if e.filename.startswith(folder)}


def _storage_problems(read: Read, sizes: dict[str, int]) -> list[str]:
    """Storages that are not there or too small for their tensors."""
    missing: dict[str, str] = {}
    short: list[str] = []
    for path, entry in tensors_in(read.value):
        storage = entry.storage
        if storage is None or storage.key.startswith(NESTED_KEY):
            continue
        if storage.key not in sizes:
            missing.setdefault(storage.key, ".".join(path))
        elif entry.reach_bytes > sizes[storage.key]:
            short.append(".".join(path))
    problems = []
    if missing:
        problems.append(
            text(
                "the data of {count} tensors is not in the file, first of {first}",
                count=len(missing),
                first=next(iter(missing.values()))[:200],
            )
        )
    if short:
        problems.append(
            text(
                "the data of {count} tensors is shorter than their shapes say, first of {first}",
                count=len(short),
                first=short[0][:200],
            )
        )
    return problems


def _from_archive(archive: zipfile.ZipFile, root: str) -> Callable[[TensorEntry], float | None]:
    order = "little"
    if f"{root}byteorder" in archive.NameToInfo and archive.getinfo(f"{root}byteorder").file_size < 16:
        try:
            order = archive.read(f"{root}byteorder").decode("ascii", "replace").strip()
        except _ZIP_ERRORS:
            return lambda entry: None  # a damaged archive tells no numbers; that it is damaged has been found elsewhere

    def number(entry: TensorEntry) -> float | None:
        if entry.storage is None:
            return None
        try:
            with archive.open(f"{root}data/{entry.storage.key}") as packed:
                return decode(packed, entry, order)
        except (*_ZIP_ERRORS, KeyError):
            return None

    return number


def decode(stream: Any, entry: TensorEntry, order: str) -> float | None:
    """The element at `entry`'s place in a storage that begins where `stream` stands; None where it is not readable or no number."""
    layout = NUMBERS.get(entry.dtype)
    if layout is None or entry.offset > 1_000_000:
        return None
    kind = struct.Struct((">" if order == "big" else "<") + layout)
    stream.read(entry.offset * kind.size)
    data = stream.read(kind.size)
    if len(data) < kind.size:
        return None
    value = float(kind.unpack(data)[0])
    return value if math.isfinite(value) else None


# --- before zip --------------------------------------------------------------------------------------------------------


def read_legacy(stream: BinaryIO, name: str, limits: Limits | None = None) -> Loaded:
    """The stream of pickles that torch wrote before 1.6 (and writes with ``_use_new_zipfile_serialization=False``)."""
    magic = read_pickle(stream, name, limits).value
    protocol = read_pickle(stream, name, limits).value
    if magic != MAGIC or protocol != LEGACY_PROTOCOL:
        raise BadCheckpoint(
            text("{name} has the form of torch's before 0.4 or a damaged head: not supported", name=name)
        )
    system = read_pickle(stream, name, limits).value
    read = read_pickle(stream, name, limits, _Nested(name, limits or Limits()))
    keys = read_pickle(stream, name, limits).value
    if not isinstance(keys, list) or not isinstance(system, dict):
        raise BadCheckpoint(text("{name} is damaged: the list of its storages is none", name=name))
    order = "little" if system.get("little_endian", True) else "big"
    places = _legacy_places(stream, [str(key) for key in keys if isinstance(key, (str, int))], read.storages, order)
    loaded = Loaded("torch.save (before 1.6)", read.value, read.names, read.foreign)
    loaded.problems += _storage_problems(read, {key: size for key, (_, size) in places.items()})

    def number(entry: TensorEntry) -> float | None:
        if entry.storage is None or entry.storage.key not in places:
            return None
        stream.seek(places[entry.storage.key][0])
        return decode(stream, entry, order)

    loaded.number = number
    return loaded


def _legacy_places(
    stream: BinaryIO, keys: list[str], refs: dict[str, StorageRef], order: str
) -> dict[str, tuple[int, int]]:
    """Where each storage's elements begin and how many bytes are there, as far as the file goes."""
    at = stream.tell()
    end = stream.seek(0, io.SEEK_END)
    places: dict[str, tuple[int, int]] = {}
    for key in keys:
        stream.seek(at)
        head = stream.read(8)
        ref = refs.get(key)
        if (
            len(head) < 8 or ref is None
        ):  # a storage that no tensor uses has no known element size: what follows it is not found
            break
        numel = int.from_bytes(head, "little" if order == "little" else "big", signed=True)
        if numel != ref.numel:
            break
        size = ref.bytes
        places[key] = (at + 8, max(0, min(size, end - at - 8)))
        at += 8 + size
    return places


def read_plain(stream: BinaryIO, name: str, limits: Limits | None = None) -> Loaded:
    """One plain pickle, as ``pickle.dump`` writes it."""
    read = read_pickle(stream, name, limits, _Nested(name, limits or Limits()))
    return Loaded(
        "pickle", read.value, read.names, read.foreign, notes=[f"{name} is a plain pickle: torch.load does not read it"]
    )


class _Nested:
    """Reads files of torch.save that lie in a pickle as bytes. The storages in them get names of their own: they all count from 0."""

    def __init__(self, name: str, limits: Limits) -> None:
        self.name, self.limits, self.count = name, limits, 0

    def __call__(self, data: bytes) -> Any:
        if self.limits.nested <= 0:
            raise BadCheckpoint(
                text("the pickle in {name} has pickles in pickles, too many levels deep: refused", name=self.name)
            )
        self.count += 1
        reader = read_zip if data.startswith(b"PK") else read_legacy
        value = reader(io.BytesIO(data), self.name, replace(self.limits, nested=self.limits.nested - 1)).value
        return replace(value, key=f"{NESTED_KEY}{self.count}") if isinstance(value, StorageRef) else value
