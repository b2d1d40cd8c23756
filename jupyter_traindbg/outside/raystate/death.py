"""Why an actor or a task ended: the cause that Ray's words wrap, and the user's line where it happened."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...frames.whose import library_frame
from ...model import RayDeath
from ...model.ray import DeathKind
from ...terminal_codes import plain
from .fields import identity, integer, text

__all__ = ["of_actor", "of_task", "users_frame"]

FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)', re.MULTILINE)
RAYS_OWN = re.compile(r"/ray/|^python/ray/|^<frozen |/(concurrent/futures|asyncio|threading)\b.*\.py$|\.pyx$")
RAISED = re.compile(
    r"^(?P<type>[A-Za-z_][\w.]*): (?P<message>.*)$|^(?P<alone>[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning))$",
    re.MULTILINE,
)
WRAPPERS = (
    "ActorDiedError",
    "RayTaskError",
    "RayActorError",
    "CreationTaskError",
    "ActorUnavailableError",
    "WorkerCrashedError",
)
LONGEST_WORDS = 400

KINDS: tuple[tuple[str, DeathKind], ...] = (
    (
        r"OutOfMemoryError|memory usage threshold|killed due to memory|due to memory pressure|running low on memory",
        "out of memory",
    ),
    (r"killed by `?ray\.kill|ray\.kill\(actor\)|actor is killed", "killed"),
    (r"placement group (was|is|has been) removed|placement group.*removed", "placement group removed"),
    (r"owner (worker|has|process|is|died)|all (of its|the) handles|owner.*(dead|died|exited)|fate-?shar", "owner died"),
    (
        r"node (was|is|has) (terminated|dead|died|drained|marked dead|unhealthy)|its node (has )?died|node died|node failure",
        "node died",
    ),
    (r"exit_actor|exited (voluntarily|from)|actor exits|intended|out of scope|INTENDED", "exited"),
    (r"runtime_?env", "runtime_env"),
    (
        r"unexpected(ly)? (exit|system error)|SYSTEM_ERROR|crash|SIGSEGV|connection error code|worker process has died",
        "crashed",
    ),
)
"""What Ray's words say, the more certain first."""

EXIT_DETAIL = "Worker exit detail: "
GUESSES = "Some common causes include"
"""What follows is the same list whatever happened, the OOM killer in it."""

PLAINLY = (
    (
        r"was (\S+) used / (\S+) limit .*?exceeded threshold of \d+B \((\S+) of",
        r"Ray killed it for memory: its node had \1 of \2 in use, more than the \3 allowed",
    ),
    (
        r"connection error code 2\. End of file",
        "its process vanished: killed from outside (kill -9, the kernel's OOM killer), or crashed in native code",
    ),
    (r"Worker exits with an exit code ([1-9]\d*)", r"its process exited with code \1"),
    (r"exit_actor\(\) is called", "it called ray.actor.exit_actor()"),
    (r"killed by `ray\.kill`", "it was killed by ray.kill()"),
    (r"its owner has died", "the process that created it has ended, which ended it too"),
    (r"all references to the actor were removed", "nobody held a handle of it any more"),
    (r"(?i)placement group was removed\. Placement group id: (\w+)", r"its placement group \1 was removed"),
    (r"(?i)placement group (\w+) is removed", r"its placement group \1 was removed"),
)
OTHERWISE: Mapping[str, str] = {"killed": "it was cancelled"}

REASONS: Mapping[str, DeathKind] = {
    "NODE_DIED": "node died",
    "OWNER_DIED": "owner died",
    "RAY_KILL": "killed",
    "OUT_OF_SCOPE": "exited",
    "REF_DELETED": "exited",
    "WORKER_DIED": "crashed",
}
"""By ``ActorDiedErrorContext.reason``."""

ERROR_TYPES: Mapping[str, DeathKind] = {
    "OUT_OF_MEMORY": "out of memory",
    "NODE_OUT_OF_MEMORY": "out of memory",
    "OUT_OF_DISK_ERROR": "crashed",
    "NODE_DIED": "node died",
    "OWNER_DIED": "owner died",
    "LOCAL_RAYLET_DIED": "node died",
    "RUNTIME_ENV_SETUP_FAILED": "runtime_env",
    "ACTOR_UNSCHEDULABLE_ERROR": "unschedulable",
    "TASK_UNSCHEDULABLE_ERROR": "unschedulable",
    "TASK_PLACEMENT_GROUP_REMOVED": "placement group removed",
    "ACTOR_PLACEMENT_GROUP_REMOVED": "placement group removed",
    "TASK_CANCELLED": "killed",
    "WORKER_DIED": "crashed",
}
"""By the ``error_type`` of a task."""


def of_actor(cause: Any) -> RayDeath | None:
    """From an actor's ``death_cause``; None where it has none."""
    if not isinstance(cause, Mapping) or not cause:
        return None
    for name, build in CONTEXTS.items():
        context = cause.get(name)
        if isinstance(context, Mapping):
            return build(context)
    name, context = next(iter(cause.items()))
    return RayDeath(
        "not known",
        _shortened(f"{name}: {text(context.get('error_message')) if isinstance(context, Mapping) else context}"),
    )


def _in_init(context: Mapping[str, Any]) -> RayDeath:
    trace = plain(text(context.get("formatted_exception_string")))
    error_type, message = raised(trace)
    return RayDeath("in __init__", _shortened(message or "its __init__ raised"), users_frame(trace), error_type)


def _died(context: Mapping[str, Any]) -> RayDeath:
    message = plain(text(context.get("error_message")))
    reason = text(context.get("reason"))
    kind = _kind(message, REASONS.get(reason, "not known"))
    pid = integer(context.get("pid")) or None
    return RayDeath(
        kind, _in_words(kind, message), exit_detail=_detail(message), node_id=identity(context.get("node_id")), pid=pid
    )


def _runtime_env(context: Mapping[str, Any]) -> RayDeath:
    return RayDeath(
        "runtime_env",
        _shortened(_last_line(plain(text(context.get("error_message")))) or "its runtime_env could not be set up"),
    )


def _unschedulable(context: Mapping[str, Any]) -> RayDeath:
    return RayDeath(
        "unschedulable", _shortened(plain(text(context.get("error_message"))) or "no node can ever hold it")
    )


def _out_of_memory(context: Mapping[str, Any]) -> RayDeath:
    message = plain(text(context.get("error_message")))
    return RayDeath("out of memory", _in_words("out of memory", message), exit_detail=message)


CONTEXTS = {
    "creation_task_failure_context": _in_init,
    "runtime_env_failed_context": _runtime_env,
    "actor_unschedulable_context": _unschedulable,
    "oom_context": _out_of_memory,
    "actor_died_error_context": _died,
}


def of_task(task: Mapping[str, Any]) -> RayDeath | None:
    """From a task's ``error_type`` and ``error_message``; None where it has not failed."""
    error_type, message = text(task.get("error_type")), plain(text(task.get("error_message")))
    if not error_type and not message:
        return None
    creation = task.get("type") == "ACTOR_CREATION_TASK"
    if error_type == "TASK_EXECUTION_EXCEPTION" or (creation and "CreationTaskError" in message):
        name, words = raised(message)
        return RayDeath(
            "in __init__" if creation else "crashed", _shortened(words or message), users_frame(message), name
        )
    kind = ERROR_TYPES.get(error_type) or _kind(message, "not known")
    return RayDeath(kind, _in_words(kind, message), users_frame(message), error_type, _detail(message))


def _kind(message: str, otherwise: DeathKind) -> DeathKind:
    if otherwise not in ("not known", "crashed"):
        return otherwise
    certain = message.partition(GUESSES)[0]
    return next((kind for pattern, kind in KINDS if re.search(pattern, certain, re.IGNORECASE)), otherwise)


def _in_words(kind: DeathKind, message: str) -> str:
    """Ray's words without what they are wrapped in; those that only Ray's makers understand in plain ones."""
    certain = message.partition(GUESSES)[0].strip()
    for pattern, words in PLAINLY:
        match = re.search(pattern, certain, re.DOTALL)
        if match:
            return match.expand(words)
    _, found, detail = certain.partition(EXIT_DETAIL)
    return _shortened(detail if found else certain) or OTHERWISE.get(kind, kind)


def _detail(message: str) -> str:
    _, found, detail = message.partition(EXIT_DETAIL)
    return detail.strip() if found else message


# --- tracebacks ---


def raised(trace: str) -> tuple[str, str]:
    """The exception that the user's code raised: its type, and ``"Type: message"``. Ray's own wrappers are left aside."""
    found = [
        match
        for match in RAISED.finditer(trace)
        if not (match["type"] or match["alone"]).split(".")[-1].startswith(WRAPPERS)
    ]
    found = [
        match
        for match in found
        if match["type"] not in ("User exception", "System error", "Traceback") and " " not in (match["type"] or "")
    ]
    if not found:
        return "", ""
    last = found[-1]
    name = last["type"] or last["alone"]
    return name, f"{name}: {last['message']}" if last["message"] else name


def users_frame(trace: str) -> str | None:
    """The user's innermost frame, ``"file:line function"``: not Ray's, and a library's only where nothing else is there."""
    frames = [match for match in FRAME.finditer(plain(trace)) if not RAYS_OWN.search(match["file"])]
    chosen = [match for match in frames if not library_frame(match["file"])] or frames
    return f"{chosen[-1]['file']}:{chosen[-1]['line']} {chosen[-1]['function']}" if chosen else None


def _last_line(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _shortened(words: str) -> str:
    one = " ".join(words.split())
    return one if len(one) <= LONGEST_WORDS else one[: LONGEST_WORDS - 1] + "…"
