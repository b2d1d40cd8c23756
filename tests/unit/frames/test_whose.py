"""Whose code a frame is, and which frame of a stack says where somebody is."""

from __future__ import annotations

from cases import each

from jupyter_traindbg.frames.whose import (
    at_place,
    cells_of,
    frames_of,
    full_place,
    inside,
    library_frame,
    own_frames,
    short_place,
    shortened,
    user_frame,
    where,
)

LIB = "/usr/lib/python3.11"
SITE = "/venv/lib/python3.11/site-packages"
TORCH = f"{SITE}/torch"
USER = ("/home/ann/train.py", 12, "main")
WORKER_LOOP = (f"{TORCH}/utils/data/_utils/worker.py", 275, "_worker_loop")
FETCH = (f"{TORCH}/utils/data/_utils/fetch.py", 54, "_MapDatasetFetcher.fetch")
FORKED = [
    (f"{LIB}/multiprocessing/process.py", 108, "BaseProcess.run"),
    (f"{LIB}/multiprocessing/popen_fork.py", 71, "Popen._launch"),
    (f"{LIB}/multiprocessing/popen_fork.py", 19, "Popen.__init__"),
    USER,
]
SPAWNED = [
    (f"{LIB}/multiprocessing/process.py", 108, "BaseProcess.run"),
    (f"{LIB}/multiprocessing/spawn.py", 122, "spawn_main"),
    ("<string>", 1, "<module>"),
]
BARRIER = (f"{TORCH}/distributed/distributed_c10d.py", 3, "barrier")
TRAINER = (f"{SITE}/transformers/trainer.py", 7, "Trainer._save")
SSL_READ, SEND = (f"{LIB}/ssl.py", 9, "SSLSocket.read"), (f"{SITE}/requests/adapters.py", 589, "send")
INDUCTOR = "/tmp/torchinductor_ann/7m/c7mpriuz2txfpmud6pcfo25kjo3zuw27ypeymjy4iqgw3amz5p2w.py"


@each(
    "file",
    [
        f"{TORCH}/nn/modules/module.py",
        "/usr/lib/python3/dist-packages/numpy/core.py",
        "/root/.pyenv/versions/3.13.0/lib/python3.13/threading.py",
        "/opt/conda/lib/python3.10/queue.py",
        "/opt/py/lib/python3.13t/queue.py",
        "/usr/lib/python311.zip/queue.py",
        "/tmp/payload.zip/jupyter_traindbg/agent/server.py",
        "<frozen runpy>",
        "<eval_with_key>.3",
        "<__array_function__ internals>",
        INDUCTOR,
        INDUCTOR.replace("/tmp/torchinductor_ann", "/scratch/cache"),
    ],
)
def test_code_of_packages_interpreters_and_compilers_is_library(file: str) -> None:
    assert library_frame(file)


@each(
    "file",
    [
        "/home/ann/train.py",
        "/home/ann/lib/model.py",
        "/srv/python/train.py",
        "<string>",
        "<stdin>",
        "/tmp/ipykernel_7/12.py",
        "train.py",
        "/home/ann/ab/cabinet.py",
        INDUCTOR.replace("/7m/", "/7n/"),
    ],
)
def test_scripts_and_cells_are_the_users(file: str) -> None:
    assert not library_frame(file)


def test_the_cells_of_a_kernel_belong_together() -> None:
    assert cells_of("/tmp/ipykernel_7/12.py") == cells_of("/tmp/ipykernel_7/34.py") == "/tmp/ipykernel_7"
    assert cells_of("/tmp/ipykernel_8/12.py") == "/tmp/ipykernel_8"
    assert cells_of("/home/ann/ipykernel_7/train.py") is None
    assert cells_of("<stdin>") is None


@each(
    ("told", "expected"),
    [
        (("/tmp/ipykernel_7/12.py", 11, "step", 4), "In [4], line 11 step"),
        (("/tmp/ipykernel_7/12.py", 11, "step"), "In [?], line 11 step"),
        (("<ipython-input-4-0a1b2c3d>", 2, "<module>"), "In [4], line 2 <module>"),
        (("/home/ann/train.py", 42, "Net.forward"), "/home/ann/train.py:42 Net.forward"),
        ((f"{TORCH}/nn/modules/linear.py", 125, "Linear.forward"), f"{TORCH}/nn/modules/linear.py:125 Linear.forward"),
    ],
)
def test_a_place_in_full(told: tuple[object, ...], expected: str) -> None:
    (frame,) = frames_of([told])
    assert full_place(frame) == expected


@each(
    ("place", "short", "at"),
    [
        ("/home/ann/my runs/train.py:42 Net.forward", "train.py:42 Net.forward", ("/home/ann/my runs/train.py", 42, "Net.forward")),
        ("/home/ann/a:7/train.py:42", "train.py:42", ("/home/ann/a:7/train.py", 42, "")),
        ("train.py:42 <lambda>", "train.py:42 <lambda>", ("train.py", 42, "<lambda>")),
        ("In [4], line 11 step", "In [4], line 11 step", None),
        ("a place that could not be read", "a place that could not be read", None),
        ("", "", None),
    ],
)  # fmt: skip
def test_a_place_in_short_and_read_again(place: str, short: str, at: tuple[str, int, str] | None) -> None:
    frame = at_place(place)
    assert shortened(place) == short
    assert (frame and (frame.file, frame.line, frame.function)) == at
    assert frame is None or full_place(frame).rstrip() == place


def test_what_python_writes_for_a_class_or_to_start_a_child_is_nobodys_line() -> None:
    made = frames_of([("<string>", 3, "Config.__init__"), USER])
    assert [f.library for f in made] == [True, False]
    assert frames_of(SPAWNED)[-1].library
    typed = frames_of([("<string>", 5, "work"), ("<string>", 9, "<module>")])
    assert not any(f.library for f in typed), "python -c"
    assert not any(f.library for f in frames_of([("<string>", 2, "Net.__init__"), ("<string>", 9, "<module>")]))


def test_a_function_that_goes_on_after_a_graph_break_keeps_its_name() -> None:
    raw = [
        ("/home/ann/train.py", 7, "torch_dynamo_resume_in_step_at_6"),
        ("/home/ann/train.py", 7, "<resume in forward>"),
    ]
    assert [f.function for f in frames_of(raw)] == ["step", "forward"]


@each(
    ("stack", "expected"),
    [
        ([(f"{LIB}/queue.py", 171, "Queue.get"), USER], "train.py:12 main"),
        ([("/home/ann/data.py", 3, "get"), FETCH, WORKER_LOOP, *FORKED], "data.py:3 get"),
        ([(f"{LIB}/socket.py", 718, "readinto"), (f"{SITE}/urllib3/response.py", 9, "read"), FETCH], "urllib3/response.py:9 read"),
        ([(f"{LIB}/selectors.py", 415, "select"), WORKER_LOOP, *FORKED], "torch/utils/data/_utils/worker.py:275 _worker_loop"),
        ([(f"{SITE}/faces/folder.py", 40, "read"), FETCH, WORKER_LOOP, *SPAWNED], "faces/folder.py:40 read"),
        ([(INDUCTOR, 88, "Runner.call"), (f"{TORCH}/_inductor/output_code.py", 60, "__call__"), USER], "train.py:12 main"),
        ([(f"{LIB}/threading.py", 982, "Thread.run")], "threading.py:982 Thread.run"),
    ],
)  # fmt: skip
def test_one_frame_says_where_somebody_is(stack: list[tuple[str, int, str]], expected: str) -> None:
    found = where(frames_of(stack))
    assert found is not None
    assert short_place(found) == expected


GATHER = (f"{TORCH}/distributed/fsdp/_flat_param.py", 1474, "FlatParamHandle._all_gather_flat_param")
MODULE = (f"{TORCH}/nn/modules/module.py", 1789, "Module._call_impl")
IN_MODEL, EVALUATE = ("/home/ann/model.py", 37, "Net.forward"), ("/home/ann/train.py", 51, "evaluate")


@each(
    ("stack", "expected"),
    [
        ([GATHER, MODULE, IN_MODEL, MODULE, EVALUATE, USER], "train.py:51 evaluate"),
        ([GATHER, MODULE, EVALUATE, USER], "train.py:51 evaluate"),
        ([BARRIER, IN_MODEL, MODULE, EVALUATE, USER], "model.py:37 Net.forward"),
        ([BARRIER, IN_MODEL, MODULE, GATHER, MODULE, EVALUATE, USER], "model.py:37 Net.forward"),
        ([GATHER, (f"{TORCH}/_tensor.py", 623, "Tensor.backward"), USER], "train.py:12 main"),
    ],
)
def test_a_sharded_model_gathers_where_the_program_has_called_it(
    stack: list[tuple[str, int, str]], expected: str
) -> None:
    """Any line of it may wait for the parameters; a collective of its own is where it stands."""
    found = where(frames_of(stack))
    assert found is not None
    assert short_place(found) == expected


@each(
    ("stack", "expected"),
    [
        ([SSL_READ, SEND, (f"{SITE}/wandb/sdk/a.py", 1, "log"), USER], "requests/adapters.py:589 send"),
        ([BARRIER, TRAINER, USER], "transformers/trainer.py:7 Trainer._save"),
        ([BARRIER, USER, TRAINER, USER], ""),
        ([(f"{LIB}/queue.py", 171, "Queue.get"), USER], ""),
        ([], ""),
    ],
)  # fmt: skip
def test_the_librarys_call_that_is_under_way_at_the_users_line(
    stack: list[tuple[str, int, str]], expected: str
) -> None:
    found = inside(frames_of(stack))
    assert (short_place(found) if found else "") == expected


def test_what_a_compiler_has_written_has_a_short_name() -> None:
    (made,) = frames_of([(INDUCTOR, 88, "Runner.call")])
    assert short_place(made) == "torchinductor/c7mpriuz2….py:88 Runner.call"


def test_nowhere() -> None:
    assert where(()) is None
    assert user_frame(frames_of([WORKER_LOOP, *FORKED])) is None, "what it inherited at the fork is not where it is"


def test_who_waits_for_a_forked_child_keeps_its_own_frames() -> None:
    """`Process.join` goes through the same file as a child's start."""
    joining = frames_of(
        [
            (f"{LIB}/multiprocessing/popen_fork.py", 27, "Popen.poll"),
            (f"{LIB}/multiprocessing/popen_fork.py", 43, "Popen.wait"),
            (f"{LIB}/multiprocessing/process.py", 149, "BaseProcess.join"),
            USER,
        ]
    )
    assert own_frames(joining) == joining
    assert user_frame(joining) == joining[-1]


def test_what_a_library_has_generated_for_a_caller_of_the_users_is_nobodys() -> None:
    """As the methods of a proxy of ``multiprocessing.managers``; what a program of ``python -c`` or of ``exec`` defines is its own."""
    call = ("/usr/lib/python3.11/multiprocessing/managers.py", 822, "BaseProxy._callmethod")
    proxy = ("<string>", 2, "pack")
    assert [f.library for f in frames_of([call, proxy, USER])] == [True, True, False]
    spawned = ("/usr/lib/python3.11/multiprocessing/spawn.py", 122, "spawn_main"), ("<string>", 1, "<module>")
    assert [f.library for f in frames_of([call, proxy, USER, *spawned])] == [True, True, False, True, True]
    assert [f.library for f in frames_of([proxy, USER, ("<string>", 9, "<module>")])] == [False, False, False]
    assert [f.library for f in frames_of([proxy, ("<string>", 9, "<module>"), USER])] == [False, False, False]
    called_back = ("/usr/lib/python3.11/threading.py", 982, "Thread.run")
    assert [f.library for f in frames_of([proxy, called_back])] == [False, True]
