"""Logs of sound jobs with frightening lines, each beside a twin that differs by little and does tell of a failure."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import each
from log_evidence import judged, only, said

from jupyter_traindbg import diagnose_log
from jupyter_traindbg.questions.jobless.log import of_text

LAST_EPOCH = "Epoch 10/10: 100%|##########| 782/782 [00:41<00:00, 18.9it/s, loss=0.112]"
KILLED = "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed."
IN_PROGRAM = f"""Traceback (most recent call last):
  File "/app/train.py", line 40, in <module>
    main()
  File "/opt/env/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 700, in __next__
    data = self._next_data()
{KILLED}"""
DESTRUCTOR = """Exception ignored in: <function Engine.__del__ at 0x7fe>
Traceback (most recent call last):
  File "/opt/env/lib/python3.11/site-packages/vllm/engine.py", line 300, in __del__
    self.group
AttributeError: 'Engine' object has no attribute 'group'"""
CORE_DIED = (
    "ERROR 03-01 10:00:41 [core_client.py:564] Engine core proc EngineCore_0 died unexpectedly, shutting down client."
)
OF_ENGINE = """(EngineCore_0 pid=8131) ERROR 03-01 10:00:41 [core.py:700] EngineCore encountered a fatal error.
(EngineCore_0 pid=8131) Traceback (most recent call last):
(EngineCore_0 pid=8131)   File "/opt/env/lib/python3.11/site-packages/vllm/v1/engine/core.py", line 691, in run_engine_core
(EngineCore_0 pid=8131)     engine_core.run_busy_loop()
(EngineCore_0 pid=8131) zmq.error.ContextTerminated: Context was terminated"""
IN_ROLLOUT = """Traceback (most recent call last):
  File "/app/rollout.py", line 31, in generate
    return self.llm.generate(prompts)
  File "/opt/env/lib/python3.11/site-packages/vllm/v1/engine/core_client.py", line 600, in get_output
    raise EngineDeadError
vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause."""
PROMPTS = "Processed prompts: 100%|##########| 256/256 [00:31<00:00,  8.1it/s]"
QUEUE_THREAD = """Exception in thread QueueFeederThread:
Traceback (most recent call last):
  File "/usr/lib/python3.11/multiprocessing/queues.py", line 251, in _feed
    send_bytes(obj)
BrokenPipeError: [Errno 32] Broken pipe"""
STORE_GONE = (
    "[rank1]:[W1125 10:00:00.123456789 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=85, addr=[localhost]:45012, "
    "remote=[localhost]:29500): failed to recv, got 0 bytes"
)
RAY_WORKER = (
    "(raylet) A worker died or was killed while executing a task by an unexpected system error. Worker IP address: 10.0.0.3 "
    "Worker port: 10005 Worker PID: 100 Worker exit type: INTENDED_SYSTEM_EXIT Worker exit detail: Worker exits by an exit() call."
)
OVERFLOWS = "\n".join(
    f"[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {scale}, reducing to {scale // 2}"
    for scale in (64, 32, 16)
)
ZERO = "Generating train split: 0 examples [00:00, ? examples/s]"

STALLED = """[2026-03-01 10:00:00.7: W horovod/common/stall_inspector.cc:105] One or more tensors were submitted to be reduced by subset of
ranks and are waiting for remainder of ranks for more than 60 seconds.
Stalled ranks:
2: [horovod_broadcast.fc_bias]"""

OVER = {
    "a worker that is killed as the run ends": (f"{LAST_EPOCH}\n{KILLED}", ""),
    "nothing says how many epochs there are": (f"{LAST_EPOCH.replace('10/10', '3')}\n{KILLED}", ""),
    "a worker that is killed after one epoch of ten": (
        f"{LAST_EPOCH.replace('10/10', '3/10')}\n{KILLED}",
        "dataloader_worker_died",
    ),
    "a worker that is killed within the epoch": (
        f"{LAST_EPOCH.replace('782/782', '700/782')}\n{KILLED}",
        "dataloader_worker_died",
    ),
    "a full bar within one that is not": (
        f"Epoch: 52%|#####     | 260/500 [00:41<00:40,  6.3it/s]\nEvaluation: 100%|####| 20/20 [00:03<00:00, 8it/s]\n{KILLED}",
        "dataloader_worker_died",
    ),
    "the program minds": (f"{LAST_EPOCH}\n{IN_PROGRAM}", "dataloader_worker_died"),
    "the launcher minds": (
        f"{LAST_EPOCH}\n{KILLED}\n[E torch.distributed.elastic] failed (exitcode: 1) local_rank: 0 (pid: 812) of binary: /opt/py/python",
        "dataloader_worker_died",
    ),
    "an engine that ends after the last prompt": (f"{PROMPTS}\nsaved 256 answers to out.jsonl\n{CORE_DIED}", ""),
    "an engine that ends within the prompts": (
        f"{PROMPTS.replace('256/256', '31/256')}\n{CORE_DIED}",
        "vllm_init_fail",
    ),
    "a destructor of the engine": (
        f"step 99 loss 0.1\nstep 100 loss 0.1\nTraining finished\n{CORE_DIED}\n{DESTRUCTOR}",
        "",
    ),
    "the engine's own process": (f"{PROMPTS}\nEvaluation done, accuracy 0.82\n{OF_ENGINE}", ""),
    "the engine's own process, which the program needed": (f"{PROMPTS}\n{OF_ENGINE}\n{IN_ROLLOUT}", "vllm_init_fail"),
    "a server that is told to end": (
        f'INFO:     127.0.0.1:50000 - "POST /v1/completions HTTP/1.1" 200 OK\nINFO:     Shutting down\n{CORE_DIED}',
        "",
    ),
    "a server that answers": (
        f'INFO:     127.0.0.1:50000 - "POST /v1/completions HTTP/1.1" 200 OK\n{CORE_DIED}',
        "vllm_init_fail",
    ),
    "an engine that says it is shut down": (
        f"Prompt: 'The sky is'\n(EngineCore pid=970) INFO 05-12 11:36:00 [core.py:1224] Shutdown complete\n{CORE_DIED}",
        "",
    ),
    "what cannot be raised at exit": (
        '{"key": "run_stop", "metadata": {"status": "success"}}\nError in atexit._run_exitfuncs:\nOSError: [Errno 116] Stale file handle',
        "",
    ),
    "the same while it runs": ("OSError: [Errno 116] Stale file handle", "checkpoint_disk_full"),
    "NCCL's sockets after the work": (
        "[rank0]: Training finished in 3612 s\ngpu-3:811:902 [1] NCCL INFO misc/socket.cc:64 -> 3",
        "",
    ),
    "NCCL's sockets in the work": ("gpu-3:811:902 [1] NCCL INFO misc/socket.cc:64 -> 3", "nccl_system_error"),
    "Horovod's ranks that come late at the start": (
        f'{STALLED}\n{{"key": "run_stop", "metadata": {{"status": "success"}}}}',
        "",
    ),
    "Horovod's ranks that do not come": (STALLED, "rank_desync"),
    "the options of a program": (
        "Namespace(resume='', loss_scale=0.0, num_eval_ranks=8, world_size=8, with_eval=True, seed=0)\nstep 1 loss 2.0",
        "",
    ),
    "the options of a program, their beginning overwritten": (
        f"ume='last.pt', world_size=8, {', '.join(f'option_{n}=with_{n}' for n in range(30))}\nstep 1 loss 2.0",
        "",
    ),
    "a thread that feeds a queue": (
        f"{LAST_EPOCH}\n`Trainer.fit` stopped: `max_epochs=10` reached.\n{QUEUE_THREAD}",
        "",
    ),
    "a thread that feeds a queue, within the run": (
        f"{LAST_EPOCH.replace('782/782', '12/782')}\n{QUEUE_THREAD}",
        "uncaught_exception",
    ),
    "the store ends with rank 0": (
        f"[rank0]: step 1000 loss 2.1\n[rank0]: Training finished in 3612 s\n{STORE_GONE}",
        "",
    ),
    "the store ends before the work": (f"[rank0]: step 1000 loss 2.1\n{STORE_GONE}", "dist_init_hang"),
    "Ray ends its workers after the job": (f"(Trainer pid=100) step 100 loss 0.1\njob finished\n{RAY_WORKER}", ""),
    "Ray ends a worker within the job": (f"(Trainer pid=100) step 100 loss 0.1\n{RAY_WORKER}", "ray_actor_died"),
    "Ray ends a worker after a part is done": (f"Download completed successfully\n{RAY_WORKER}", "ray_actor_died"),
    "Ray ends a worker after something else went well": (
        f'{{"upload": 1, "status": "success"}}\n{RAY_WORKER}',
        "ray_actor_died",
    ),
    "a worker that is killed after the data were prepared": (
        f"Grouping texts: 100%|####| 5000/5000 [00:03<00:00, 1600it/s]\n{KILLED}",
        "dataloader_worker_died",
    ),
    "the program fails after its bar was full": (
        f'{LAST_EPOCH}\nTraceback (most recent call last):\n  File "/app/train.py", line 90, in <module>\nOSError: no such place',
        "uncaught_exception",
    ),
    "a module fails that was run by -m": (
        f'{LAST_EPOCH}\nTraceback (most recent call last):\n  File "<frozen runpy>", line 198, in _run_module_as_main\n'
        '  File "/opt/env/lib/python3.11/site-packages/acme/run.py", line 9, in main\n    write()\nValueError: not a number',
        "uncaught_exception",
    ),
}


@each("scene", OVER)
def test_what_is_printed_as_processes_end_after_the_work_is_no_failure(scene: str) -> None:
    log, code = OVER[scene]
    assert [f.code for f in judged(log)][:1] == ([code] if code else [])


def fairseq(*scales: float) -> str:
    return "\n".join(f"| WARNING: overflow detected, setting loss scale to: {scale}" for scale in scales)


def counted(*steps: int) -> str:
    return "\n".join(
        f"[logging.py:96:log_dist] [Rank 0] step={n}, skipped=3, lr=[1e-05], mom=[(0.9, 0.95)]" for n in steps
    )


SCALES = {
    "steps are counted after the search": (f"{OVERFLOWS}\n{counted(10, 20, 30, 40)}", ""),
    "a bare count of steps": (f"{OVERFLOWS}\n[10/500] 0.3 s\n[20/500] 0.3 s\n[30/500] 0.3 s\n[40/500] 0.3 s", ""),
    "a search, told by many ranks": (
        "\n".join(
            f"Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {s}"
            for s in (256.0, 128.0)
            for _ in range(9)
        ),
        "",
    ),
    "a scale that grew again": (f"{fairseq(64.0, 32.0, 16.0, 8.0, 4.0)}\nloss 61193.2\n{fairseq(4.0)}", ""),
    "a scale that grew again and fell for good": (
        f"{fairseq(64.0)}\n{fairseq(64.0, 32.0, 16.0, 8.0)}",
        "grad_scaler_underflow",
    ),
    "at the floor of a run that learns": (
        f"{fairseq(4.0, 2.0)}\nloss 61193.2\n{fairseq(1.0)}\nloss 40223.7\n{fairseq(1.0)}\nloss 30911.9",
        "",
    ),
    "at the floor of a run that does not": (
        f"{fairseq(4.0, 2.0)}\nloss 61193.2\n{fairseq(1.0)}\nloss 70223.7\n{fairseq(1.0)}\nloss 80911.9",
        "grad_scaler_underflow",
    ),
    "the same step again and again": (f"{OVERFLOWS}\n{counted(10, 10, 10, 10)}", "grad_scaler_underflow"),
    "overflows beside counted steps": (f"{counted(10, 20, 30, 40)}\n{OVERFLOWS}", "grad_scaler_underflow"),
    "at the floor": (
        f"{OVERFLOWS}\nOVERFLOW! Rank 0 Skipping step. Attempted loss scale: 2, reducing to 1\n{counted(10, 20, 30, 40)}",
        "grad_scaler_underflow",
    ),
}


@each("scene", SCALES)
def test_a_loss_scale_that_settles_is_no_failure_where_no_loss_is_printed(scene: str) -> None:
    log, code = SCALES[scene]
    assert [f.code for f in judged(log)] == ([code] if code else [])


BARS = {
    "it counts": (f"{ZERO}Generating train split: 25000 examples [00:02, 9000 examples/s]", ""),
    "the next split": (
        f"{ZERO}\nGenerating validation split: 0 examples [00:00, ? examples/s]\nDataset ready: 25000 rows",
        "",
    ),
    "the next step": (f"{ZERO}\nMap:   0%|          | 0/12040 [00:00<?, ? examples/s]", ""),
    "the model comes": (f"{ZERO}\n{ZERO}\ntrainable params: 4,194,304 || all params: 8,034,455,552", ""),
    "a record that tells of no trouble": (f"{ZERO}\n2026-03-01 10:00:09 INFO the trainer has 12 layers", ""),
    "nothing": (ZERO, "dataset_stuck"),
    "the same again": (f"{ZERO}\n{ZERO}", "dataset_stuck"),
    "a record that tells of trouble": (f"{ZERO}\n2026-03-01 10:00:09 WARNING timed out, retrying", "dataset_stuck"),
    "what a person complains of": (f"{ZERO}\nit hangs there, step 1 never comes", "dataset_stuck"),
}


@each("scene", BARS)
def test_a_bar_at_zero_is_a_failure_only_where_nothing_moves_after_it(scene: str) -> None:
    log, code = BARS[scene]
    assert [f.code for f in judged(log)] == ([code] if code else [])


def test_a_bar_at_zero_beside_a_file_that_shows_steps_is_none(tmp_path: Path) -> None:
    (tmp_path / "stderr.log").write_text(ZERO + "\n")
    (tmp_path / "stdout.log").write_text("loaded\n")
    assert [f.code for f in diagnose_log(tmp_path)] == ["dataset_stuck"]
    (tmp_path / "stdout.log").write_text("".join(f"step {n} loss {1 - n / 100}\n" for n in range(1, 20)))
    assert diagnose_log(tmp_path) == []


MISSING = {
    "a check that a library makes": (
        'Traceback (most recent call last):\n  File "/env/site-packages/acme/__init__.py", line 5, in _there\n    import triton\n'
        "ModuleNotFoundError: No module named 'triton'\n100%|####| 50/50 [00:08<00:00,  6.1it/s]\nsaved out.png",
        "",
    ),
    "a bar of loading is no work": (
        'Traceback (most recent call last):\n  File "/env/site-packages/acme/__init__.py", line 5, in _there\n    import triton\n'
        "ModuleNotFoundError: No module named 'triton'\nLoading shards: 100%|####| 50/50 [00:08<00:00,  6.1it/s]",
        "import_error",
    ),
    "in brackets": ("WARNING: flash_attn is not installed (No module named 'flash_attn'); using sdpa.", ""),
    "in brackets, by its type": (
        "sentencepiece not found (ModuleNotFoundError: No module named 'sentencepiece'), slow ones unavailable",
        "",
    ),
    "said by a program": ("apex is not installed: No module named 'apex'\nmodel has 124M parameters", ""),
    "a warning of Python's": (
        "/app/train.py:12: UserWarning: cannot import name 'fused' from 'apex' - torch.optim is there",
        "",
    ),
    "a warning by its letter": ("[W] Failed to import deepspeed: No module named 'deepspeed'.", ""),
    "a library that is skipped": (
        "libcudnn_ops.so.8: cannot open shared object file: No such file or directory, skipping cuDNN",
        "",
    ),
    "it goes without": (
        "ImportError: cannot import name 'key' from 'triton.compiler'; the cache key is computed without it",
        "",
    ),
    "a full bar of Keras": (
        "ModuleNotFoundError: No module named 'apex'\n100/100 [==============================] - 3s 20ms/step - loss: 0.5",
        "",
    ),
    "the exception": ("ModuleNotFoundError: No module named 'flash_attn'", "import_error"),
    "a part that is compiled": ("ModuleNotFoundError: No module named 'amp_C'", "import_error"),
    "what Python says": ("/usr/bin/python3.11: No module named torch.distributed.run", "import_error"),
    "a line of its own": ("No module named 'yaml'", "import_error"),
    "a name that is not there": (
        "ImportError: cannot import name 'AdamW' from 'transformers' (/env/t.py)",
        "import_error",
    ),
    "a library that is needed": (
        "ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory",
        "cuda_version_mismatch",
    ),
}


@each("scene", MISSING)
def test_a_library_that_was_not_needed_is_no_failure(scene: str) -> None:
    log, code = MISSING[scene]
    assert [f.code for f in judged(log)] == ([code] if code else [])


@each("figure, code", [("AUC", ""), ("lr", "loss_not_converging")])
def test_a_loss_of_0_is_not_computed_where_another_figure_shows_that_the_model_learns(figure: str, code: str) -> None:
    log = "\n".join(f"iter: {n} loss: 0.000000 {figure}: {0.7 + n / 1000:.4f}" for n in range(40))
    assert [f.code for f in judged(log)] == ([code] if code else [])


def test_noise_of_another_figure_does_not_excuse_a_loss_of_0() -> None:
    log = "\n".join(f"iter: {n} loss: 0.000000 accuracy: {0.5 + n % 2 / 100:.4f}" for n in range(40))
    assert only(log, "loss_not_converging")


def test_a_package_is_not_taken_for_its_compiled_part() -> None:
    assert only("ModuleNotFoundError: No module named 'apex'", "import_error").title == "no module named apex"
    assert "was not built" in only("ModuleNotFoundError: No module named 'apex_C'", "import_error").title


def table(*demands: str, used: str = "8.0/8.0 CPU", clock: str = "", pending: str = "(no pending nodes)") -> str:
    title = [f"======== Autoscaler status: 2026-03-01 {clock}.123456 ========"] if clock else []
    rows = [
        "Pending:",
        f" {pending}",
        "Resources",
        "Total Usage:",
        *(f" {row}" for row in used.split(", ")),
        "Total Demands:",
    ]
    return "\n".join([*title, *rows, *(f" {demand}" for demand in demands)])


ONE_CPU = "{'CPU': 1.0}: 92+ pending tasks/actors"
GROUP = "{'GPU': 1.0} * 4 (PACK): 1+ pending placement groups"

TABLES = {
    "what is in use is waited for": (table(ONE_CPU), ""),
    "the queue gets shorter": (
        table(ONE_CPU, clock="10:00:00") + "\n" + table(ONE_CPU.replace("92", "20"), clock="10:10:00"),
        "",
    ),
    "the same a moment later": (table(ONE_CPU, clock="10:00:00") + "\n" + table(ONE_CPU, clock="10:00:10"), ""),
    "nodes are being started": (
        table("{'GPU': 1.0}: 2+ pending tasks/actors", used="4.0/16.0 CPU", pending="gpu_worker, 2 launching"),
        "",
    ),
    "a group while nodes are being started": (
        table(GROUP, used="8.0/8.0 GPU", pending="10.0.0.4: worker, setting-up"),
        "",
    ),
    "a node that has no address yet": (
        table(GROUP, used="8.0/8.0 GPU", pending="IP not yet assigned: worker, waiting"),
        "",
    ),
    "memory that others have": (
        table(
            "{'CPU': 1.0, 'memory': 10737418240.0}: 4800+ pending tasks/actors",
            used="64.0/64.0 CPU, 2.5GiB/368.27GiB memory",
        ),
        "",
    ),
    "Tune's own figures": (
        "Logical resource usage: 4.0/4 CPUs, 0/0 GPUs\nDemands:\n {'CPU': 1.0}: 4+ pending tasks/actors",
        "",
    ),
    "the job goes on": (table(GROUP, used="8.0/8.0 GPU") + "\nstep 1 loss 2.0\nstep 2 loss 1.9\nstep 3 loss 1.8", ""),
    "the same two minutes later, as tasks take their time": (
        table(ONE_CPU, clock="10:00:00") + "\n" + table(ONE_CPU, clock="10:02:10"),
        "",
    ),
    "the same ten minutes later": (
        table(ONE_CPU, clock="23:55:00") + "\n" + table(ONE_CPU, clock="00:05:00"),
        "Ray has placed none of 'CPU': 1.0 for 10 min: 92 pending",
    ),
    "more than there is": (
        table(
            "{'CPU': 1.0, 'GPU': 4.0}: 3+ pending tasks/actors",
            used="2.0/8.0 CPU, 0.0/2.0 GPU (0.0 used of 2.0 reserved)",
        ),
        "'CPU': 1.0, 'GPU': 4.0 can never be placed: the cluster has 2 GPU",
    ),
    "bundles that are more than there is": (
        table(GROUP.replace("* 4", "* 16"), used="2.0/8.0 GPU"),
        "'GPU': 1.0 x 16 can never be placed: the cluster has 8 GPU",
    ),
    "more memory than there is": (
        table(
            "{'CPU': 1.0, 'memory': 107374182400.0}: 3+ pending tasks/actors", used="4.0/64.0 CPU, 0B/64.00GiB memory"
        ),
        "'CPU': 1.0, 'memory': 107374182400.0 can never be placed: the cluster has 64 GiB memory",
    ),
    "GPUs where there are none": (
        table("{'GPU': 1.0}: 3+ pending tasks/actors", used="4.0/64.0 CPU"),
        "'GPU': 1.0 can never be placed: the cluster has 0 GPU",
    ),
    "a resource that the table does not have": (
        table("{'CPU': 1.0, 'node:10.0.0.9': 0.001}: 3+ pending tasks/actors", used="64.0/64.0 CPU"),
        "Ray cannot place 'CPU': 1.0, 'node:10.0.0.9': 0.001: 3 pending",
    ),
    "no node has what is free": (
        table("{'CPU': 3.0}: 1+ pending tasks/actors", used="4.0/8.0 CPU"),
        "Ray cannot place 'CPU': 3.0: 1 pending",
    ),
    "a whole group": (table(GROUP, used="8.0/8.0 GPU"), "Ray cannot place 'GPU': 1.0 x 4: 1 pending"),
    "no figures": (f"Demands:\n {ONE_CPU}", "Ray cannot place 'CPU': 1.0: 92 pending"),
}


@each("scene", TABLES)
def test_rays_table_of_demands_is_a_failure_only_where_they_cannot_be_met(scene: str) -> None:
    log, title = TABLES[scene]
    assert [f.title for f in judged(log)] == ([title] if title else [])


def test_a_queue_in_rays_table_is_worth_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    (note,) = of_text(table(ONE_CPU)).notes
    assert "{'CPU': 1.0} is waited for, 92 times" in note
    assert "8 of 8 CPU" in note
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    assert "92 个 {'CPU': 1.0}" in of_text(table(ONE_CPU)).notes[0]
    assert of_text(table(ONE_CPU, pending="worker, 1 launching")).notes == ()


def test_what_can_never_be_placed_is_told_with_the_figures_of_the_cluster() -> None:
    found = only(table(GROUP.replace("* 4", "* 16"), used="2.0/8.0 GPU"), "ray_workers_pending")
    assert "16 GPU, of which the whole cluster has 8" in said(found)
    assert "in use: 2 of 8 GPU" in found.evidence
