"""Pickles are read and nothing in them is executed: plain data comes out as it went in, hostile pickles are refused, bombs end early."""

from __future__ import annotations

import builtins
import collections
import functools
import io
import operator
import os
import pickle
import random
import struct
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases import each

from jupyter_traindbg import checkpoints
from jupyter_traindbg.checkpoints.pickles import Limits, read_pickle
from jupyter_traindbg.checkpoints.suspicion import suspicion
from jupyter_traindbg.checkpoints.values import Opaque
from jupyter_traindbg.errors import BadCheckpoint, TraindbgError, UnsafeCheckpoint

PROTOCOLS = range(6)


def read(data: bytes, limits: Limits | None = None) -> Any:
    return read_pickle(io.BytesIO(data), "file.pkl", limits).value


# --- plain data --------------------------------------------------------------------------------------------------------

PLAIN = [
    None, True, False, 0, -1, 255, 65536, -(2**31), 2**40, -(2**100), 10**400, 1.5, -0.0, float("inf"), "",
    "text", "käse\n\\u1234 \U0001f600",
    "x" * 300, b"", b"\x00\xff\n", b"y" * 70000, [], [1, [2, [3]]], (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), {}, {"a": {1: (2, [3])}},
    {(1, "a"): 2, None: 3, 1.5: 4}, list(range(3000)), {str(i): i for i in range(3000)},
]  # fmt: skip


@each("protocol", PROTOCOLS)
def test_plain_data_is_read_as_python_reads_it(protocol: int) -> None:
    for value in PLAIN:
        data = pickle.dumps(value, protocol)
        assert read(data) == value == pickle.loads(data)
        assert type(read(data)) is type(value)


@each("protocol", PROTOCOLS)
def test_known_classes_become_plain_data(protocol: int) -> None:
    value = {
        "ordered": collections.OrderedDict(a=1, b=[2]),
        "counter": collections.Counter("aab"),
        "default": collections.defaultdict(list, {"x": [1]}),
        "deque": collections.deque([1, 2]),
        "set": {1, 2},
        "array": bytearray(b"abc"),
        "path": Path("/a/b"),
    }
    found = read(pickle.dumps(value, protocol))
    assert found["ordered"] == {"a": 1, "b": [2]}
    assert found["counter"] == {"a": 2, "b": 1}
    assert found["default"] == {"x": [1]}
    assert found["deque"] == [1, 2]
    assert found["set"] == {1, 2}
    assert found["path"] == "/a/b"


def test_what_is_shared_stays_shared_and_cycles_are_fine() -> None:
    loop: list[Any] = [1]
    loop += [loop, loop]
    found = read(pickle.dumps(loop))
    assert found[1] is found
    assert found[2] is found


class Config:
    """Some class of the user's."""

    def __init__(self) -> None:
        self.width = 3

    def __setstate__(self, state: Any) -> None:
        raise AssertionError("run")


@each("protocol", PROTOCOLS)
def test_an_unknown_class_is_kept_inert_and_named(protocol: int) -> None:
    found = read_pickle(io.BytesIO(pickle.dumps(Config(), protocol)), "f")
    assert isinstance(found.value, Opaque)
    assert found.value.attribute("width") == 3
    assert f"{Config.__module__}.Config" in found.foreign


# --- hostile pickles -----------------------------------------------------------------------------------------------------


class Calls:
    """Pickles as a call of `function`."""

    def __init__(self, function: Any, *args: Any, state: Any = None) -> None:
        self.reduced = (function, args) if state is None else (function, args, state)

    def __reduce__(self) -> Any:
        return self.reduced


def touch(marker: Path) -> str:
    return f"touch {marker}"


GENUINE: dict[str, Callable[[Path], Any]] = {
    "os.system": lambda m: Calls(os.system, touch(m)),
    "eval": lambda m: Calls(eval, f"__import__('os').system({touch(m)!r})"),
    "exec": lambda m: Calls(exec, f"open({str(m)!r}, 'w').close()"),
    "makedirs": lambda m: Calls(os.makedirs, str(m)),
    "subprocess": lambda m: Calls(subprocess.check_call, ["touch", str(m)]),
    "partial": lambda m: Calls(map_now, Calls(functools.partial, os.system), [touch(m)]),
    "getattr": lambda m: Calls(map_now, Calls(getattr, Calls(__import__, "os"), "system"), [touch(m)]),
    "attrgetter": lambda m: Calls(map_now, Calls(operator.attrgetter("system"), Calls(__import__, "os")), [touch(m)]),
    "in a state dict": lambda m: {"model": {"weight": [1, {"deep": (Calls(os.system, touch(m)),)}]}},
    "as a key": lambda m: {("a", Calls(os.system, touch(m))): 1},
    "in the arguments": lambda m: Calls(collections.OrderedDict, [["a", Calls(os.system, touch(m))]]),
    "in the state": lambda m: Calls(Plain, state={"x": Calls(os.system, touch(m))}),
    "pickle in a pickle": lambda m: Calls(pickle.loads, pickle.dumps(Calls(os.system, touch(m)))),
}


class Plain:
    pass


def map_now(function: Any, values: list[Any]) -> list[Any]:
    return [function(v) for v in values]


@each("protocol", PROTOCOLS)
@each("make", GENUINE.values(), ids=GENUINE)
def test_a_pickle_that_runs_code_is_refused_and_nothing_runs(
    make: Callable[[Path], Any], protocol: int, tmp_path: Path
) -> None:
    real, ours = (tmp_path / f"{name}{len(list(tmp_path.iterdir()))}" for name in ("real", "ours"))
    pickle.loads(pickle.dumps(make(real), protocol))
    assert real.exists(), "this attack is a real one"
    for name in ("model.pt", "model.pkl"):
        file = tmp_path / name
        data = pickle.dumps(make(ours), protocol)
        if name == "model.pt":
            with zipfile.ZipFile(file, "w") as archive:
                archive.writestr("model/data.pkl", data)
        else:
            file.write_bytes(data)
        with pytest.raises(UnsafeCheckpoint, match="nothing was executed"):
            checkpoints.inspect(file)
        assert not ours.exists()


def test_the_error_names_what_it_calls() -> None:
    with pytest.raises(
        UnsafeCheckpoint, match=r"file\.pkl was refused: its pickle calls os\.system; nothing was executed"
    ):
        read(pickle.dumps(Calls(os.system, "true")))
    with pytest.raises(UnsafeCheckpoint, match=r"calls builtins\.eval"):
        read(pickle.dumps(Calls(eval, "1"), 0))


def short(text: str) -> bytes:
    return b"\x8c" + bytes([len(text)]) + text.encode()


BY_HAND = {
    "INST": b"(S'true'\nios\nsystem\n.",
    "OBJ": b"(cos\nsystem\nS'true'\no.",
    "OBJ of Python 2": b"(c__builtin__\neval\nS'1'\no.",
    "commands of Python 2": b"ccommands\ngetoutput\n(S'true'\ntR.",
    "STACK_GLOBAL": b"\x80\x04" + short("os") + short("system") + b"\x93" + short("true") + b"\x85R.",
    "names through the memo":
    b"\x80\x04" + short("system") + b"\x940" + short("posix") + b"\x940h\x01h\x00\x93" + short("true") + b"\x85R.",
    "a dotted name": b"\x80\x04" + short("torch.serialization") + short("os.system") + b"\x93" + short("true") + b"\x85R.",
    "a dotted name, harmless module": b"\x80\x04" + short("collections") + short("abc.sys.modules") + b"\x93.",
    "six": b"\x80\x04" + short("six.moves.builtins") + short("eval") + b"\x93" + short("1") + b"\x85R.",
    "dunder": b"\x80\x04" + short("collections") + short("OrderedDict.__init__.__globals__") + b"\x93.",
    "NEWOBJ": b"\x80\x02cposix\nsystem\nX\x04\x00\x00\x00true\x85\x81.",
    "NEWOBJ_EX": b"\x80\x04" + short("os") + short("system") + b"\x93" + short("true") + b"\x85}\x92.",
    "BUILD of a class": b"ccollections\nOrderedDict\n(S'__setstate__'\ncos\nsystem\ndb.",
    "__setstate__ in the state":
    b"ccopy_reg\n_reconstructor\n(c__main__\nX\nc__builtin__\nobject\nNtR(S'__setstate__'\ncos\nsystem\ndbS'true'\nb.",
    "named, never called": b"cos\nsystem\n0I1\n.",
    "called again": b"ccollections\nmake\n)R)R.",
    "torch.load": b"ctorch\nload\n(S'x'\ntR.",
    "torch.hub": b"ctorch.hub\nload\n(S'x'\ntR.",
    "cpp_extension": b"ctorch.utils.cpp_extension\nload_inline\n)R.",
    "numpy's runstring": b"cnumpy.testing._private.utils\nrunstring\n(S'1'\n}tR.",
    "a function's code": b"ctypes\nFunctionType\n)R.",
    "cloudpickle": b"ccloudpickle.cloudpickle\n_make_function\n)R.",
    "dill": b"cdill._dill\n_create_function\n)R.",
    "pip": b"cpip\nmain\n)R.",
    "ctypes": b"cctypes\nCDLL\n(S'libc.so.6'\ntR.",
    "socket": b"csocket\nsocket\n)R.",
    "graph module": b"ctorch.fx.graph_module\nreduce_graph_module\n)R.",
    "getattr, left lying about": b"c__builtin__\ngetattr\n.",
    "getattr in a list": b"(lc__builtin__\ngetattr\na.",
    "getattr in a tuple, out of the memo": b"c__builtin__\ngetattr\np0\n0(g0\nt.",
    "getattr of another class": b"c__builtin__\ngetattr\n(ctorch.utils.data.sampler\nSampler\nS'x'\ntR.",
    "getattr given to a function": b"ctorch._tensor\n_rebuild_from_type_v2\n(c__builtin__\ngetattr\nI1\n)NtR.",
    "a member of an enumeration, called":
    b"c__builtin__\ngetattr\n(ctorch.distributed.checkpoint.metadata\n_MEM_FORMAT_ENCODING\nS'x'\ntR)R.",
}  # fmt: skip


@each("data", BY_HAND.values(), ids=BY_HAND)
def test_attacks_made_by_hand_are_refused(data: bytes) -> None:
    with pytest.raises(UnsafeCheckpoint, match="nothing was executed"):
        read(data)


def test_a_member_of_an_enumeration_as_some_pythons_write_it() -> None:
    """3.11.0 to 3.11.3 write ``getattr(class, name)``, others ``class(value)``: every distributed checkpoint has some."""
    member = b"c__builtin__\ngetattr\np0\n(ctorch.distributed.checkpoint.metadata\n_MEM_FORMAT_ENCODING\nS'TORCH_CONTIGUOUS_FORMAT'\ntR"
    found = read(b"(" + member + b"g0\n" + member[len(b"c__builtin__\ngetattr\np0\n") :] + b"t.")
    assert [(m.of.path, m.args) for m in found] == [
        ("torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING", ("TORCH_CONTIGUOUS_FORMAT",))
    ] * 2


def test_no_name_is_ever_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins
    import importlib

    def refuse(*args: Any, **keywords: Any) -> Any:
        raise AssertionError(f"imported {args[0]}")

    data = [pickle.dumps(value, 2) for value in (Config(), collections.OrderedDict(a=1))]
    monkeypatch.setattr(importlib, "import_module", refuse)
    monkeypatch.setattr(builtins, "__import__", refuse)
    try:
        for one in (*data, b"cantigravity\nfly\n)R.", b"cthis\ns\n."):
            read_pickle(io.BytesIO(one), "f")
    finally:
        monkeypatch.undo()


@each(
    "name",
    [
        "torch._utils._rebuild_tensor_v2", "torch.serialization._get_layout", "mylib.signal.filters.Net",
        "transformers.trainer_utils.HubStrategy",
        "torch.utils.data.sampler.RandomSampler", "numpy.dtype", "numpy._core.multiarray._reconstruct",
        "datetime.datetime", "argparse.Namespace",
        "__main__.Config", "numpy.random._pickle.__generator_ctor", "builtins.set", "builtins.ValueError", "__torch__.Net",
        "omegaconf.dictconfig.DictConfig", "lightning.fabric.utilities.data.AttributeDict", "types.SimpleNamespace", "enum.Enum",
    ],
)  # fmt: skip
def test_names_that_checkpoints_do_have_are_not_suspicious(name: str) -> None:
    module, _, last = name.rpartition(".")
    assert suspicion(module, last) == ""


def test_every_function_of_builtins_is_suspicious() -> None:
    functions = [n for n, f in vars(builtins).items() if callable(f) and not isinstance(f, type)]
    assert len(functions) > 40
    assert [n for n in functions if not suspicion("builtins", n)] == []


# --- bombs -----------------------------------------------------------------------------------------------------------------

BROKEN = {
    "empty": b"",
    "cut off": pickle.dumps({"a": [1, 2, 3]})[:-3],
    "no pickle": b"hello",
    "an unknown opcode": b"\xfe.",
    "protocol 9": b"\x80\x09N.",
    "an exabyte of text": b"\x8d" + struct.pack("<Q", 2**60) + b"x",
    "four gigabytes of bytes": b"B" + struct.pack("<I", 2**32 - 1) + b"x",
    "a negative length": b"T" + struct.pack("<i", -5) + b"xxxxxx.",
    "a huge frame": b"\x80\x04\x95" + struct.pack("<Q", 2**63) + b"N.",
    "an empty stack": b"\x80\x02R.",
    "nothing to stop with": b".",
    "a pop below the mark": b"(0(a.",
    "a mark too few": b"t.",
    "the memo is empty": b"h\x07.",
    "a huge number in text": b"L" + b"9" * 100_000 + b"L\n.",
    "a line without end": b"V" + b"x" * 3_000_000,
    "bad utf-8": b"\x8c\x02\xff\xfe.",
    "an odd number of items": b"}(I1\nu.",
    "a list as a key": b"}]I1\ns.",
    "a deep tuple as a key": b"})" + b"\x85" * 100_000 + b"I1\ns.",
    "appending to a number": b"I1\nI2\na.",
    "arguments that are no tuple": b"ccollections\nOrderedDict\nI1\nR.",
    "calling a number": b"I1\n)R.",
    "extension codes": b"\x82\x01.",
    "out-of-band data": b"\x80\x05\x97.",
    "a string without quotes": b"Sabc\n.",
    "a shape of texts": b"ctorch\nSize\n(S'a'\ntR.",
    "a storage of nothing": b"(S'storage'\nI1\nI2\nI3\nI4\ntQ.",
    "a huge number of elements": b"(S'storage'\nctorch\nFloatStorage\nS'0'\nS'cpu'\nL99999999999999999999999L\ntQ.",
}  # fmt: skip


@each("data", BROKEN.values(), ids=BROKEN)
def test_what_is_no_pickle_or_a_bomb_is_one_clear_error(data: bytes) -> None:
    with pytest.raises(BadCheckpoint) as error:
        read(data)
    assert "file.pkl cannot be read" in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600


def test_opcodes_bytes_and_time_are_bounded() -> None:
    with pytest.raises(BadCheckpoint, match="more than 10,000 opcodes"):
        read(b"N0" * 20_000 + b"N.", Limits(opcodes=10_000))
    with pytest.raises(BadCheckpoint, match="refused as a pickle bomb"):
        read(pickle.dumps(b"x" * 2_000, 3), Limits(bytes=1_000))
    with pytest.raises(BadCheckpoint, match="takes more than"):
        read(b"N0" * 20_000 + b"N.", Limits(seconds=0.0))


def test_a_great_index_of_the_memo_reserves_nothing() -> None:
    assert read(b"I7\nr" + struct.pack("<I", 2**32 - 1) + b".") == 7


def test_depth_costs_nothing(tmp_path: Path) -> None:
    deep = b"]" * 300_000 + b"a" * 299_999 + b"."
    file = tmp_path / "deep.pkl"
    file.write_bytes(b"\x80\x02" + deep)
    with pytest.raises(TraindbgError):
        checkpoints.compare(file, file)  # no tensors in it, and no stack overflow either
    nested = (
        b"\x80\x02]"
        + b"q\x00"
        + b"".join(b"]h" + bytes([i]) + b"h" + bytes([i]) + b"\x86aq" + bytes([i + 1]) for i in range(60))
        + b"."
    )
    file.write_bytes(nested)  # 2^60 ways through it
    checkpoints.inspect(file)


def test_random_bytes_never_raise_anything_else() -> None:
    rng = random.Random(0)
    whole = pickle.dumps([Config(), *PLAIN[:20]], 4)
    for _ in range(1500):
        data = bytearray(whole if rng.random() < 0.7 else rng.randbytes(60))
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            read(bytes(data))
        except TraindbgError:
            pass
