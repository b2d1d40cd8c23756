"""What a thread waits for, from its frames alone: the words that everything else goes by.

Stacks are innermost first. C calls have no Python frame, so `waiting_for` takes the kernel's view as a second witness where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .whose import RawFrame, bare, library_frame

__all__ = ["in_dataloader_worker", "waiting_for"]


class _Rule(NamedTuple):
    """Frames that mean a wait: `functions` of a library file whose path ends in `file`. ``{}`` in `words` is the
    function.

    `spins`: waits also while the kernel calls the thread running (a busy wait). `last`: what called it says no more.
    """

    file: str
    functions: str
    words: str
    spins: bool = False
    last: bool = False


_COLLECTIVES = (
    "all_reduce all_reduce_coalesced all_gather all_gather_coalesced all_gather_into_tensor all_gather_object "
    "all_gather_single all_to_all all_to_all_single barrier broadcast broadcast_object_list gather gather_object "
    "monitored_barrier reduce reduce_scatter reduce_scatter_single reduce_scatter_tensor scatter scatter_object_list"
)
_C10D = "torch/distributed/distributed_c10d.py"
_RULES = (
    _Rule("threading.py", "wait wait_for", "a condition or an event"),
    _Rule("threading.py", "acquire", "a lock"),
    _Rule("threading.py", "join _wait_for_tstate_lock _shutdown", "another thread to end"),
    _Rule("queue.py", "get", "an item from a queue"),
    _Rule("queue.py", "put", "room in a queue"),
    _Rule("queue.py", "join", "a queue to be worked off"),
    _Rule("selectors.py", "select", "a socket or a pipe"),
    _Rule("asyncio/base_events.py", "_run_once run_forever", "idle: its event loop waits for events", last=True),
    _Rule("concurrent/futures/_base.py", "result wait as_completed exception", "the result of a future"),
    _Rule("concurrent/futures/thread.py", "_worker", "idle: waiting for work", last=True),
    _Rule("concurrent/futures/process.py", "wait_result_broken_or_wakeup", "the result of a worker process", last=True),
    _Rule(
        "multiprocessing/connection.py",
        "wait poll _poll recv recv_bytes _recv _recv_bytes",
        "data from another process (a pipe)",
    ),
    _Rule(
        "multiprocessing/connection.py",
        "send send_bytes _send _send_bytes",
        "another process to take its data (a pipe)",
    ),
    _Rule("multiprocessing/connection.py", "accept", "another process to connect"),
    _Rule("multiprocessing/queues.py", "get", "an item from another process (a queue)"),
    _Rule("multiprocessing/queues.py", "put", "room in a queue to another process"),
    _Rule("multiprocessing/queues.py", "_feed", "idle: nothing to send", last=True),
    _Rule("multiprocessing/synchronize.py", "acquire wait __enter__", "a lock shared between processes"),
    _Rule("multiprocessing/pool.py", "get wait next", "the result of a worker process"),
    _Rule("multiprocessing/pool.py", "worker", "idle: waiting for work", last=True),
    _Rule("multiprocessing/popen_fork.py", "wait poll", "a child process to end"),
    _Rule("multiprocessing/process.py", "join", "a child process to end"),
    _Rule(
        "subprocess.py", "wait _wait communicate _communicate run call check_call check_output", "a subprocess to end"
    ),
    _Rule("socket.py", "readinto accept create_connection", "a socket"),
    _Rule("socketserver.py", "serve_forever", "idle: waiting for a connection", last=True),
    _Rule("ssl.py", "read recv recv_into do_handshake", "a socket"),
    _Rule("filelock/_api.py", "acquire", "a lock file"),
    _Rule(
        "torch/utils/data/dataloader.py",
        "__next__ _next_data _get_data _try_get_data",
        "the next batch from the DataLoader workers",
    ),
    _Rule("torch/utils/data/dataloader.py", "_shutdown_workers __del__", "the DataLoader workers to end"),
    _Rule("torch/utils/data/_utils/worker.py", "_worker_loop", "idle: waiting for indices", last=True),
    _Rule("torch/utils/data/_utils/pin_memory.py", "_pin_memory_loop", "idle: waiting for batches to pin", last=True),
    _Rule(_C10D, _COLLECTIVES, "the collective {}", spins=True),
    _Rule(
        _C10D, "send recv isend irecv send_object_list recv_object_list batch_isend_irecv", "its peer in {}", spins=True
    ),
    _Rule(
        _C10D,
        "init_process_group new_group new_subgroups new_subgroups_by_enumeration split_group shrink_group _store_based_barrier",
        "the other ranks to join ({})",
        spins=True,
    ),
    _Rule(_C10D, "destroy_process_group", "the process group to close", spins=True),
    _Rule(
        "torch/distributed/rendezvous.py",
        "_create_c10d_store _env_rendezvous_handler rendezvous",
        "the other ranks to join ({})",
    ),
    _Rule(
        "torch/distributed/_functional_collectives.py", f"{_COLLECTIVES} wait_tensor", "the collective {}", spins=True
    ),
    _Rule(
        "torch/distributed/utils.py",
        "_verify_param_shape_across_processes",
        "the other ranks to build their DDP",
        spins=True,
    ),
    _Rule(
        "torch/distributed/utils.py", "_sync_params_and_buffers", "the broadcast of parameters to all ranks", spins=True
    ),
    _Rule(
        "torch/nn/parallel/distributed.py",
        "_distributed_broadcast_coalesced",
        "the broadcast of DDP's buffers",
        spins=True,
    ),
    _Rule("torch/distributed/elastic/agent/server/api.py", "_invoke_run", "idle: watching its ranks", last=True),
    _Rule("torch/multiprocessing/spawn.py", "join", "the processes that it spawned"),
    _Rule("torch/cuda/__init__.py", "synchronize", "the GPU (CUDA synchronise)", spins=True),
    _Rule("torch/cuda/streams.py", "synchronize wait", "the GPU (CUDA synchronise)", spins=True),
    _Rule("ray/_private/worker.py", "get wait", "a result from Ray"),
    _Rule("ray/util/client/worker.py", "get wait", "a result from Ray"),
)
_BY_FUNCTION: dict[str, list[_Rule]] = {}
for _rule in _RULES:
    for _function in _rule.functions.split():
        _BY_FUNCTION.setdefault(_function, []).append(_rule)

_PLUMBING = (
    *{rule.file for rule in _RULES},
    "torch/distributed/c10d_logger.py",
    "contextlib.py",
    "torch/utils/_contextlib.py",
    "asyncio/runners.py",
    "grpc/_common.py",
    "grpc/_channel.py",
)
"""Files that only carry a wait for their caller: the search for the outermost meaning goes on through them."""


def waiting_for(frames: Sequence[RawFrame], call: str | None = None, on: str | None = None) -> str | None:
    """What a thread waits for, in words, or None where it does not wait or nothing tells.

    `call` is the kernel's view: the name of the system call that the thread sits in, ``"running"``, or None where it
    is not known (from inside); `on` is the file, ``pipe:[...]`` or ``socket:[...]`` of that call. Without it only
    waits that have Python frames are seen, and a stack that is merely passing through such a frame looks the same as
    one that waits there.

    A collective whose ``Work.wait()`` is called by the user directly, and DDP's all_reduce within backward, have no
    frame: the kernel's view then says no more than "a lock or another thread".
    """
    running = call == "running"
    rule, function = _outermost_wait(frames)
    if rule is not None and (rule.spins or not running):
        return rule.words.format(function)
    if running or call is None:
        return None
    if call == "futex" and frames and _is(frames[0], "torch/autograd/graph.py", "_engine_run_backward"):
        return "the backward pass (autograd's threads; under DDP also its all_reduce)"
    return _kernel_words(call, on)


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


def _kernel_words(call: str, on: str | None) -> str | None:
    if call in ("read", "readv", "pread64", "recvfrom", "recvmsg"):
        return f"data from {_thing(on)}"
    if call in ("write", "writev", "pwrite64", "sendto", "sendmsg"):
        return f"{_thing(on)} to take its data"
    if call in _ON_FILE:
        named, unnamed = _ON_FILE[call]
        return named.format(on) if on else unnamed
    return _KERNEL_WORDS.get(call)


_LOCK, _FSYNC = ("a lock on the file {}", "a lock on a file"), ("the disk (fsync of {})", "the disk (fsync)")
_ON_FILE = {
    "flock": _LOCK,
    "fcntl": _LOCK,
    "fsync": _FSYNC,
    "fdatasync": _FSYNC,
    "ioctl": ("the device {}", "a device"),
    "openat": ("the file {} to open", "a file to open"),
    "getdents64": ("the file {} to be listed", "a directory to be listed"),
    **dict.fromkeys(
        ("stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2"),
        ("the file {} to be looked up", "a file to be looked up"),
    ),
}
"""With the name of the file, and without."""

_KERNEL_WORDS = {
    "nanosleep": "sleep",
    "clock_nanosleep": "sleep",
    "futex": "a lock or another thread",
    "futex_waitv": "a lock or another thread",
    "poll": "a socket or a pipe",
    "ppoll": "a socket or a pipe",
    "select": "a socket or a pipe",
    "pselect6": "a socket or a pipe",
    "epoll_wait": "a socket or a pipe",
    "epoll_pwait": "a socket or a pipe",
    "epoll_pwait2": "a socket or a pipe",
    "connect": "a connection to be made",
    "accept": "another process to connect",
    "accept4": "another process to connect",
    "wait4": "a child process to end",
    "waitid": "a child process to end",
}


def _thing(on: str | None) -> str:
    if on is None:
        return "a file, pipe or socket"
    kind = on.split(":", 1)[0]
    if kind in ("pipe", "socket"):
        return f"a {kind}"
    return "the terminal" if on.startswith(("/dev/pts/", "/dev/tty")) else f"the file {on}"
