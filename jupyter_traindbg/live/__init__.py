"""What a running job does, kept and thinned out for whoever draws it: no front end, no torch, no Ray.

`Feed` asks; `history` keeps; `curves` thins out; `state` and `events` say what it means.
"""

from __future__ import annotations

from .curves import Curve
from .events import Event
from .feed import Feed, Source, Tail
from .series import SERIES, Series
from .state import State

__all__ = ["SERIES", "Curve", "Event", "Feed", "Series", "Source", "State", "Tail"]
