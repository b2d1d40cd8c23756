"""The state of the random generators of this process: Python's, NumPy's, torch's on the CPU and on every CUDA device in use.

Reading all of them costs 40 us, most of it to convert Mersenne states that hardly any program changes at every step. So the bytes of the
two generator objects are compared with those of the last time (1 us), and only what changed is read again.
"""

from __future__ import annotations

import ctypes
import random
import sys
from typing import Any, Dict, Optional, Tuple

HEADER_BYTES = 16
"""Reference count and type, at the head of every Python object."""
MERSENNE_BYTES = 625 * 4
"""NumPy's MT19937: 624 words and the position among them."""


class Randomness:
    """Reads the generators, quickly where nothing changed since the last time."""

    def __init__(self) -> None:
        self._python: Tuple[Any, Optional[bytes], Any, Any] = (None, None, None, None)
        self._numpy: Tuple[Any, Optional[bytes], Any] = (None, None, None)
        self._bits: Tuple[Any, int] = (None, 0)

    def read(self) -> Dict[str, Any]:
        """``{"python": ..., "numpy": ... or None, "torch": uint8 tensor or None, "cuda": {index: uint8 tensor}}``, for `plain`.

        3 to 5 us; 50 us after a program that draws from Python's and NumPy's generators. Must not run while a CUDA graph is captured.
        """
        torch = sys.modules.get("torch")
        return {
            "python": self._read_python(),
            "numpy": self._read_numpy(),
            "torch": None if torch is None else torch.random.default_generator.get_state(),
            "cuda": {} if torch is None else _cuda(torch),
        }

    def _read_python(self) -> Any:
        generator: Any = random._inst
        known, raw, gauss, state = self._python
        now, next_gauss = _bytes_of(generator), generator.gauss_next
        if known is not generator or raw != now or gauss is not next_gauss:
            state = generator.getstate()
            self._python = (generator, now, next_gauss, state)
        return state

    def _read_numpy(self) -> Any:
        generator = getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None)
        if generator is None:
            return None
        bits, address = self._bits
        if bits is not generator._bit_generator:
            bits = generator._bit_generator
            address = bits.ctypes.state_address if type(bits).__name__ == "MT19937" else 0
            self._bits = (bits, address)
        if not address:
            return generator.get_state(legacy=False)
        # The object itself holds the second half of the last pair of normal numbers.
        now = ctypes.string_at(address, MERSENNE_BYTES) + _bytes_of(generator)
        known, raw, state = self._numpy
        if known is not bits or raw != now:
            state = generator.get_state(legacy=False)
            self._numpy = (bits, now, state)
        return state


def plain(state: Dict[str, Any]) -> Dict[str, Any]:
    """What `Randomness.read` gave, of tensors and plain values only, as ``torch.load(weights_only=True)`` takes them. 0.1 ms."""
    version, words, gauss = state["python"]
    return {
        "python": {"version": version, "words": _tensor(words), "gauss": gauss},
        "numpy": None if state["numpy"] is None else _without_arrays(state["numpy"]),
        "torch": state["torch"],
        "cuda": dict(state["cuda"]),
    }


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


def _bytes_of(thing: Any) -> bytes:
    return ctypes.string_at(id(thing) + HEADER_BYTES, type(thing).__basicsize__ - HEADER_BYTES)


def _cuda(torch: Any) -> Dict[int, Any]:
    """The states of the generators of all devices in this process; the states lie in host memory and are read without synchronising."""
    if "torch.cuda" not in sys.modules or not torch.cuda.is_initialized():
        return {}
    return {index: generator.get_state() for index, generator in enumerate(torch.cuda.default_generators)}
