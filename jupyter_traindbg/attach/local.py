"""The way into this very process: the agent starts directly."""

from __future__ import annotations

import gc
import os
import sys

from .. import agent
from .._version import __version__
from ..errors import CannotAttach
from ..language import text
from ..model import TargetName
from .base import Entered, Link
from .process import arrived, found


def links(named: TargetName, deadline_s: float) -> list[Link]:
    return [Link(os.getpid(), enter)]


def enter(deadline_s: float) -> Entered:
    """Start the agent in this process, or find the one that runs (it may have been injected from outside)."""
    if (client := found(os.getpid(), deadline_s)) is not None:
        return Entered(client, "this process")
    try:
        agent.start(version=__version__)
    except OSError as e:
        raise CannotAttach(
            text("the agent cannot have its directory: {why}", why=e),
            text("make /tmp writable, or remove what stands there"),
        ) from e
    return Entered(arrived(os.getpid(), deadline_s), "this process")


def trains_here() -> bool:
    """True where this process holds an optimizer: then it is a candidate for attaching itself."""
    optimizer = getattr(sys.modules.get("torch.optim.optimizer"), "Optimizer", None)
    return optimizer is not None and any(issubclass(type(o), optimizer) for o in gc.get_objects())
