"""The data that everything else speaks: frozen dataclasses, no behaviour beyond reading them.

`base` has what all share, `call_sites` from where collectives are issued, `channels` what processes talk over, `finding` verdicts,
`observed` what was seen in a job, `gradients` its gradients, `changed` what was done to it, `checkpoints` what is on disk, `compiling` what
torch.compile does, `coroutines` what runs in an event loop, `detours` what leads past a line, `dumps` what was sent of a job, `hangs` what
a hang is judged by, `joining` how ranks come together, `live` what is asked again and again, `logs` what was read of a log, `following` of
one that is still being written, `memory` who holds it and what grows, `environ` and `preflight` what surrounds a job, `plan` what a
configuration says of a run, `profile` what a few steps consist of, `ras` what NCCL reports of itself, `ray` what a Ray cluster and its
workers do, `picture` a figure of any of it, `slow` where steps go, `sockets` connections, `soundness` whether a training is sound, `sql`
what a query gives, `target` how a job is named and `targets` what can be attached to, `threads` what each thread costs and waits for,
`variables` what those of a program hold, `waits` what a thread does at one moment; `records` any result as a flat table.
"""

from __future__ import annotations

from . import (
    base,
    call_sites,
    changed,
    channels,
    checkpoints,
    compiling,
    coroutines,
    detours,
    dumps,
    environ,
    finding,
    following,
    gradients,
    hangs,
    joining,
    live,
    logs,
    memory,
    observed,
    picture,
    plan,
    preflight,
    profile,
    ras,
    ray,
    records,
    report,
    slow,
    sockets,
    soundness,
    sql,
    target,
    targets,
    threads,
    variables,
    waits,
)
from .base import *
from .call_sites import *
from .changed import *
from .channels import *
from .checkpoints import *
from .compiling import *
from .coroutines import *
from .detours import *
from .dumps import *
from .environ import *
from .finding import *
from .following import *
from .gradients import *
from .hangs import *
from .joining import *
from .live import *
from .logs import *
from .memory import *
from .observed import *
from .picture import *
from .plan import *
from .preflight import *
from .profile import *
from .ras import *
from .ray import *
from .records import *
from .report import *
from .slow import *
from .sockets import *
from .soundness import *
from .sql import *
from .target import *
from .targets import *
from .threads import *
from .variables import *
from .waits import *

__all__ = [
    *base.__all__,
    *call_sites.__all__,
    *changed.__all__,
    *channels.__all__,
    *checkpoints.__all__,
    *compiling.__all__,
    *coroutines.__all__,
    *detours.__all__,
    *dumps.__all__,
    *environ.__all__,
    *finding.__all__,
    *following.__all__,
    *gradients.__all__,
    *hangs.__all__,
    *joining.__all__,
    *live.__all__,
    *logs.__all__,
    *memory.__all__,
    *observed.__all__,
    *picture.__all__,
    *plan.__all__,
    *preflight.__all__,
    *profile.__all__,
    *ras.__all__,
    *ray.__all__,
    *records.__all__,
    *report.__all__,
    *slow.__all__,
    *sockets.__all__,
    *soundness.__all__,
    *sql.__all__,
    *target.__all__,
    *targets.__all__,
    *threads.__all__,
    *variables.__all__,
    *waits.__all__,
]
