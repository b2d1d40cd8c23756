"""The generators' states are read exactly, quickly, and in a form that loads without executing anything."""

from __future__ import annotations

import ctypes
import io
import random
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from jupyter_traindbg.agent import engine
from jupyter_traindbg.agent.engine import Engine
from jupyter_traindbg.agent.randomness import Randomness, plain
from jupyter_traindbg.resume import position


@pytest.fixture(autouse=True)
def generators_as_before() -> Iterator[None]:
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(before[0])
    np.random.set_state(before[1])
    torch.set_rng_state(before[2])


def draw() -> list[float]:
    return [
        random.random(),
        random.gauss(0, 1),
        float(np.random.rand()),
        float(np.random.randn()),
        torch.rand(1).item(),
    ]


DRAWS: dict[str, Callable[[], object]] = {
    "nothing": lambda: None,
    "python": random.random,
    "half a pair of python's normals": lambda: random.gauss(0, 1),
    "numpy": np.random.rand,
    "half a pair of numpy's normals": np.random.randn,
    "torch": lambda: torch.rand(1),
    "torch's normals": lambda: torch.randn(1),
    "half a pair of torch's normals of double precision": lambda: torch.randn((), dtype=torch.float64),
    "all words of all three": lambda: [draw() for _ in range(700)],
    "a new seed": lambda: (random.seed(3), np.random.seed(3), torch.manual_seed(3)),
}


@pytest.mark.parametrize("opened", [True, False], ids=["in memory", "asked"])
@pytest.mark.parametrize("name", DRAWS)
def test_what_was_drawn_meanwhile_is_in_the_next_reading(name: str, opened: bool) -> None:
    reader = Randomness()
    if opened:
        reader.open()
    reader.read(on_cuda=False)
    DRAWS[name]()
    state = reader.read(on_cuda=False)
    expected = draw()
    draw()
    assert position.restore(plain(state)) == []
    assert draw() == expected


def test_it_loads_without_executing_anything() -> None:
    buffer = io.BytesIO()
    torch.save(plain(Randomness().read(on_cuda=False)), buffer)
    buffer.seek(0)
    expected = draw()
    position.restore(torch.load(buffer, weights_only=True))
    assert draw() == expected


def test_a_numpy_generator_of_another_kind() -> None:
    """PCG64 counts in 128 bits, which the loader's small integers do not hold."""
    before = np.random.get_bit_generator()
    try:
        np.random.set_bit_generator(np.random.PCG64(5))
        buffer = io.BytesIO()
        torch.save(plain(Randomness().read(on_cuda=False)), buffer)
        buffer.seek(0)
        expected = draw()
        assert position.restore(torch.load(buffer, weights_only=True)) == []
        assert draw() == expected
        np.random.set_bit_generator(before)
        buffer.seek(0)
        assert "the saved job's was a PCG64" in position.restore(torch.load(buffer, weights_only=True))[0]
    finally:
        np.random.set_bit_generator(before)


def test_a_device_that_is_not_here_is_said() -> None:
    state = plain(Randomness().read(on_cuda=False))
    state["cuda"] = {99: torch.zeros(16, dtype=torch.uint8)}
    assert "CUDA device 99" in position.restore(state)[0]


def test_a_process_without_numpy_or_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "numpy.random.mtrand")
    assert Randomness().read(on_cuda=False).numpy is None
    monkeypatch.delitem(sys.modules, "torch")
    state = Randomness().read(on_cuda=False)
    assert (state.torch, state.cuda) == (None, {})


def test_what_nobody_has_drawn_from_is_not_read_again() -> None:
    reader = Randomness()
    reader.open()
    first, second = reader.read(on_cuda=False), reader.read(on_cuda=False)
    for name in ("python", "numpy", "torch"):
        assert getattr(second, name) is getattr(first, name), f"the state of {name} is converted anew"
    draw()
    third = reader.read(on_cuda=False)
    for name in ("python", "numpy", "torch"):
        assert getattr(third, name) is not getattr(first, name), name


def test_pythons_generator_is_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Randomness()
    reader.read(on_cuda=False)
    other = random.Random(7)
    monkeypatch.setattr(random, "_inst", other)
    state = plain(reader.read(on_cuda=False))["python"]
    assert (state["version"], tuple(state["words"].tolist()), state["gauss"]) == other.getstate()


class Elsewhere:
    """A generator of torch's that keeps its words where nobody looks for them."""

    def __init__(self) -> None:
        self._generator = torch.Generator()
        self._memory = ctypes.create_string_buffer(4096)
        self._cdata = ctypes.addressof(self._memory)

    def get_state(self) -> torch.Tensor:
        return self._generator.get_state()


def test_a_generator_that_lies_otherwise_in_memory_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = Elsewhere()
    with pytest.raises(LookupError, match="where they are looked for"):
        Engine(generator)
    with monkeypatch.context() as patched:  # what puts the generators back comes later
        patched.setattr(torch.random, "default_generator", generator)
        reader = Randomness()
        reader.open()
        state = reader.read(on_cuda=False)
    assert state.engine is None
    assert torch.equal(plain(state)["torch"], generator.get_state())


def test_a_generator_whose_bytes_are_not_all_of_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies that do not go on as their originals do: without the half of a pair of normal numbers."""
    monkeypatch.setattr(engine, "TAIL_BYTES", 4)
    monkeypatch.setattr(engine, "BYTES", engine.BYTES - 24)
    with pytest.raises(LookupError, match="does not go on like that one"):
        Engine(torch.random.default_generator)
