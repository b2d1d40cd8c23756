"""The way through the path of an agent's socket (a forwarded one, say). Nothing is ever started this way."""

from __future__ import annotations

import os

from ..agent import rendezvous
from ..errors import TargetGone
from ..language import text
from ..model import TargetName
from ..outside import procfs
from .base import Entered, Link
from .client import AgentClient


def links(named: TargetName, deadline_s: float) -> list[Link]:
    directory = os.path.dirname(os.path.abspath(named.id))
    card = rendezvous.card(directory)
    if not os.path.exists(named.id) or card is None:
        raise TargetGone(text("there is no agent at {path}", path=named.id))
    pid, started = card["pid"], procfs.start_ticks(card["pid"])
    if os.path.basename(directory) != f"{pid}-{started}":
        started = None  # it is numbered by another container, or its directory was moved
    return [Link(pid, lambda s: Entered(AgentClient(directory, pid, deadline_s=s), "found running"), started=started)]
