"""The data that everything else speaks: frozen dataclasses, no behaviour beyond reading them.

`base` has what all share, `observed` what was seen in a job, `changed` what was done to it, `checkpoints` what is on disk,
`hangs` what a hang is judged by, `environ` and `preflight` what surrounds a job.
"""

from __future__ import annotations

from . import base, changed, checkpoints, environ, hangs, observed, preflight
from .base import *
from .changed import *
from .checkpoints import *
from .environ import *
from .hangs import *
from .observed import *
from .preflight import *

__all__ = [
    *base.__all__,
    *changed.__all__,
    *checkpoints.__all__,
    *environ.__all__,
    *hangs.__all__,
    *observed.__all__,
    *preflight.__all__,
]
