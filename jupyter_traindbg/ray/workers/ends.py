"""How what is over ended: the cause itself, and whether somebody wanted it."""

from __future__ import annotations

from ...model import NotAvailable, RayDeath
from .facts import Said

__all__ = ["dead", "lines", "place"]

ON_PURPOSE = ("killed", "exited", "owner died", "placement group removed")
"""Ends that somebody brought about and that are no failure by themselves."""


def dead(death: RayDeath | None, ended: float | NotAvailable, restarts: int = 0) -> Said:
    """What ended so long ago, after so many restarts or attempts."""
    if death is None:
        return Said("dead", "dead; Ray does not say why", ended)
    again = f", after {restarts} restart{'s' * (restarts != 1)}" if restarts else ""
    if death.kind in ON_PURPOSE:
        return Said("ended", f"ended: {death.words}{again}", ended)
    return Said("dead", f"dead: {death.words}{again}", ended)


def place(death: RayDeath | None) -> str | NotAvailable:
    """The user's line at which it died."""
    return death.where if death is not None and death.where else NotAvailable("it has no process any more")


def lines(death: RayDeath | None) -> tuple[str, ...]:
    """What else Ray says of its end."""
    if death is None or not death.exit_detail or death.exit_detail in death.words:
        return ()
    return (death.exit_detail,)
