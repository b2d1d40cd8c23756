"""What a thread waits for, from its frames and the kernel's view of it: the `Wait` that everything else goes by.

Stacks are innermost first. C calls have no Python frame, so `waiting_for` takes the kernel's view as a second witness where there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..model import Wait, WaitKind
from .whose import RawFrame, bare, library_frame

__all__ = ["in_dataloader_worker", "waiting_for"]


class _Rule(NamedTuple):
    """Frames that mean a wait: `functions` of a library file whose path ends in `file`. ``{}`` as `op` is the function.

    `spins`: waits also while the kernel calls the thread running (a busy wait). `last`: what called it says no more.
    """

    file: str
    functions: str
    kind: WaitKind
    op: str = ""
    spins: bool = False
    last: bool = False


_COLLECTIVES = (
    "all_reduce all_reduce_coalesced all_gather all_gather_coalesced all_gather_into_tensor all_gather_object "
    "all_gather_single all_to_all all_to_all_single barrier broadcast broadcast_object_list gather gather_object "
    "monitored_barrier reduce reduce_scatter reduce_scatter_single reduce_scatter_tensor scatter scatter_object_list"
)
_P2P = "send recv isend irecv send_object_list recv_object_list batch_isend_irecv"
_JOINING = "init_process_group new_group new_subgroups new_subgroups_by_enumeration split_group shrink_group _store_based_barrier"
_PROGRAM = "wait _wait communicate _communicate run call check_call check_output"
_LOADER, _PIPES = "torch/utils/data/dataloader.py", "multiprocessing/connection.py"
_C10D, _FUNCTIONAL = "torch/distributed/distributed_c10d.py", "torch/distributed/_functional_collectives.py"
_DDP, _BUFFERS = "torch/distributed/utils.py", "torch/nn/parallel/distributed.py"
_RULES = (
    _Rule("threading.py", "wait wait_for", "thread"),
    _Rule("threading.py", "acquire", "lock"),
    _Rule("threading.py", "join _wait_for_tstate_lock _shutdown", "thread", "join"),
    _Rule("queue.py", "get", "queue"),
    _Rule("queue.py", "put", "queue", "put"),
    _Rule("queue.py", "join", "queue", "join"),
    _Rule("selectors.py", "select", "network", "poll"),
    _Rule("asyncio/base_events.py", "_run_once run_forever", "idle", "events", last=True),
    _Rule("concurrent/futures/_base.py", "result wait as_completed exception", "future"),
    _Rule("concurrent/futures/thread.py", "_worker", "idle", "work", last=True),
    _Rule("concurrent/futures/process.py", "wait_result_broken_or_wakeup", "process", "result", last=True),
    _Rule("concurrent/futures/process.py", "_process_worker", "idle", "work", last=True),
    _Rule("loky/process_executor.py", "_process_worker", "idle", "work", last=True),
    _Rule(_PIPES, "wait poll _poll recv recv_bytes _recv _recv_bytes", "process", "receive"),
    _Rule(_PIPES, "send send_bytes _send _send_bytes", "process", "send"),
    _Rule(_PIPES, "accept", "process", "accept"),
    _Rule("multiprocessing/queues.py", "get", "process", "get"),
    _Rule("multiprocessing/queues.py", "put", "process", "put"),
    _Rule("multiprocessing/queues.py", "_feed", "idle", "sending", last=True),
    _Rule("multiprocessing/synchronize.py", "acquire wait __enter__", "lock", "shared"),
    _Rule("multiprocessing/pool.py", "get wait next", "process", "result"),
    _Rule("multiprocessing/pool.py", "worker", "idle", "work", last=True),
    _Rule("multiprocessing/popen_fork.py", "wait poll", "child"),
    _Rule("multiprocessing/process.py", "join", "child"),
    _Rule("subprocess.py", _PROGRAM, "child", "program"),
    _Rule("socket.py", "readinto accept create_connection", "network"),
    _Rule("socketserver.py", "serve_forever", "idle", "connections", last=True),
    _Rule("ssl.py", "read recv recv_into do_handshake", "network"),
    _Rule("filelock/_api.py", "acquire", "lock", "lock_file"),
    _Rule("torch/utils/file_baton.py", "wait", "lock", "lock_file"),
    _Rule("filelock/_core/_acquire.py", "acquire _poll_until_acquired", "lock", "lock_file"),
    _Rule(_LOADER, "__next__ _next_data _get_data _try_get_data", "loader"),
    _Rule(_LOADER, "_shutdown_workers __del__", "loader_end"),
    _Rule("torch/utils/data/_utils/worker.py", "_worker_loop", "idle", "indices", last=True),
    _Rule("torch/utils/data/_utils/pin_memory.py", "_pin_memory_loop", "idle", "batches", last=True),
    _Rule(_C10D, _COLLECTIVES, "collective", "{}", spins=True),
    _Rule(_C10D, _P2P, "peer", "{}", spins=True),
    _Rule(_C10D, _JOINING, "init", "{}", spins=True),
    _Rule(_C10D, "destroy_process_group", "teardown", spins=True),
    _Rule("torch/distributed/rendezvous.py", "_create_c10d_store _env_rendezvous_handler rendezvous", "init", "{}"),
    _Rule(_FUNCTIONAL, f"{_COLLECTIVES} wait_tensor", "collective", "{}", spins=True),
    _Rule(_DDP, "_verify_param_shape_across_processes", "collective", "ddp_shapes", spins=True),
    _Rule(_DDP, "_sync_params_and_buffers", "collective", "ddp_parameters", spins=True),
    _Rule(_BUFFERS, "_distributed_broadcast_coalesced", "collective", "ddp_buffers", spins=True),
    _Rule("torch/distributed/elastic/agent/server/api.py", "_invoke_run", "idle", "ranks", last=True),
    _Rule("torch/multiprocessing/spawn.py", "join", "child", "spawned"),
    _Rule("torch/cuda/__init__.py", "synchronize", "gpu", "synchronize", spins=True),
    _Rule("torch/cuda/streams.py", "synchronize wait", "gpu", "synchronize", spins=True),
    _Rule("ray/_private/worker.py", "get wait", "ray"),
    _Rule("ray/_private/worker.py", "main_loop", "idle", "calls", spins=True, last=True),
    _Rule("ray/util/client/worker.py", "get wait", "ray"),
)
_BY_FUNCTION: dict[str, list[_Rule]] = {}
for _rule in _RULES:
    for _function in _rule.functions.split():
        _BY_FUNCTION.setdefault(_function, []).append(_rule)

_PLUMBING = (
    *{rule.file for rule in _RULES},
    "torch/distributed/c10d_logger.py",
    "multiprocessing/resource_sharer.py",
    "torch/multiprocessing/reductions.py",
    "contextlib.py",
    "torch/utils/_contextlib.py",
    "asyncio/runners.py",
    "grpc/_common.py",
    "grpc/_channel.py",
)
"""Files that only carry a wait for their caller: the search for the outermost meaning goes on through them."""


def waiting_for(frames: Sequence[RawFrame], call: str | None = None, on: str | None = None) -> Wait | None:
    """What a thread waits for, or None where it does not wait or nothing tells.

    `call` is the kernel's view: the name of the system call that the thread sits in, ``"running"``, or None where it
    is not known (from inside); `on` is the file, ``pipe:[...]`` or ``socket:[...]`` of that call. Without it only
    waits that have Python frames are seen, and a stack that is merely passing through such a frame looks the same as
    one that waits there.

    A collective whose ``Work.wait()`` is called by the user directly, and DDP's all_reduce within backward, have no
    frame: the kernel's view then says no more than ``native``, a lock or another thread.
    """
    running = call == "running"
    rule, function = _outermost_wait(frames)
    if rule is not None and (rule.spins or not running):
        return Wait(rule.kind, rule.op.format(function))
    if running or call is None:
        return None
    if call == "futex" and frames and _is(frames[0], "torch/autograd/graph.py", "_engine_run_backward"):
        return Wait("backward")
    return _in_the_kernel(call, on)


def in_dataloader_worker(frames: Sequence[RawFrame]) -> bool:
    """Whether this is the main stack of a DataLoader worker process, busy or idle."""
    return any(_is(frame, "torch/utils/data/_utils/worker.py", "_worker_loop") for frame in frames)


def _is(frame: RawFrame, file: str, function: str) -> bool:
    return frame[0].endswith("/" + file) and bare(frame[2]) == function


def _outermost_wait(frames: Sequence[RawFrame]) -> tuple[_Rule | None, str]:
    """The outermost rule that matches before the stack leaves the plumbing: ``DataLoader.__next__`` rather than
    ``Condition.wait``.
    """
    found: tuple[_Rule | None, str] = (None, "")
    for file, _, qualified in frames:
        if not (library_frame(file) and _ends_with(file, _PLUMBING)):
            break
        function = bare(qualified)
        rule = next((r for r in _BY_FUNCTION.get(function, ()) if _ends_with(file, (r.file,))), None)
        if rule is not None:
            found = rule, function
            if rule.last:
                break
    return found


def _ends_with(file: str, endings: Sequence[str]) -> bool:
    return any(file.endswith("/" + ending) for ending in endings)


def _in_the_kernel(call: str, on: str | None) -> Wait | None:
    if call in _READS or call in _WRITES:
        return _transfer("read" if call in _READS else "write", on)
    if call in _ON_FILE:
        kind, op = _ON_FILE[call]
        return Wait(kind, op, on or "")
    return _CALLS.get(call)


_READS = frozenset(("read", "readv", "pread64", "recvfrom", "recvmsg"))
_WRITES = frozenset(("write", "writev", "pwrite64", "sendto", "sendmsg"))
_ON_FILE: Mapping[str, tuple[WaitKind, str]] = {
    **dict.fromkeys(("flock", "fcntl"), ("lock", "file")),
    **dict.fromkeys(("fsync", "fdatasync"), ("file", "sync")),
    "ioctl": ("device", ""),
    "openat": ("file", "open"),
    "getdents64": ("file", "list"),
    **dict.fromkeys(("stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2"), ("file", "look_up")),
}
_CALLS: Mapping[str, Wait] = {
    **dict.fromkeys(("nanosleep", "clock_nanosleep"), Wait("sleep")),
    **dict.fromkeys(("futex", "futex_waitv"), Wait("native")),
    **dict.fromkeys(
        ("poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"), Wait("network", "poll")
    ),
    "connect": Wait("network", "connect"),
    **dict.fromkeys(("accept", "accept4"), Wait("process", "accept")),
    **dict.fromkeys(("wait4", "waitid"), Wait("child")),
}


def _transfer(op: str, on: str | None) -> Wait:
    """Data that is read or written, by what the descriptor stands for."""
    if on is None:
        return Wait("file", op)
    if on.partition(":")[0] == "pipe":
        return Wait("pipe", op)
    if on.partition(":")[0] == "socket":
        return Wait("network", op)
    return Wait("terminal", op) if on.startswith(("/dev/pts/", "/dev/tty")) else Wait("file", op, on)
