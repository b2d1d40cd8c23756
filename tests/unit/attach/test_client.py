"""The line to an agent, where the process at its other end does nothing."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from jupyter_traindbg.agent import rendezvous
from jupyter_traindbg.attach.client import AgentClient
from jupyter_traindbg.errors import DeadlineExceeded, TargetGone


def test_a_queue_full_of_earlier_clients_is_silence_and_not_the_end_of_the_process(tmp_path: Path) -> None:
    (tmp_path / "agent.json").write_text(json.dumps({"protocol": rendezvous.PROTOCOL, "token": "t", "version": "0"}))
    with socket.socket(socket.AF_UNIX) as agent, socket.socket(socket.AF_UNIX) as earlier:
        agent.bind(os.path.join(tmp_path, rendezvous.SOCKET))
        with pytest.raises(TargetGone, match="does not listen"):
            AgentClient(str(tmp_path), os.getpid(), deadline_s=5)
        agent.listen(0)
        earlier.connect(os.path.join(tmp_path, rendezvous.SOCKET))
        with pytest.raises(DeadlineExceeded, match="earlier clients"):
            AgentClient(str(tmp_path), os.getpid(), deadline_s=5)
