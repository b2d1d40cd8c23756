"""What Ray says of a cluster that it cannot join, in our words: another version, a token, anything else."""

from __future__ import annotations

import pytest

from jupyter_traindbg.attach.ray.joining import cannot_join, died_at_birth
from jupyter_traindbg.errors import CannotAttach, NotPermitted, RayVersion

MISMATCH = """Version mismatch: The cluster was started with:
    Ray: 2.41.0
    Python: 3.12.3
This process on Ray Client was started with:
    Ray: 2.60.0
    Python: 3.11.7
"""


def test_other_versions_are_named_with_what_to_install() -> None:
    error = cannot_join("10.0.0.1:6379", RuntimeError(MISMATCH))
    assert type(error) is RayVersion
    assert error.cause == "the cluster runs Ray 2.41.0 on Python 3.12.3, this is Ray 2.60.0 on Python 3.11.7"
    assert "Python 3.12 " in error.next_step
    assert "ray[default]==2.41.0" in error.next_step
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    "words", ["RPC error: Unauthenticated", "InvalidAuthToken: wrong", "Authentication token is missing"]
)
def test_a_token_that_is_refused_is_a_matter_of_permission(words: str) -> None:
    assert type(cannot_join("h:1", RuntimeError(words))) is NotPermitted


def test_anything_else_is_told_as_it_is() -> None:
    error = cannot_join("h:1", ConnectionError("no raylet\n  found here"))
    assert type(error) is CannotAttach
    assert "ConnectionError: no raylet found here" in error.cause
    assert "ray://" in error.next_step


def test_a_connection_that_ended_without_an_answer_is_tried_again_unless_an_error_ended_it() -> None:
    words = "Request can't be sent because the Ray client has already been disconnected"
    assert died_at_birth(ConnectionError(f"{words}."))
    assert not died_at_birth(ConnectionError(f"{words} due to an error. Last exception: UNAUTHENTICATED."))


LOST = """Initialization failure from server:
Traceback (most recent call last):
  File "/opt/ray/util/client/server/proxier.py", line 772, in Datapath
    raise RuntimeError(
{}
"""


@pytest.mark.parametrize(
    ("last", "lost"),
    [
        ("RuntimeError: Starting Ray client server failed. See ray_client_server_23000.err for detailed logs.", True),
        ("psutil.ZombieProcess: PID still exists but it's a zombie (pid=4711)", True),
        ("RuntimeError: Failed to create runtime_env for Ray client server, it is caused by: no such package", False),
    ],
)
def test_a_process_that_died_in_its_fork_is_told_from_one_that_cannot_start(last: str, lost: bool) -> None:
    error = ConnectionAbortedError(LOST.format(last))
    assert died_at_birth(error) is lost
    told = cannot_join("ray://h:10001", error)
    assert type(told) is CannotAttach
    assert told.cause.endswith(f"ConnectionAbortedError: Initialization failure from server: {last}")
    assert "ray_client_server" in told.next_step, "an address of that kind is not advised again"
