"""What a stack means: pure functions on frames as a Linux installation writes them."""

from __future__ import annotations

from typing import get_args

from cases import each

from jupyter_traindbg.frames import waits
from jupyter_traindbg.frames.waits import in_dataloader_worker, waiting_for
from jupyter_traindbg.model.waits import ENGLISH, WaitKind

LIB = "/usr/lib/python3.11"
TORCH = "/venv/lib/python3.11/site-packages/torch"
USER = ("/home/ann/train.py", 12, "main")
EXECUTOR_WORKER = (f"{LIB}/concurrent/futures/process.py", 252, "_process_worker")
CONDITION = (f"{LIB}/threading.py", 327, "Condition.wait")
BOTTOM = [(f"{LIB}/threading.py", 982, "Thread.run"), (f"{LIB}/threading.py", 1045, "Thread._bootstrap_inner")]
QUEUE_GET = [
    (f"{LIB}/selectors.py", 415, "_PollLikeSelector.select"),
    (f"{LIB}/multiprocessing/connection.py", 947, "wait"),
    (f"{LIB}/multiprocessing/connection.py", 440, "Connection._poll"),
    (f"{LIB}/multiprocessing/connection.py", 257, "_ConnectionBase.poll"),
    (f"{LIB}/multiprocessing/queues.py", 113, "Queue.get"),
]
LOADER_NEXT = [
    *QUEUE_GET,
    (f"{TORCH}/utils/data/dataloader.py", 1291, "_MultiProcessingDataLoaderIter._try_get_data"),
    (f"{TORCH}/utils/data/dataloader.py", 725, "_BaseDataLoaderIter.__next__"),
]
FETCHING_A_TENSOR = [
    (f"{LIB}/multiprocessing/connection.py", 395, "Connection._recv"),
    (f"{LIB}/multiprocessing/connection.py", 524, "Client"),
    (f"{LIB}/multiprocessing/resource_sharer.py", 86, "_ResourceSharer.get_connection"),
    (f"{TORCH}/multiprocessing/reductions.py", 538, "rebuild_storage_fd"),
    (f"{LIB}/multiprocessing/queues.py", 122, "Queue.get"),
]
WORKER_LOOP = (f"{TORCH}/utils/data/_utils/worker.py", 275, "_worker_loop")
C10D = f"{TORCH}/distributed/distributed_c10d.py"
ALL_REDUCE = [
    (C10D, 3252, "all_reduce"),
    (f"{TORCH}/distributed/c10d_logger.py", 83, "_exception_logger.<locals>.wrapper"),
]

RAY = "/venv/lib/python3.11/site-packages/ray"
GRPC = "/venv/lib/python3.11/site-packages/grpc"
RAY_CLIENT = [
    CONDITION,
    (f"{GRPC}/_common.py", 114, "_wait_once"),
    (f"{GRPC}/_common.py", 154, "wait"),
    (f"{GRPC}/_channel.py", 956, "_MultiThreadedRendezvous._next"),
    (f"{RAY}/util/client/worker.py", 406, "Worker._get_object_iterator"),
    (f"{RAY}/util/client/worker.py", 536, "Worker._get"),
    (f"{RAY}/util/client/worker.py", 515, "Worker.get"),
]
HOOKS = [
    (f"{RAY}/_private/client_mode_hook.py", 133, "client_mode_hook.<locals>.wrapper"),
    (f"{RAY}/_private/auto_init_hook.py", 22, "wrap_auto_init.<locals>.auto_init_wrapper"),
]


def told(frames, call=None, on=None):
    """In the words that JSON has."""
    wait = waiting_for(frames, call, on)
    return None if wait is None else str(wait)


@each(
    ("frames", "call", "words"),
    [
        ([*LOADER_NEXT, USER], "poll", "the next batch from the DataLoader workers"),
        ([*QUEUE_GET, WORKER_LOOP], "poll", "idle: waiting for indices"),
        ([*QUEUE_GET, USER], "poll", "an item from another process (a queue)"),
        ([*FETCHING_A_TENSOR, *LOADER_NEXT[-2:], USER], "read", "the next batch from the DataLoader workers"),
        ([*FETCHING_A_TENSOR, USER], "read", "an item from another process (a queue)"),
        ([*ALL_REDUCE, USER], "futex", "the collective all_reduce"),
        ([(C10D, 4943, "reduce_scatter_single"), USER], "futex", "the collective reduce_scatter_single"),
        ([CONDITION, (f"{LIB}/queue.py", 171, "Queue.get"), USER], "futex", "an item from a queue"),
        ([CONDITION, (f"{LIB}/threading.py", 629, "wait"), USER], "futex", "a condition or an event"),
        ([CONDITION, (f"{LIB}/multiprocessing/queues.py", 231, "_feed"), *BOTTOM], "futex", "idle: nothing to send"),
        ([(f"{LIB}/multiprocessing/queues.py", 103, "Queue.get"), EXECUTOR_WORKER], "read", "idle: waiting for work"),
        ([(f"{LIB}/subprocess.py", 2041, "Popen._wait"), USER], "wait4", "a subprocess to end"),
        ([(f"{LIB}/socket.py", 718, "SocketIO.readinto"), (f"{LIB}/ssl.py", 1314, "SSLSocket.recv_into"), USER], "recvfrom", "a socket"),
        ([(f"{TORCH}/cuda/__init__.py", 1040, "synchronize"), USER], "ioctl", "the GPU (CUDA synchronise)"),
        ([(f"{TORCH}/autograd/graph.py", 824, "_engine_run_backward"), USER], "futex",
         "the backward pass (autograd's threads; under DDP also its all_reduce)"),
        ([(f"{RAY}/_private/worker.py", 1007, "Worker.get_objects"), (f"{RAY}/_private/worker.py", 2810, "get"), *HOOKS, USER], "futex",
         "a result from Ray"),
        ([*RAY_CLIENT, *HOOKS, USER], "futex", "a result from Ray"),
        ([USER], "futex", "a lock or another thread"),
        ([USER], "clock_nanosleep", "sleep"),
        ([USER], "wait4", "a child process to end"),
        ([], "epoll_wait", "a socket or a pipe"),
    ],
)  # fmt: skip
def test_the_outermost_meaning_is_named(frames, call, words):
    assert told(frames, call) == words


def test_the_file_of_a_call_is_named():
    assert told([USER], "read", "/mnt/nfs/shard-3.tar") == "data from the file /mnt/nfs/shard-3.tar"
    assert told([USER], "read", "pipe:[412]") == "data from a pipe"
    assert told([USER], "flock", "/cache/.lock") == "a lock on the file /cache/.lock"
    assert told([USER], "ioctl", "/dev/nvidia0") == "the device /dev/nvidia0"
    assert told([USER], "write", None) == "a file, pipe or socket to take its data"
    assert told([USER], "openat", "/mnt/nfs/shard-3.tar") == "the file /mnt/nfs/shard-3.tar to open"
    assert told([USER], "openat", None) == "a file to open"
    assert told([USER], "newfstatat", "/mnt/nfs/shard-3.tar") == "the file /mnt/nfs/shard-3.tar to be looked up"
    assert told([USER], "statx", None) == "a file to be looked up"
    assert told([USER], "getdents64", "/mnt/nfs") == "the file /mnt/nfs to be listed"


def test_a_running_thread_waits_for_nothing_except_in_a_busy_wait():
    assert told([*LOADER_NEXT, USER], "running") is None
    assert told([USER], "running") is None
    assert told([*ALL_REDUCE, USER], "running") == "the collective all_reduce"


def test_without_the_kernels_view_only_frames_speak():
    assert told([USER]) is None
    assert told([(f"{TORCH}/autograd/graph.py", 824, "_engine_run_backward"), USER]) is None
    assert told([*LOADER_NEXT, USER]) == "the next batch from the DataLoader workers"


def test_a_worker_in_the_users_dataset_is_not_idle():
    fetching = [
        ("/home/ann/data.py", 3, "Set.__getitem__"),
        (f"{TORCH}/utils/data/_utils/fetch.py", 54, "fetch"),
        WORKER_LOOP,
    ]
    assert told(fetching) is None
    assert told(fetching, "clock_nanosleep") == "sleep"
    assert in_dataloader_worker(fetching)
    assert not in_dataloader_worker([*LOADER_NEXT, USER])


def test_a_forked_workers_inherited_frames_do_not_count():
    forked = [*QUEUE_GET, WORKER_LOOP, *LOADER_NEXT[-1:], USER]
    assert told(forked, "poll") == "idle: waiting for indices"


def test_a_users_file_with_a_library_name_is_not_plumbing():
    assert told([("/home/ann/queue.py", 3, "get")]) is None


def test_every_wait_has_words_of_its_own():
    told = {(rule.kind, "" if rule.op == "{}" else rule.op) for rule in waits._RULES}
    told |= set(waits._ON_FILE.values()) | {(wait.kind, wait.op) for wait in waits._CALLS.values()}
    for call in ("read", "write"):
        for on in (None, "pipe:[1]", "socket:[1]", "/dev/pts/0", "/home/ada/x"):
            wait = waiting_for((), call, on)
            told.add((wait.kind, wait.op))
    assert told <= ENGLISH.keys()
    assert {kind for kind, op in ENGLISH if not op} == set(get_args(WaitKind)), "an op that nobody knows has words, too"
