"""The broker's part: joining the cluster, one helper per node made when first needed, and asking them. Runs in the broker only."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import ray
from ray.util.client.worker import Worker as Client
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ...errors import DeadlineExceeded, ProbeFailed, TargetGone
from ...hosts import helper as generic
from ...hosts import shipping
from ...language import text
from ...verbose import milliseconds
from . import helper
from .joining import cannot_join, died_at_birth

__all__ = ["connect", "leave", "run"]

log = logging.getLogger(__name__)

ATTEMPTS = 8
"""Starts of a client server's process for us that may be lost; whoever asked waits no longer for that than for anything else."""
PAUSE_S = 1.0
"""Between two of them. While the head's gRPC threads are busy with the end of the last one, the next is lost more easily: 9 of 16 starts
were right after a lost one, 4 of 24 a second later.
"""
AT_ONCE = 32
"""Requests that a helper works on at the same time."""
_joining = threading.Lock()
_helpers: dict[str, Any] = {}
_equipped: set[str] = set()
_making: dict[str, threading.Lock] = {}


# --- joining -------------------------------------------------------------------------------------------------------


def connect(address: str) -> dict[str, str]:
    """Join the cluster at `address` (``host:port`` of its GCS, or ``ray://...``), once; what Ray it is. Raises a `TraindbgError`."""
    with _joining:
        if not ray.is_initialized():
            began = time.monotonic()
            _join(address)
            log.debug("joined the cluster at %s, after %s", address, milliseconds(began))
    return {"ray": ray.__version__}


def _join(address: str) -> None:
    for more in reversed(range(ATTEMPTS)):
        try:
            with _parting_at_once():
                ray.init(
                    address,
                    namespace=f"traindbg-{uuid.uuid4().hex[:12]}",
                    log_to_driver=False,
                    configure_logging=False,
                )
        except BaseException as e:
            with contextlib.suppress(Exception):
                ray.shutdown()
            if not (more and died_at_birth(e)):
                raise cannot_join(address, e) from e
            time.sleep(PAUSE_S)
        else:
            return


@contextlib.contextmanager
def _parting_at_once() -> Iterator[None]:
    """Have a client server's refusal told at once: Ray waits until the head has closed the streams of that client, 30 to 40 s, before it
    raises what it has known all along.
    """
    close = Client.close

    def cut(client: Client) -> None:
        client._in_shutdown = True  # or its threads would open the streams again
        channel: Any = getattr(client, "channel", None)
        if channel is not None:
            channel.close()
        close(client)  # type: ignore[no-untyped-call]

    Client.close = cut  # type: ignore[method-assign]
    try:
        yield
    finally:
        Client.close = close  # type: ignore[method-assign]


# --- helpers -------------------------------------------------------------------------------------------------------


def run(address: str, node_id: str, request: bytes, deadline_s: float) -> bytes:
    """Have the helper on `node_id` work on `request`, and make it first where need be. Raises a `TraindbgError`."""
    ends = time.monotonic() + deadline_s
    connect(address)
    made = _helper(node_id, ends)
    answer: bytes = _get(node_id, made.run.remote(request), ends)
    return answer


def leave() -> None:
    """End all helpers, in peace: each removes what it has on its node."""
    made, calls = list(_helpers.values()), []
    _helpers.clear()
    _equipped.clear()
    for one in made:
        with contextlib.suppress(Exception):
            calls.append(one.close.remote())
    if calls:
        with contextlib.suppress(Exception):
            ray.wait(calls, num_returns=len(calls), timeout=1.0)
    for one in made:
        with contextlib.suppress(Exception):
            ray.kill(one)


def _helper(node_id: str, ends: float) -> Any:
    with _joining:
        lock = _making.setdefault(node_id, threading.Lock())
    if not lock.acquire(timeout=max(0.05, ends - time.monotonic())):
        raise DeadlineExceeded(text("the helper on node {node} did not come up in time", node=_short(node_id)))
    try:
        made = _helpers.get(node_id)
        if made is None:
            made = _helpers[node_id] = _made(node_id)
            log.debug("a helper actor is being started on node %s", _short(node_id))
        if node_id not in _equipped:
            began = time.monotonic()
            _equip(node_id, made, ends)
            log.debug("the helper on node %s is up, after %s", _short(node_id), milliseconds(began))
        return made
    finally:
        lock.release()


def _equip(node_id: str, made: Any, ends: float) -> None:
    """Wait until the helper is up, and give it what its node lacks. One that is late comes up meanwhile, for the next request."""
    about = _get(node_id, made.about.remote(), ends)
    if about["error"]:
        del _helpers[node_id]
        ray.kill(made)
        raise ProbeFailed(
            text(
                "the helper on node {node} could not unpack our source: {error}",
                node=_short(node_id),
                error=about["error"],
            )
        )
    if not about["py_spy"] and (program := shipping.py_spy(about["machine"])) is not None:
        _get(node_id, made.take.remote("py-spy", program), ends)
    _equipped.add(node_id)


def _made(node_id: str) -> Any:
    for module in (generic, helper):
        ray.cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return (
        ray.remote(helper.TraindbgHelper)
        .options(
            num_cpus=0,
            max_concurrency=AT_ONCE,
            max_restarts=0,
            enable_task_events=False,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
        )
        .remote(shipping.PACKAGE, shipping.archive())
    )


def _get(node_id: str, ref: Any, ends: float) -> Any:
    """The value of `ref`, by then. Raises `DeadlineExceeded`, or `TargetGone` where node or helper are gone."""
    try:
        return ray.get(ref, timeout=max(0.05, ends - time.monotonic()))
    except ray.exceptions.GetTimeoutError:
        raise DeadlineExceeded(
            text("node {node} did not answer in time", node=_short(node_id)),
            text("it may be overloaded or cut off; give a longer --timeout"),
        ) from None
    except (ray.exceptions.RayActorError, ray.exceptions.ActorUnschedulableError) as e:
        _helpers.pop(node_id, None)
        _equipped.discard(node_id)
        raise TargetGone(
            text(
                "node {node} is gone, or our helper on it: {why}",
                node=_short(node_id),
                why=_first_line(e),
            ),
            text("look again: what is gone is listed as dead"),
        ) from e
    except ray.exceptions.RayError as e:
        raise ProbeFailed(
            text("the helper on node {node} failed: {why}", node=_short(node_id), why=_first_line(e))
        ) from e


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__


def _short(node_id: str) -> str:
    return node_id[:12]
