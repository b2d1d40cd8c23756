"""Replace an attribute of somebody else's class or module by a wrapper, and put the original back."""

from __future__ import annotations

import sys
from typing import Any, Callable, List


class Patch:
    """``setattr(owner, name, wrap(original))`` until `remove`."""

    def __init__(self, owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        self.owner, self.name = owner, name
        self.original = vars(owner)[name]
        self.wrapper = wrap(self.original)
        setattr(owner, name, self.wrapper)

    def remove(self) -> None:
        # Where somebody wrapped us meanwhile our wrapper has to stay in the middle: it only passes through once we are closed.
        if vars(self.owner).get(self.name) is self.wrapper:
            setattr(self.owner, self.name, self.original)


class Spot:
    """A place to patch, in a module that may be imported later than we come."""

    def __init__(self, module: str, owner: str, name: str, wrap: Callable[[Any], Any]) -> None:
        self.module, self.owner, self.name, self.wrap = module, owner, name, wrap

    def patch(self) -> Any:
        """The `Patch`, or None where the module is not there yet (or, in another version, has no such thing)."""
        module = sys.modules.get(self.module)
        owner = getattr(module, self.owner, None) if self.owner else module
        if owner is None or self.name not in vars(owner):
            return None
        return Patch(owner, self.name, self.wrap)


class Patches:
    """Spots of one owner: those that could be patched already, and those still to come."""

    def __init__(self) -> None:
        self.spots: List[Spot] = []
        """Those whose module has not been imported yet."""
        self._patches: List[Patch] = []

    def open(self, spots: List[Spot]) -> None:
        self.close()
        self.spots = list(spots)
        self.catch_up()

    def catch_up(self) -> None:
        """Patch what has come into being since."""
        for spot in list(self.spots):
            patch = spot.patch()
            if patch is not None:
                self._patches.append(patch)
                self.spots.remove(spot)

    def close(self) -> None:
        """Put everything back."""
        self.spots.clear()
        for patch in self._patches:
            patch.remove()
        self._patches.clear()
