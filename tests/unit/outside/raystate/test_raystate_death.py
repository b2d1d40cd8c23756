"""The cause of a death in Ray 2.60's own words, with the wrapping taken off."""

from __future__ import annotations

from typing import Any

from cases import each

from jupyter_traindbg.outside.raystate import death

PIDS_WORDS = "The actor is dead because its worker process has died. Worker exit type: {} Worker exit detail: {}"
GUESSES = (
    " Some common causes include: (1) the process was killed by the OOM killer due to high memory usage, (2) ray stop --force was called,"
    " or (3) the worker crashed unexpectedly due to SIGSEGV or another unexpected error."
)


def died(message: str, reason: str = "WORKER_DIED", **more: Any) -> dict[str, Any]:
    return {"actor_died_error_context": {"error_message": message, "reason": reason, "pid": 7, **more}}


@each(
    ("cause", "kind", "words"),
    [
        (
            died(
                PIDS_WORDS.format(
                    "SYSTEM_ERROR", "Worker unexpectedly exits with a connection error code 2. End of file." + GUESSES
                )
            ),
            "crashed",
            "its process vanished: killed from outside (kill -9, the kernel's OOM killer), or crashed in native code",
        ),
        (
            died(PIDS_WORDS.format("SYSTEM_ERROR", "Worker exits unexpectedly. Worker exits with an exit code 3.")),
            "crashed",
            "its process exited with code 3",
        ),
        (
            died(
                PIDS_WORDS.format(
                    "INTENDED_USER_EXIT",
                    "Worker exits by an user request. Worker exits with an exit code 0. exit_actor() is called.",
                )
            ),
            "exited",
            "it called ray.actor.exit_actor()",
        ),
        (
            died(
                PIDS_WORDS.format(
                    "INTENDED_SYSTEM_EXIT",
                    "Destroying worker since its placement group was removed. Placement group id: 8907, bundle index: -1",
                )
            ),
            "placement group removed",
            "its placement group 8907 was removed",
        ),
        (
            died("The actor is dead because it was killed by `ray.kill`.", "RAY_KILL"),
            "killed",
            "it was killed by ray.kill()",
        ),
        (
            died(
                "The actor is dead because its owner has died. Owner Id: 4f23 Owner Ip address: 127.0.0.1", "OWNER_DIED"
            ),
            "owner died",
            "the process that created it has ended, which ended it too",
        ),
        (
            died(
                "The actor is dead because all references to the actor were removed including lineage ref count.",
                "REF_DELETED",
            ),
            "exited",
            "nobody held a handle of it any more",
        ),
        (
            {"actor_unschedulable_context": {"error_message": "The node doesn't exist any more."}},
            "unschedulable",
            "The node doesn't exist",
        ),
        (
            {
                "runtime_env_failed_context": {
                    "error_message": "Failed to set up runtime environment.\nERROR: No matching distribution\n"
                }
            },
            "runtime_env",
            "ERROR: No matching distribution",
        ),
        (
            {"oom_context": {"error_message": "Task was killed due to the node running low on memory."}},
            "out of memory",
            "Task was killed",
        ),
        ({"a_new_context": {"error_message": "because"}}, "not known", "a_new_context: because"),
    ],
)
def test_an_actors_death(cause: dict[str, Any], kind: str, words: str) -> None:
    found = death.of_actor(cause)
    assert found is not None
    assert found.kind == kind
    assert found.words.startswith(words)


def test_no_cause_is_no_death() -> None:
    assert death.of_actor(None) is None
    assert death.of_actor({}) is None
    assert death.of_task({"error_type": None, "error_message": None}) is None


def test_what_the_user_code_raised_in_init_is_the_cause_and_its_line_the_place() -> None:
    trace = (
        "Traceback (most recent call last):\n\n"
        '  File "python/ray/_raylet.pyx", line 2198, in ray._raylet.execute_task\n\n'
        '  File "/opt/venv/lib/python3.11/site-packages/ray/util/tracing/tracing_helper.py", line 487, in _resume_span\n'
        "    return method(self, *_args, **_kwargs)\n\n"
        '  File "/home/user/worker.py", line 15, in load\n    raise ValueError("no such model: /models/7b")\n\n'
        '  File "/opt/venv/lib/python3.11/site-packages/torch/serialization.py", line 9, in load\n\n'
        "ValueError: no such model: /models/7b\n\n\nDuring handling of the above exception, another exception occurred:\n\n\n"
        'Traceback (most recent call last):\n\n  File "python/ray/_raylet.pyx", line 2693, in ray._raylet.task_execution_handler\n\n'
        "ray.exceptions.ActorDiedError: The actor died because of an error raised in its creation task, "
        "\x1b[36mray::Bad.__init__()\x1b[39m (pid=10104, ip=10.0.0.1)\n"
        "ValueError: no such model: /models/7b\n"
    )
    found = death.of_actor({"creation_task_failure_context": {"formatted_exception_string": trace}})
    assert found is not None
    assert (found.kind, found.words, found.error_type) == (
        "in __init__",
        "ValueError: no such model: /models/7b",
        "ValueError",
    )
    assert found.where == "/home/user/worker.py:15 load"


def test_a_librarys_frame_is_better_than_none_and_ray_never_is() -> None:
    trace = '  File "/usr/lib/python3.11/json/decoder.py", line 355, in raw_decode\n  File "/x/site-packages/ray/worker.py", line 1, in f\n'
    assert death.users_frame(trace) == "/usr/lib/python3.11/json/decoder.py:355 raw_decode"
    assert death.users_frame('  File "/x/site-packages/ray/worker.py", line 1, in f\n') is None
    assert death.users_frame("no trace at all") is None


@each(
    ("task", "kind", "words", "where"),
    [
        (
            {
                "error_type": "TASK_EXECUTION_EXCEPTION",
                "error_message": 'User exception:\nray::fails() (pid=1, ip=10.0.0.1)\n  File "/home/user/a.py", line 24, in fails\n'
                '    raise RuntimeError("boom")\nRuntimeError: boom',
            },
            "crashed",
            "RuntimeError: boom",
            "/home/user/a.py:24 fails",
        ),
        ({"error_type": "TASK_CANCELLED", "error_message": ""}, "killed", "it was cancelled", None),
        (
            {
                "error_type": "TASK_PLACEMENT_GROUP_REMOVED",
                "error_message": "Required placement group b055 is removed. lease_id=0",
            },
            "placement group removed",
            "its placement group b055 was removed",
            None,
        ),
        (
            {"error_type": "OUT_OF_MEMORY", "error_message": "Task was killed due to the node running low on memory."},
            "out of memory",
            "Task",
            None,
        ),
        ({"error_type": "NODE_DIED", "error_message": "The node is gone"}, "node died", "The node is gone", None),
        ({"error_type": "WORKER_DIED", "error_message": ""}, "crashed", "crashed", None),
    ],
)
def test_a_tasks_death(task: dict[str, Any], kind: str, words: str, where: str | None) -> None:
    found = death.of_task(task)
    assert found is not None
    assert (found.kind, found.where) == (kind, where)
    assert found.words.startswith(words)


def test_words_stay_short_and_on_one_line() -> None:
    found = death.of_actor(died("word " * 1000, "UNSPECIFIED"))
    assert found is not None
    assert len(found.words) <= 400
    assert "\n" not in found.words
