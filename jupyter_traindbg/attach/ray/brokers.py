"""This process's end of the line to its brokers: one per cluster and token, started when first asked, ended with us."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from ...errors import DeadlineExceeded, TargetGone, TraindbgError
from ...hosts.lines import Begun, Line, between_pipes
from ...language import text

__all__ = ["Broker", "broker"]

MODULE = "jupyter_traindbg.attach.ray.broker"
_ABOUT_OURSELVES = (
    "RAY_ADDRESS",
    "RAY_AUTH_MODE",
    "RAY_AUTH_TOKEN",
    "RAY_AUTH_TOKEN_PATH",
    "RAY_CLIENT_MODE",
    "RAY_JOB_CONFIG_JSON_ENV_VAR",
    "RAY_JOB_ID",
    "RAY_NAMESPACE",
    "RAY_NODE_ID",
    "RAY_RAYLET_PID",
    "RAY_RUNTIME_ENV",
    "RAY_RUNTIME_ENV_HOOK",
    "TRAINDBG",
)
"""Variables of a kernel that is itself part of a Ray job, or prepared: the broker is neither."""


class Broker(Line):
    """The child process that joins one cluster for us."""

    by = "the broker"

    def __init__(self, address: str, token: str | None = None) -> None:
        super().__init__()
        self._address, self._token = address, token

    def start(self, said: IO[bytes]) -> Begun:
        """See `Line.start`. It has pipes of its own: Ray writes to the standard ones."""
        return between_pipes(
            lambda theirs_in, theirs_out: subprocess.Popen(
                [sys.executable, "-m", MODULE, str(theirs_in), str(theirs_out), str(os.getpid())],
                pass_fds=(theirs_in, theirs_out),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=environment(os.environ, self._address, self._token),
                cwd="/",
                start_new_session=True,  # an interrupt of the cell is not meant for it
            )
        )

    def late(self, timeout: float, last_words: str) -> TraindbgError:
        """See `Line.late`."""
        return DeadlineExceeded(
            text("the Ray cluster did not answer in {timeout:.1f} s", timeout=timeout),
            text("try again: joining it goes on meanwhile"),
        )

    def broke(self, last_words: str, status: int | None, *, ready: bool) -> TraindbgError:
        """See `Line.broke`; the last line is Ray's reason mostly."""
        last = last_words.rpartition("\n")[2][:200]
        return TargetGone(
            text("the connection to the Ray cluster broke ({last_words})", last_words=last)
            if last
            else text("the connection to the Ray cluster broke"),
            text("try again; is the cluster up?"),
        )


def environment(ours: Mapping[str, str], address: str, token: str | None) -> dict[str, str]:
    """The variables of a broker: ours, without what they say of us, and with how to behave on the cluster."""
    theirs = {name: value for name, value in ours.items() if name not in _ABOUT_OURSELVES}
    package = str(Path(__file__).parents[3])
    theirs["PYTHONPATH"] = os.pathsep.join(filter(None, [package, ours.get("PYTHONPATH")]))
    theirs["RAY_CLIENT_RECONNECT_GRACE_PERIOD"] = "0"  # over ray://, too, helpers go at once when we are gone
    theirs["RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL"] = "minor"
    if address.partition(":")[0] in ("127.0.0.1", "localhost"):
        theirs["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = (
            "0"  # else Ray takes this machine's outer address instead, where nobody listens
        )
    theirs["RAY_AUTH_MODE"] = "disabled" if token is None else "token"
    if token is not None:
        theirs["RAY_AUTH_TOKEN"] = token
    return theirs


_brokers: dict[tuple[str, str | None], Broker] = {}
_making = threading.Lock()


def broker(address: str, token: str | None = None) -> Broker:
    """This process's broker for the cluster at `address` (any text that names it), the same one for everybody who asks here."""
    with _making:
        known = _brokers.get((address, token))
        if known is None:
            known = _brokers[(address, token)] = Broker(address, token)
        return known


os.register_at_fork(after_in_child=_brokers.clear)  # the child has none of the threads that read the answers
