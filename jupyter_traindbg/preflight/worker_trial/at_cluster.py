"""The broker's part of a trial: making the actor, asking it with deadlines, taking it away. Runs in the broker only, which imports ray."""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Mapping
from typing import Any

import ray

from ...attach.ray import session
from ...errors import CannotAttach
from ...language import text
from . import inside

__all__ = ["ask", "start", "stop"]

_trials: dict[str, Any] = {}


def start(
    deadline_s: float, address: str, name: str, resources: Mapping[str, float], working_dir: str | None
) -> dict[str, Any]:
    """Have Ray start one worker in a process of its own, none that lies ready: ``late`` is set where that took too long.

    It is ours, under `name`: whatever happens to this process, Ray ends it. Raises `CannotAttach` for what Ray refuses.
    """
    ends = time.monotonic() + deadline_s
    session.connect(address)
    by_value: Any = ray.cloudpickle.register_pickle_by_value
    by_value(inside)
    environment: dict[str, Any] = {"env_vars": {"TRAINDBG_TRIAL": uuid.uuid4().hex}}  # no idle worker has that
    if working_dir is not None:
        environment["working_dir"] = _uploaded(working_dir)
    began = time.monotonic()
    made: Any = None
    try:
        actor: Any = ray.remote(inside.TraindbgTrial).options(**_options(resources), runtime_env=environment)
        _trials[name] = made = actor.remote()
    except (ValueError, TypeError) as e:
        raise CannotAttach(
            text("Ray refuses such a worker: {why}", why=e), text("mend its resources (--each), or its --working-dir")
        ) from e
    return {**_answer(made.here.remote(), ends), "took_s": time.monotonic() - began}


def ask(deadline_s: float, name: str, method: str, *arguments: Any) -> dict[str, Any]:
    """One stage. ``late``: it still runs. ``error``: what was raised, or why the process is gone."""
    return _answer(getattr(_trials[name], method).remote(*arguments), time.monotonic() + deadline_s)


def stop(deadline_s: float, name: str) -> bool:
    """Kill it, whatever it does; whether Ray has seen it end by then."""
    actor = _trials.pop(name, None)
    if actor is None:
        return True
    ends = time.monotonic() + deadline_s
    ray.kill(actor, no_restart=True)
    while time.monotonic() < ends:  # the kill is on its way, and until it is there the actor still answers
        try:
            ray.get(actor.here.remote(), timeout=max(0.05, ends - time.monotonic()))
        except ray.exceptions.RayActorError:
            return True
        except ray.exceptions.RayError:
            return False
        time.sleep(0.05)
    return False


def _uploaded(directory: str) -> str:
    """`directory` as a package that the cluster keeps, under the name that Ray gives it. Only a whole job could name a directory."""
    from ray._private.runtime_env.working_dir import upload_working_dir_if_needed

    client: Any = ray.util.client.ray
    if client.is_connected():  # its server cannot keep a package for a while; the trial uses it at once
        os.environ.setdefault("RAY_RUNTIME_ENV_TEMPORARY_REFERENCE_EXPIRATION_S", "0")
    with tempfile.TemporaryDirectory(prefix="traindbg-") as scratch:
        try:
            made = upload_working_dir_if_needed({"working_dir": directory}, True, scratch)
        except Exception as e:
            raise CannotAttach(
                text("Ray did not take the directory {directory}: {why}", directory=directory, why=e),
                text("name a smaller one"),
            ) from e
    return str(made["working_dir"])


def _options(resources: Mapping[str, float]) -> dict[str, Any]:
    own = {key: value for key, value in resources.items() if key not in ("CPU", "GPU", "memory")}
    said = {"num_cpus": resources.get("CPU"), "num_gpus": resources.get("GPU"), "memory": resources.get("memory")}
    options: dict[str, Any] = {key: value for key, value in said.items() if value is not None}
    if own:
        options["resources"] = own
    return {**options, "max_restarts": 0, "enable_task_events": False}


def _answer(ref: Any, ends: float) -> dict[str, Any]:
    try:
        found: dict[str, Any] = ray.get(ref, timeout=max(0.05, ends - time.monotonic()))
    except ray.exceptions.GetTimeoutError:
        return {"late": True}
    except ray.exceptions.RayError as e:
        lines = [line.strip() for line in str(e).splitlines() if line.strip()]
        return {"error": f"{type(e).__name__}: {' '.join(lines)[:600]}", "where": None}
    return found
