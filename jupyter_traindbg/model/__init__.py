"""The data that everything else speaks: frozen dataclasses, no behaviour beyond reading them.

`base` has what all share, `observed` what was seen in a job, `changed` what was done to it, `checkpoints` what is on disk,
`hangs` what a hang is judged by, `logs` what was read of a log, `following` of one that is still being written, `environ` and
`preflight` what surrounds a job, `plan` what a configuration says of a run.
"""

from __future__ import annotations

from . import base, changed, checkpoints, environ, following, hangs, logs, observed, plan, preflight, report
from .base import *
from .changed import *
from .checkpoints import *
from .environ import *
from .following import *
from .hangs import *
from .logs import *
from .observed import *
from .plan import *
from .preflight import *
from .report import *

__all__ = [
    *base.__all__,
    *changed.__all__,
    *checkpoints.__all__,
    *environ.__all__,
    *following.__all__,
    *hangs.__all__,
    *logs.__all__,
    *observed.__all__,
    *plan.__all__,
    *preflight.__all__,
    *report.__all__,
]
