"""Why a cluster could not be joined, from Ray's many lines. Does not import ray."""

from __future__ import annotations

import re

from ...errors import CannotAttach, NotPermitted, RayVersion, TraindbgError
from ...language import text

__all__ = ["cannot_join", "died_at_birth"]

_VERSIONS = re.compile(r"Ray: (?P<ray>\S+)\s+Python: (?P<python>\S+)")


def died_at_birth(error: BaseException) -> bool:
    """Whether the process that a client server starts for each client died in its fork, before it was any program.

    gRPC's threads on the head race with that fork: about one start in fourteen is lost where it was counted (ray-project/ray
    issue 63202), and the next is none the worse. The second form is what the head says where it looks at the
    dead child a moment earlier; the third is the client's own, where the connection ended before any answer, by no error.
    """
    lost = r"Starting Ray client server failed|ZombieProcess|client has already been disconnected\.$"
    return re.search(lost, str(error)) is not None


def cannot_join(address: str, error: BaseException) -> TraindbgError:
    """What `ray.init` raised for `address`, in one line with what to do."""
    words = " ".join(str(error).split())
    if "ersion mismatch" in words or "incompatible" in words or "versions differ" in words:
        return _other_version(words)
    if re.search(r"(?i)unauthenticated|invalid auth|token", words):
        return NotPermitted(
            text("the Ray cluster at {address} refused our token", address=address),
            text("set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH to the cluster's token"),
        )
    return CannotAttach(
        text(
            "the Ray cluster at {address} could not be joined: {kind}: {why}",
            address=address,
            kind=type(error).__name__,
            why=_gist(error)[:300],
        ),
        text(
            "ray_client_server*.err on the head node may say more; on one of the cluster's nodes, name it as auto; without "
            "joining, `traindbg ray-workers --tier 0` still works"
        )
        if address.startswith("ray://")
        else text(
            "outside the cluster, name it as ray://HOST:10001; without joining, `traindbg ray-workers --tier 0` still works"
        ),
    )


def _gist(error: BaseException) -> str:
    """The error's text; of one that carries the head's whole traceback, the last line."""
    before, traceback, after = str(error).partition("Traceback (most recent call last):")
    lines = [line.strip() for line in after.splitlines() if line.strip()] if traceback else []
    return " ".join([*before.split(), *lines[-1:]])


def _other_version(words: str) -> RayVersion:
    seen = [(m["ray"], m["python"]) for m in _VERSIONS.finditer(words)]
    if len(seen) != 2:
        return RayVersion(text("the cluster runs another version of Ray or Python: {words}", words=words[:300]))
    (ray_there, python_there), (ray_here, python_here) = seen
    return RayVersion(
        text(
            "the cluster runs Ray {ray_there} on Python {python_there}, this is Ray {ray_here} on Python {python_here}",
            ray_there=ray_there,
            python_there=python_there,
            ray_here=ray_here,
            python_here=python_here,
        ),
        text(
            "run this under Python {python} with: pip install 'ray[default]=={ray}'; `traindbg ray-workers "
            "--tier 0` works with any version",
            python=".".join(python_there.split(".")[:2]),
            ray=ray_there,
        ),
    )
