"""The state of the random generators of this process: Python's, NumPy's, torch's on the CPU and on every CUDA device in use.

Asking all of them costs 50 us, most of it to convert Mersenne Twisters. Such a one makes all of its 624 words anew at a time, and moves its
position among them with every draw. So some of its bytes in memory are compared with those of the last time (0.1 us); where they have
changed, Python's and torch's are copied, to be converted when somebody wants to have them, and NumPy's is asked.
"""

from __future__ import annotations

import _random
import ctypes
import random
import sys
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from .engine import Engine

HEADER_BYTES = object.__basicsize__
"""Reference count and type, at the head of every Python object."""
WORDS = 625
"""Of a Mersenne Twister in memory, as Python and NumPy keep it: 624, and the position among them, the first or the last."""
BETWEEN = 312
"""So far apart are the words that are compared: the first, one in the middle, the last."""
NO_CUDA: Dict[int, Any] = {}
Look = Callable[[], bytes]


class Generators(NamedTuple):
    """What `Randomness.read` found, for `plain`. ``engine``: what can tell torch's; ``cuda``: by the device's number."""

    python: Any
    numpy: Any
    torch: Any
    engine: Optional[Engine]
    cuda: Dict[int, Any]


class Randomness:
    """Reads the generators, quickly where nothing changed since the last time."""

    def __init__(self) -> None:
        # Of each: the generator, what is looked at, what was seen there (None: never to be relied on), and its state.
        self._python: Any = None
        self._python_words: Look = bytes
        self._python_seen: Optional[bytes] = None
        self._python_state: Any = (None, None)
        self._mtrand: Any = None
        self._numpy: Tuple[Any, Any] = (None, None)
        self._numpy_words: Look = bytes
        self._numpy_rest: Look = bytes
        self._numpy_seen: Optional[bytes] = None
        self._numpy_rest_seen: Optional[bytes] = None
        self._numpy_state: Any = None
        self._engine: Optional[Engine] = None

    def open(self) -> None:
        """Needs torch, completely imported; 0.5 ms. Without it, and where it raises, torch is asked each time."""
        try:
            self._engine = Engine(sys.modules["torch"].random.default_generator)
        except (
            LookupError,
            AttributeError,
        ):  # another torch: its generator lies otherwise in memory, or does not tell where
            self._engine = None

    def read(self, *, on_cuda: bool) -> Generators:
        """1 us; 40 us after a program that draws from NumPy's generator. Must not run while a CUDA graph is captured.

        `on_cuda`: whether this process uses a GPU.
        """
        python: Any = random._inst
        if (
            self._python_words() != self._python_seen
            or self._python is not python
            or self._python_state[1] is not python.gauss_next
        ):
            self._read_python(python)
        mtrand = self._mtrand
        if mtrand is None:
            mtrand = self._mtrand = sys.modules.get("numpy.random.mtrand")
        # The object itself tells its bit generator, and holds the second half of the last pair of normal numbers.
        if mtrand is not None and (
            self._numpy_words() != self._numpy_seen
            or self._numpy_rest() != self._numpy_rest_seen
            or self._numpy[0] is not mtrand._rand
        ):
            self._read_numpy(mtrand._rand)
        engine = self._engine
        return Generators(
            self._python_state,
            self._numpy_state,
            _ask_torch() if engine is None else engine.state(),
            engine,
            _cuda() if on_cuda else NO_CUDA,
        )

    def _read_python(self, generator: Any) -> None:
        """Its words, and the half of a pair of normal numbers that it keeps; or its whole state, as it tells it."""
        if generator is not self._python:
            self._python, self._python_words = generator, bytes
            mersenne = issubclass(type(generator), _random.Random)
            if mersenne and _random.Random.__basicsize__ >= HEADER_BYTES + 4 * WORDS:
                words = _words(id(generator) + HEADER_BYTES)
                if _told(words.tobytes(), generator.gauss_next) == generator.getstate():
                    self._python_words = _look(words)
        if self._python_words is bytes:
            self._python_state = generator.getstate()
            return
        self._python_seen = self._python_words()
        self._python_state = (_words(id(generator) + HEADER_BYTES).tobytes(), generator.gauss_next)

    def _read_numpy(self, generator: Any) -> None:
        bits = generator._bit_generator
        self._numpy_state = state = generator.get_state(legacy=False)
        if (generator, bits) != self._numpy:
            self._numpy, self._numpy_words = (generator, bits), bytes
            if type(bits).__name__ == "MT19937":
                words, told = _words(bits.ctypes.state_address), state["state"]
                if words.tolist() == [*told["key"].tolist(), told["pos"]]:
                    self._numpy_words = _look(words)
            rest = ctypes.c_char * (type(generator).__basicsize__ - HEADER_BYTES)
            self._numpy_rest = memoryview(rest.from_address(id(generator) + HEADER_BYTES)).tobytes
        self._numpy_rest_seen = self._numpy_rest()
        self._numpy_seen = self._numpy_words() or None


def _words(address: int) -> memoryview:
    """The Mersenne Twister at `address`."""
    return memoryview((ctypes.c_uint32 * WORDS).from_address(address)).cast("B").cast("I")


def _look(words: memoryview) -> Look:
    """What tells whether they have changed: they are made anew all at once."""
    return words[::BETWEEN].tobytes


def plain(state: Generators) -> Dict[str, Any]:
    """What `Randomness.read` gave, of tensors and plain values only, as ``torch.load(weights_only=True)`` takes them. 0.2 ms."""
    version, words, gauss = _told(*state.python) if len(state.python) == 2 else state.python
    return {
        "python": {"version": version, "words": _tensor(words), "gauss": gauss},
        "numpy": None if state.numpy is None else _without_arrays(state.numpy),
        "torch": state.torch if state.engine is None else state.engine.told(state.torch),
        "cuda": dict(state.cuda),
    }


def _told(words: bytes, gauss: Optional[float]) -> Any:
    """What a generator of Python's with these words tells of itself."""
    one = _random.Random()
    ctypes.memmove(id(one) + HEADER_BYTES, words, len(words))
    return random.Random.VERSION, one.getstate(), gauss


def _without_arrays(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_arrays(inner) for key, inner in value.items()}
    if type(value).__name__ == "ndarray":
        return _tensor(value.tolist())
    if isinstance(value, int):
        return str(value) if value.bit_length() > 63 else int(value)  # PCG64 counts in 128 bits
    return float(value) if isinstance(value, float) else value


def _tensor(words: Any) -> Any:
    torch = sys.modules["torch"]
    return torch.tensor(words, dtype=torch.int64, device="cpu")


def _ask_torch() -> Any:
    torch = sys.modules.get("torch")
    return None if torch is None else torch.random.default_generator.get_state()


def _cuda() -> Dict[int, Any]:
    """The states of the generators of all devices in this process; the states lie in host memory and are read without synchronising."""
    generators = sys.modules["torch"].cuda.default_generators
    return {index: generator.get_state() for index, generator in enumerate(generators)}
