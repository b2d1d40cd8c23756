"""Write what ``torch.save`` writes, from memory that is named instead of from live storages.

The format is torch's own (a zip of stored records: ``data.pkl``, ``data/0``, ...), so ``torch.load(weights_only=True)`` of any version that
the agent supports reads it. Writing it here rather than with ``torch.save`` is for the trainee's sake: no storage of a live tensor is ever
touched, each byte passes through our hands once (checksum, progress, stop between two pieces), and a full disk is an ``OSError``.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import struct
import sys
import zipfile
from collections import OrderedDict
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from .layout import Layout, Store

ALIGN = 64
BIG = 1 << 31
PIECE_BYTES = 4 << 20
Pieces = Callable[[Store], Iterator[memoryview]]


class Output:
    """A file being written: counts and hashes what goes through. `check` is called before each piece and may raise to stop."""

    def __init__(self, file: Any, check: Callable[[int], None]) -> None:
        self._file, self._check = file, check
        self.offset = 0
        self._hash = hashlib.sha256()

    def write(self, data: Any) -> int:
        """Never a part of `data`: all of it, or an error."""
        view = memoryview(data)
        if view.nbytes:
            view = view.cast("B")
        self._check(view.nbytes)
        done = 0
        while done < view.nbytes:
            done += self._file.write(view[done:])
        self._hash.update(view)
        self.offset += view.nbytes
        return view.nbytes

    def flush(self) -> None:
        """Nothing is buffered here."""

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


def write(output: Output, tree: Any, layout: Layout, pieces: Pieces) -> None:
    """Write `tree`, whose tensors are in `layout`, at the place where `output` is. `pieces` gives the bytes of a store."""
    data, stores = _pickled(tree, layout)
    start = output.offset
    # zipfile is told that it cannot seek, so sizes and checksums come after the data and everything is written in order
    forward: Any = _Forward(output)
    with zipfile.ZipFile(forward, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        records: List[Tuple[str, int, Any]] = [
            ("data.pkl", len(data), [data]),
            ("byteorder", len(sys.byteorder), [sys.byteorder.encode()]),
        ]
        records += [(f"data/{key}", store.nbytes, pieces(store)) for key, store in enumerate(stores)]
        records += [("version", 2, [b"3\n"])]
        for name, size, content in records:
            with archive.open(
                _entry(f"archive/{name}", size, output.offset - start), "w", force_zip64=size >= BIG
            ) as f:
                for piece in content:
                    f.write(piece)


class _Forward:
    """What zipfile sees of an `Output`: it can only be written to."""

    def __init__(self, output: Output) -> None:
        self.write, self.flush = output.write, output.flush


def _entry(name: str, size: int, offset: int) -> zipfile.ZipInfo:
    """The header of a record, padded so that its data are aligned (torch maps files into memory)."""
    entry = zipfile.ZipInfo(name)
    entry.file_size = size
    head = offset + 30 + len(name) + 4 + (20 if size >= BIG else 0)
    padding = -head % ALIGN
    entry.extra = struct.pack("<HH", 0x4246, padding) + b"Z" * padding  # the field that torch pads with
    return entry


def _pickled(tree: Any, layout: Layout) -> Tuple[bytes, List[Store]]:
    stream = io.BytesIO()
    pickler = _Pickler(stream, layout)
    pickler.dump(tree)
    return stream.getvalue(), list(pickler.stores)


class _Pickler(pickle.Pickler):
    """Pickles tensors by where their values lie, and stores by a number, as torch does."""

    def __init__(self, stream: io.BytesIO, layout: Layout) -> None:
        super().__init__(stream, protocol=2)
        self._torch = sys.modules["torch"]
        self._layout = layout
        self._newer: Any = self._torch.storage._new_dtypes()
        self.stores: Dict[Store, int] = {}

    def persistent_id(self, thing: Any) -> Optional[Tuple[Any, ...]]:
        if type(thing) is not Store:
            return None
        key = str(self.stores.setdefault(thing, len(self.stores)))
        if thing.dtype in self._newer:
            return ("storage", self._torch.UntypedStorage, key, "cpu", thing.nbytes)
        name = self._torch.storage._dtype_to_storage_type_map()[thing.dtype]
        return ("storage", getattr(self._torch, name), key, "cpu", thing.numel)

    def reducer_override(self, thing: Any) -> Any:
        if not issubclass(type(thing), self._torch.Tensor):
            return NotImplemented
        rebuild = self._torch._utils
        sparse = self._layout.parts.get(id(thing))
        if sparse is not None:
            indices, values = sparse[1]
            parts = (indices, values, tuple(thing.shape), thing.is_coalesced())
            return rebuild._rebuild_sparse_tensor, (thing.layout, parts)
        leaf = self._layout.leaves[id(thing)]
        common: Tuple[Any, ...] = (leaf.store, leaf.offset, leaf.shape, leaf.stride, False, OrderedDict())
        if leaf.store.dtype in self._newer:
            return rebuild._rebuild_tensor_v3, (*common, leaf.store.dtype)
        return rebuild._rebuild_tensor_v2, common
