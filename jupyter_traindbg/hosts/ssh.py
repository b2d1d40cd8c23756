"""Hosts that the person reaches by ``ssh``: with their configuration, keys, agent and jump hosts, and never a question."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import CannotAttach, NotPermitted, TraindbgError
from ..language import text
from .remote import RemoteHosts, RemoteLine, shell_words

__all__ = ["SshLine", "named_in", "open_hosts"]

COMMAND, PYTHON = "TRAINDBG_SSH", "TRAINDBG_SSH_PYTHON"
"""Variables: the program in place of ``ssh``, with its options; and the Python to take on the hosts, in place of the first that will do."""
OPTIONS: Mapping[str, str] = {
    "BatchMode": "yes",  # a question would wait for ever
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "ServerAliveCountMax": "3",
    "ServerAliveInterval": "5",
}
"""What the person's configuration may say otherwise, and must not here."""
CONNECT_S = 10


class SshLine(RemoteLine):
    """The connection to one host: an ``ssh`` of ours, and the helper at its other end."""

    python_variable = PYTHON

    @property
    def by_hand(self) -> str:
        """See `RemoteLine.by_hand`."""
        return f"ssh {self.host}"

    def command(self, variables: Mapping[str, str]) -> list[str]:
        """See `RemoteLine.command`."""
        options = [word for name, value in OPTIONS.items() for word in ("-o", f"{name}={value}")]
        program = shlex.split(variables.get(COMMAND) or "ssh")
        there = "exec " + shlex.join(shell_words(variables.get(PYTHON)))
        return [*program, *options, "-o", f"ConnectTimeout={CONNECT_S}", "--", self.host, there]

    def not_reached(self, said: str) -> TraindbgError:
        """See `RemoteLine.not_reached`."""
        last = said.rpartition("\n")[2][:200]
        by_hand = text("`ssh {host}` must get in without a question first", host=self.host)
        why = text("{host} cannot be reached: {why}", host=self.host, why=last or text("ssh said nothing"))
        if re.search(r"Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED", said):
            return NotPermitted(
                text("{host} cannot be reached: its key is not known here, or has changed", host=self.host),
                text("run `ssh {host}` once by hand, and look at the key that it shows", host=self.host),
            )
        if re.search(r"Permission denied|Too many authentication failures", said):
            return NotPermitted(
                why, text("{by_hand}: by a key that needs no passphrase, or by ssh-agent", by_hand=by_hand)
            )
        if re.search(r"Could not resolve hostname|Name or service not known", said):
            return CannotAttach(why, text("name it as `ssh` does: a name of ~/.ssh/config, HOST, or USER@HOST"))
        return CannotAttach(why, by_hand)


def named_in(config: Path) -> list[str]:
    """The hosts that a configuration of ssh has a part for, patterns left out; none where there is no such file."""
    try:
        lines = config.read_text(errors="replace").splitlines()
    except OSError:
        return []
    told = (line.replace("=", " ", 1).split() for line in lines)
    names = [name for words in told if words and words[0].lower() == "host" for name in words[1:]]
    return [name for name in dict.fromkeys(names) if not set("*?!") & set(name)]


def open_hosts(names: Sequence[str]) -> RemoteHosts:
    """The hosts that ssh reaches by these names, as places to run functions. Starts nothing yet."""
    return RemoteHosts({name: SshLine(name) for name in names})
