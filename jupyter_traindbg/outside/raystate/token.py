"""The token of a cluster that wants one, found where Ray itself looks for it.

That is ``RAY_AUTH_TOKEN``, the file that ``RAY_AUTH_TOKEN_PATH`` names, ``~/.ray/auth_token``.
"""

from __future__ import annotations

import os
from pathlib import Path

from ...language import later, text

__all__ = ["SET_IT", "find", "token_for_ray"]

SET_IT = later(
    "set RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH to a file, to the cluster's token (`ray get-auth-token` on its head prints it)"
)
LONGEST = 16384


def find() -> tuple[str | None, str]:
    """The token, and in words where it was found or looked for."""
    given = os.environ.get("RAY_AUTH_TOKEN", "").strip()
    if given:
        return given, "RAY_AUTH_TOKEN"
    named = os.environ.get("RAY_AUTH_TOKEN_PATH", "").strip()
    path = Path(named) if named else Path.home() / ".ray" / "auth_token"
    source = (
        text("the file {path} that RAY_AUTH_TOKEN_PATH names", path=path)
        if named
        else text("the file {path}", path=path)
    )
    try:
        with path.open("rb") as f:
            found = f.read(LONGEST).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as e:
        if named:
            why = e.strerror if isinstance(e, OSError) else text("it is no text")
            return None, text("{source} cannot be read ({why})", source=source, why=why)
        return None, text("neither RAY_AUTH_TOKEN nor RAY_AUTH_TOKEN_PATH is set, and there is no ~/.ray/auth_token")
    return (found, source) if found.isprintable() and found else (None, text("{source} holds no token", source=source))


def token_for_ray() -> str | None:
    """The token that Ray itself would use here, where no dashboard can be asked whether the cluster wants one."""
    mode = os.environ.get("RAY_AUTH_MODE")
    if mode is not None and mode.lower() != "token":
        return None
    return find()[0]
