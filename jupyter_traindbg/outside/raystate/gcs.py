"""A cluster's state from its GCS alone, for when the dashboard is down. Only this module imports ray, and it runs in the broker's process.

The GCS is asked directly, by the same calls that the dashboard's head makes; nobody becomes a driver for it. Its answers become rows as the
state API gives them, so that the same readers read both.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

from ...errors import CannotAttach, DeadlineExceeded, MissingPiece, NotPermitted, ProbeFailed, TraindbgError
from ...language import text
from ...model import NotAvailable, RayCluster, RayNode
from . import naming, placing, processes, train, work
from . import token as tokens
from .addresses import ClusterAddress
from .fields import resources
from .nodes import nodes as read_nodes
from .picking import job_id_of

__all__ = ["change", "cluster", "dashboard"]

LIMIT = 10_000
LARGEST_BYTES = 256 << 20
INTERNAL = "_ray_internal_"
SUBMISSION = "job_submission_id"
"""The key in a job's metadata that the job API writes its id to."""
NO_AGENTS = NotAvailable("the dashboard is down, which collects it")
LONGEST_ID = 64
"""Bytes that are longer are no id, but pickles and the like."""
EQUAL, NOT_EQUAL = 0, 1
Row = dict[str, Any]


def cluster(address: ClusterAddress, job: str | None, deadline_s: float) -> RayCluster:
    """What `read` gives, as far as the GCS knows it: 20-100 ms, ray's import aside. Raises `TraindbgError`."""
    began = time.monotonic()
    gcs = _Gcs(address, deadline_s)
    try:
        found = _cluster(gcs, job)
    finally:
        gcs.close()
    return replace(found, taken_s=time.monotonic() - began)


def dashboard(address: ClusterAddress, _: str | None, deadline_s: float) -> str:
    """The dashboard's URL as its head wrote it into the GCS; empty where it never did."""
    gcs = _Gcs(address, deadline_s)
    try:
        place = gcs.kept("dashboard", "dashboard")
    finally:
        gcs.close()
    return f"http://{place}" if place else ""


def change(address: ClusterAddress, service: str, method: str, fields: Mapping[str, Any], deadline_s: float) -> None:
    """Have the GCS do one thing, by one call such as ``ActorInfo.KillActorViaGcs``. Raises `TraindbgError` with what it says."""
    gcs = _Gcs(address, deadline_s)
    try:
        gcs.call(service, method, getattr(gcs.messages, f"{method}Request")(**fields))
    finally:
        gcs.close()


def _cluster(gcs: _Gcs, job: str | None) -> RayCluster:
    taken_at = time.time()
    jobs = tuple(work.job(row) for row in gcs.jobs())
    job_id = job_id_of(jobs, job) if job is not None else None
    rows = gcs.rows("ActorInfo", "GetAllActorInfo", "actor_table_data", state="DEPENDENCIES_UNREADY")
    actors = tuple(work.actor(row) for row in rows if job_id in (None, row.get("job_id")))
    workers = gcs.rows("WorkerInfo", "GetAllWorkerInfo", "worker_table_data", worker_type="WORKER")
    kept = [_worker(row) for row in workers if not str(row.get("exit_type", "")).startswith("INTENDED")]
    live = processes.processes(kept, {})
    groups = gcs.rows("PlacementGroupInfo", "GetAllPlacementGroup", "placement_group_table_data", state="PENDING")
    found = tuple(work.placement_group(row) for row in groups)
    tasks = work.tasks(gcs.tasks(job_id, naming.creations(actors)))
    return RayCluster(
        address=gcs.address,
        dashboard="",
        ray_version=str(import_module("ray").__version__),
        taken_at=taken_at,
        taken_s=0.0,
        source="GCS",
        nodes=gcs.nodes(),
        jobs=placing.drivers_placed(jobs, live),
        actors=placing.placed(actors, tasks, live, {}),
        tasks=tasks if gcs.why_no_tasks is None else NotAvailable(gcs.why_no_tasks),
        processes=live,
        train=train.from_actors(actors, ()),
        placement_groups=tuple(group for group in found if job_id in (None, group.job_id)),
        events=NO_AGENTS,
    )


class _Gcs:
    """The calls, all within one deadline."""

    def __init__(self, address: ClusterAddress, deadline_s: float) -> None:
        self.until = time.monotonic() + deadline_s
        self.address = address.gcs or _joined()
        self.why_no_tasks: str | None = None
        try:
            grpc, utils = import_module("grpc"), import_module("ray._private.grpc_utils")
            self.messages: Any = import_module("ray.core.generated.gcs_service_pb2")
            self.services: Any = import_module("ray.core.generated.gcs_service_pb2_grpc")
        except ImportError as e:
            raise MissingPiece(
                text("the GCS cannot be read with what is installed here ({why})", why=e),
                text("pip install 'ray[default]', as on the cluster"),
            ) from None
        self.codes, self.failed = grpc.StatusCode, grpc.RpcError
        self.channel = utils.init_grpc_channel(self.address, [("grpc.max_receive_message_length", LARGEST_BYTES)])

    def close(self) -> None:
        self.channel.close()

    def call(self, service: str, method: str, request: Any) -> Any:
        """One call. Raises `TraindbgError` with what gRPC says."""
        stub = getattr(self.services, f"{service}GcsServiceStub")(self.channel)
        left_s = max(0.05, self.until - time.monotonic())
        try:
            reply = getattr(stub, method)(request, timeout=left_s)
        except self.failed as e:
            raise self._in_words(e) from None
        status = getattr(reply, "status", None)
        if status is not None and status.code:
            raise ProbeFailed(
                text(
                    "the GCS at {address} refuses {method}: {why}",
                    address=self.address,
                    method=method,
                    why=status.message,
                ),
                text("is it a Ray of another version?"),
            )
        return reply

    def _in_words(self, error: Any) -> TraindbgError:
        code = error.code()
        if code is self.codes.DEADLINE_EXCEEDED:
            return DeadlineExceeded(
                text("the GCS at {address} has not answered in time", address=self.address),
                text("give a longer --timeout"),
            )
        if code in (self.codes.UNAUTHENTICATED, self.codes.PERMISSION_DENIED):
            return NotPermitted(
                text("the GCS at {address} wants another token than ours, or any", address=self.address),
                text(tokens.SET_IT),
            )
        return CannotAttach(
            text("no GCS answers at {address} ({why})", address=self.address, why=error.details()),
            text("is the cluster up?"),
        )

    def rows(self, service: str, method: str, name: str, /, **defaults: str) -> list[Row]:
        """The entries of a reply as plain rows. `defaults` are for enumerations: protobuf leaves out their first value."""
        reply = self.call(service, method, getattr(self.messages, f"{method}Request")(limit=LIMIT))
        return [{**defaults, **_row(message)} for message in getattr(reply, name)]

    def nodes(self) -> tuple[RayNode, ...]:
        reply = self.call("NodeInfo", "GetAllNodeInfo", self.messages.GetAllNodeInfoRequest())
        rows = [{"state": "ALIVE", **_row(message)} for message in reply.node_info_list]
        for row in rows:
            died = row.get("death_info") or {}
            row["node_ip"] = row.get("node_manager_address", "")
            row["state_message"] = ": ".join(filter(None, (died.get("reason"), died.get("reason_message"))))
        free = self.call(
            "NodeResourceInfo", "GetAllAvailableResources", self.messages.GetAllAvailableResourcesRequest()
        )
        available = {entry.node_id.hex(): dict(entry.resources_available) for entry in free.resources_list}
        return tuple(_without_agents(node, available) for node in read_nodes(rows, (), {}))

    def jobs(self) -> list[Row]:
        """Jobs as the job API has them. The status of a submitted one only the dashboard knows: here it runs as long as its driver."""
        request = self.messages.GetAllJobInfoRequest(
            skip_submission_job_info_field=True, skip_is_running_tasks_field=True
        )
        reply = self.call("JobInfo", "GetAllJobInfo", request)
        return [_job(entry) for entry in reply.job_info_list if not entry.config.ray_namespace.startswith(INTERNAL)]

    def tasks(self, job_id: str | None, creations: Iterable[str]) -> list[Row]:
        """The tasks that have not finished, and those named `creations`. A Ray that keeps them elsewhere than in its GCS has none here."""
        try:
            unfinished = self._tasks(job_id, "state_filters", state="FINISHED", predicate=NOT_EQUAL)
            named = (self._tasks(job_id, "task_name_filters", task_name=name, predicate=EQUAL) for name in creations)
            created = [row for rows in named for row in rows if row["state"] == "FINISHED"]
        except (ProbeFailed, CannotAttach, AttributeError, TypeError, ValueError, ImportError) as e:
            self.why_no_tasks = f"this Ray's GCS does not tell them ({e})"
            return []
        return [*unfinished, *created]

    def _tasks(self, job_id: str | None, filters: str, **condition: Any) -> list[Row]:
        as_row = import_module("ray.util.state.common").protobuf_to_task_state_dict
        request = self.messages.GetTaskEventsRequest(limit=LIMIT)
        request.filters.exclude_driver = True
        getattr(request.filters, filters).add(**condition)
        if job_id is not None:
            request.filters.job_filters.add(job_id=bytes.fromhex(job_id), predicate=EQUAL)
        reply = self.call("TaskInfo", "GetTaskEvents", request)
        return [as_row(message) for message in reply.events_by_task]

    def kept(self, key: str, namespace: str) -> str:
        """A value of the GCS's own store, empty where there is none."""
        request = self.messages.InternalKVGetRequest(key=key.encode(), namespace=namespace.encode())
        try:
            reply = self.call("InternalKV", "InternalKVGet", request)
        except ProbeFailed:  # it says "not found"
            return ""
        return bytes(reply.value).decode(errors="replace")


def _joined() -> str:
    """The GCS of the cluster that this process has joined by another way, such as ``ray://``."""
    ray = import_module("ray")
    if ray.is_initialized():
        return str(ray.get_runtime_context().gcs_address)
    raise CannotAttach(text("the address of the cluster's GCS is not known"), text("name it: ray:@HOST:6379"))


# --- rows as the state API gives them ---


def _without_agents(node: RayNode, available: Mapping[str, Mapping[str, float]]) -> RayNode:
    free = available.get(node.node_id)
    known = resources(free) if free is not None else NotAvailable("the GCS does not say")
    return replace(
        node,
        resources_available=known if node.alive else node.resources_available,
        cpus=NO_AGENTS,
        cpu_percent=NO_AGENTS,
        memory_total_bytes=NO_AGENTS,
        memory_used_bytes=NO_AGENTS,
        object_store_total_bytes=NO_AGENTS,
        object_store_used_bytes=NO_AGENTS,
        spilled_bytes=NO_AGENTS,
        devices=NO_AGENTS,
    )


def _worker(row: Row) -> Row:
    """Ids are one level up there."""
    place = row.get("worker_address") or {}
    return {**row, "worker_id": place.get("worker_id"), "node_id": place.get("node_id")}


def _job(entry: Any) -> Row:
    return {
        "job_id": entry.job_id.hex(),
        "submission_id": dict(entry.config.metadata).get(SUBMISSION),
        "status": "SUCCEEDED" if entry.is_dead else "RUNNING",
        "entrypoint": entry.entrypoint,
        "start_time": entry.start_time,
        "end_time": entry.end_time,
        "driver_info": {"node_ip_address": entry.driver_address.ip_address, "pid": entry.driver_pid},
    }


def _row(message: Any) -> Row:
    """A message with ids in hex and enumerations by name; only what is set."""
    return {field.name: _value(field, value) for field, value in message.ListFields()}


def _value(field: Any, value: Any) -> Any:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        inner = field.message_type.fields_by_name["value"]
        return {str(key): _one(inner, entry) for key, entry in value.items()}
    if isinstance(value, (str, bytes)) or not hasattr(value, "__len__"):
        return _one(field, value)
    return [_one(field, entry) for entry in value]


def _one(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return _row(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else str(value)
    if isinstance(value, bytes):
        return value.hex() if len(value) <= LONGEST_ID else ""
    return value
