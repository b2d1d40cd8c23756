"""The few calls that checkpoints are made of, as plain data: tensors, storages, dtypes, sizes, ordered dicts, numbers of numpy.

A builder gets the arguments of the call and returns what stands for its result. It checks what it takes; ValueError or TypeError where
the arguments make no sense. Argument lists follow ``torch/_utils.py`` and ``torch/storage.py`` (torch 2.4 to 2.13).
"""

from __future__ import annotations

import posixpath
import struct
from collections.abc import Callable
from typing import Any

from .values import DTYPES, DType, Global, Opaque, StorageRef, TensorEntry, hashable, shown

__all__ = ["BUILDERS", "dtype_name", "enum_member", "persistent", "weights_only"]

Builder = Callable[[tuple[Any, ...]], Any]

STORAGES = {
    "Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32", "Short": "int16",
    "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexDouble": "complex128", "ComplexFloat": "complex64", "QUInt8": "quint8",
    "QInt8": "qint8", "QInt32": "qint32", "QUInt4x2": "quint4x2", "QUInt2x4": "quint2x4", "Untyped": "uint8",
}  # fmt: skip
MOST_DIMENSIONS = 64
LARGEST = 2**63


# --- arguments -----------------------------------------------------------------------------------------------------


def _shape(value: Any) -> tuple[int, ...]:
    if not isinstance(value, (tuple, list)) or len(value) > MOST_DIMENSIONS:
        raise ValueError("a shape is no tuple of numbers")
    return tuple(_count(n) for n in value)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < LARGEST:
        raise ValueError("a size is no number of elements")
    return value


def _strides(value: Any) -> tuple[int, ...]:
    return _shape(value)


def _storage(value: Any) -> StorageRef:
    if not isinstance(value, StorageRef):
        raise ValueError("a tensor without a storage")
    return value


def dtype_name(value: Any) -> str:
    """The name of a dtype, however it is written down; ValueError where it is none."""
    if isinstance(value, DType):
        return value.name
    if isinstance(value, Global) and value.module == "torch" and value.name in DTYPES:
        return value.name
    raise ValueError("a dtype that torch does not have")


# --- tensors -------------------------------------------------------------------------------------------------------


def _dense(args: tuple[Any, ...], dtype: str | None = None) -> TensorEntry:
    """``(storage, offset, size, stride, ...)``, which all dense tensors begin with."""
    storage, shape = _storage(args[0]), _shape(args[2])
    stride = _strides(args[3])
    if len(stride) != len(shape):
        raise ValueError("a stride for each dimension is missing")
    return TensorEntry(shape, dtype or storage.dtype, storage, _count(args[1]), stride)


def _dense_v3(args: tuple[Any, ...]) -> TensorEntry:
    return _dense(args, dtype_name(args[6]))


def _same(args: tuple[Any, ...]) -> Any:
    """The first argument, dressed up: a parameter is its data, with or without attributes."""
    return args[0]


def _from_type(args: tuple[Any, ...]) -> Any:
    """``(function, type, arguments, state)``: a tensor with attributes, or of a subclass."""
    function, inner = args[0], args[2]
    if isinstance(function, Global) and isinstance(inner, tuple):
        build = BUILDERS.get(function.path)
        if build is not None:
            return build(inner)
    return Opaque(Global("torch._tensor", "_rebuild_from_type_v2"), args)


def _meta(args: tuple[Any, ...]) -> TensorEntry:
    return TensorEntry(_shape(args[1]), dtype_name(args[0]))


def _wrapper(args: tuple[Any, ...]) -> TensorEntry:
    """``(class, dtype, size, ...)``: a tensor subclass; a DTensor's size is the global one."""
    return TensorEntry(_shape(args[2]), dtype_name(args[1]))


def _sparse(args: tuple[Any, ...]) -> TensorEntry:
    """``(layout, (indices, values, size, ...))`` for COO, ``(layout, (compressed, plain, values, size))`` for the others."""
    parts = args[1]
    if not isinstance(parts, tuple):
        raise ValueError("a sparse tensor without its parts")
    values = [p for p in parts if isinstance(p, TensorEntry)]
    sizes = [p for p in parts if isinstance(p, tuple)]
    if not values or not sizes:
        raise ValueError("a sparse tensor without values or size")
    return TensorEntry(_shape(sizes[-1]), values[-1].dtype)


def _moved(args: tuple[Any, ...]) -> Any:
    """``(data, dtype, device, requires_grad)``: from a CPU tensor, or a numpy array (whose shape is in its state, unread)."""
    data = args[0]
    return (
        TensorEntry(data.shape, dtype_name(args[1]))
        if isinstance(data, TensorEntry)
        else Opaque(Global("torch", "Tensor"), args)
    )


# --- small things --------------------------------------------------------------------------------------------------


def _dict(args: tuple[Any, ...]) -> Any:
    """An OrderedDict, Counter or defaultdict: their items follow, or come as pairs, or as a dict."""
    for given in args:
        if isinstance(given, dict):
            return dict(given)
        if isinstance(given, list):
            return {hashable(pair[0]): pair[1] for pair in given if isinstance(pair, (list, tuple)) and len(pair) == 2}
    return {}


def _sequence(args: tuple[Any, ...]) -> list[Any]:
    return list(args[0]) if args and isinstance(args[0], (list, tuple)) else []


def _set(args: tuple[Any, ...]) -> set[Any]:
    return {hashable(v) for v in _sequence(args)}


def _size(args: tuple[Any, ...]) -> tuple[int, ...]:
    return _shape(args[0]) if args else ()


def _encode(args: tuple[Any, ...]) -> Any:
    """How protocol 2 writes bytes."""
    if len(args) == 2 and isinstance(args[0], str) and args[1] in ("latin1", "latin-1"):
        return args[0].encode("latin-1")
    return Opaque(Global("_codecs", "encode"), ())


def _bytes(args: tuple[Any, ...]) -> bytes:
    first = args[0] if args else b""
    return first if isinstance(first, bytes) else b""


def _path(args: tuple[Any, ...]) -> str:
    return posixpath.join("", *(part for part in args if isinstance(part, str)))


_NUMBERS = {
    "f8": "d", "f4": "f", "f2": "e", "i8": "q", "i4": "i", "i2": "h", "i1": "b", "u8": "Q", "u4": "I", "u2": "H", "u1": "B", "b1": "?",
}  # fmt: skip


def _numpy_scalar(args: tuple[Any, ...]) -> Any:
    """``(dtype, bytes)``; a number where it is one."""
    kind, data = (*args, None, None)[:2]
    code = kind.args[0] if isinstance(kind, Opaque) and kind.args else None
    layout = _NUMBERS.get(code) if isinstance(code, str) else None
    if layout is None or not isinstance(data, bytes):
        return Opaque(Global("numpy", "generic"), ())
    return struct.unpack(f"<{layout}", data)[0]


_TENSORS: dict[str, Builder] = {
    "_rebuild_tensor": _dense,
    "_rebuild_tensor_v2": _dense,
    "_rebuild_tensor_v3": _dense_v3,
    "_rebuild_qtensor": _dense,
    "_rebuild_parameter": _same,
    "_rebuild_parameter_with_state": _same,
    "_rebuild_meta_tensor_no_storage": _meta,
    "_rebuild_wrapper_subclass": _wrapper,
    "_rebuild_sparse_tensor": _sparse,
    "_rebuild_sparse_csr_tensor": _sparse,
    "_rebuild_device_tensor_from_numpy": _moved,
    "_rebuild_device_tensor_from_cpu_tensor": _moved,
    "_rebuild_nested_tensor": _same,
}

BUILDERS: dict[str, Builder] = {
    **{f"torch._utils.{name}": build for name, build in _TENSORS.items()},
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "torch.nn.parameter.Parameter": _same,
    "torch.Size": _size,
    "collections.OrderedDict": _dict,
    "collections.Counter": _dict,
    "collections.defaultdict": _dict,
    "collections.deque": _sequence,
    "builtins.set": _set,
    "builtins.list": _sequence,
    "builtins.dict": _dict,
    "builtins.bytearray": _bytes,
    "builtins.bytes": _bytes,
    "_codecs.encode": _encode,
    "pathlib.PosixPath": _path,
    "pathlib.PurePosixPath": _path,
    "pathlib._local.PosixPath": _path,
    "numpy.core.multiarray.scalar": _numpy_scalar,
    "numpy._core.multiarray.scalar": _numpy_scalar,
}


ENUMS = {"torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING"}


def enum_member(args: tuple[Any, ...]) -> bool:
    """True for ``(class, name)`` of an enumeration that checkpoints have."""
    return len(args) == 2 and isinstance(args[0], Global) and args[0].path in ENUMS and isinstance(args[1], str)


def persistent(pid: Any) -> Any:
    """What a persistent id stands for: a storage, a class whose source came along (old whole-model files), or something unknown."""
    if isinstance(pid, tuple) and len(pid) >= 5 and pid[0] == "storage":
        kind, key, location, numel = pid[1:5]
        if not isinstance(kind, Global) or not isinstance(location, str) or not isinstance(key, (str, int)):
            raise ValueError("a storage is not described")
        dtype = STORAGES.get(kind.name.removesuffix("Storage"))
        if dtype is None:
            raise ValueError(f"{shown(kind.name, 60)} is no storage of torch's")
        return StorageRef(str(key), dtype, _count(numel), location)
    if isinstance(pid, tuple) and len(pid) >= 2 and pid[0] == "module" and isinstance(pid[1], Global):
        return pid[1]
    return Opaque(Global("", "persistent id"), ())


_WEIGHTS_ONLY = {
    "collections.OrderedDict", "collections.Counter", "torch.nn.parameter.Parameter", "torch.serialization._get_layout", "torch.Size",
    "torch.Tensor", "torch.device", "_codecs.encode", "builtins.bytearray", "builtins.set", "builtins.complex",
    "torch._tensor._rebuild_from_type_v2", "torch.storage.TypedStorage", "torch.storage.UntypedStorage", "torch.per_tensor_affine",
    "torch.per_tensor_symmetric", "torch.per_channel_affine", "torch.per_channel_symmetric", "torch.per_channel_affine_float_qparams",
    "torch.distributed.device_mesh.DeviceMesh", "torch.distributed.tensor._dtensor_spec.DTensorSpec",
    "torch.distributed.tensor._dtensor_spec.TensorMeta", "torch.distributed.tensor.DTensor", "torch.distributed.tensor._api.DTensor",
    "torch.distributed.tensor.placement_types.Partial", "torch.distributed.tensor.placement_types.Replicate",
    "torch.distributed.tensor.placement_types.Shard",
    *(f"torch._utils.{name}" for name in _TENSORS if name != "_rebuild_sparse_csr_tensor"),
    *(f"torch.{name}" for name in DTYPES), *(f"torch.{name}Storage" for name in STORAGES),
    *(f"torch.{name}Tensor" for name in STORAGES),
    *(f"torch.{bits}{n}" for bits in ("int", "uint") for n in range(1, 8)),
}  # fmt: skip


def weights_only(path: str) -> bool:
    """True where ``torch.load(weights_only=True)`` takes this name without being told to (torch/_weights_only_unpickler.py, 2.13)."""
    device = path.removeprefix("torch.cuda.")
    return path in _WEIGHTS_ONLY or (device != path and f"torch.{device}" in _WEIGHTS_ONLY)
