# ruff: noqa: E501 - a line of a log stays one line
"""The same words in a run that failed and in one that went well; and logs that are cut off before they name the failure. Written for this test."""

from __future__ import annotations

import textwrap

import pytest
from cases import each

from jupyter_traindbg.model import Finding
from jupyter_traindbg.questions.jobless.log import diagnose_log


def first(log: str) -> Finding:
    found = diagnose_log(textwrap.dedent(log))
    assert found, "nothing was found"
    return found[0]


def codes(log: str) -> list[str]:
    return [f.code for f in diagnose_log(textwrap.dedent(log))]


# --- the loss scale ------------------------------------------------------------------------------------------------


def overflows(*scales: float) -> str:
    return "\n".join(f"Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {s}" for s in scales)


FALL = [2.0**n for n in range(15, -2, -1)]


def test_a_scale_that_settled_low_is_no_failure_and_one_that_goes_on_falling_is() -> None:
    assert codes(overflows(*FALL)) == ["grad_scaler_underflow"]
    assert codes(overflows(*FALL) + "\n" + "\n".join(f"iter {n} loss {2.5 + n % 2}" for n in range(4))) == []


def test_a_short_search_from_a_low_start_is_none_once_the_loss_falls() -> None:
    search = overflows(64, 32, 16)
    assert codes(search) == ["grad_scaler_underflow"], "an excerpt that shows nothing else"
    assert codes(search + "\nupdate 10 loss 9.5\nupdate 20 loss 7.25") == []
    assert codes(search + "\nupdate 10 loss 9.5\nupdate 20 loss 9.5") == ["grad_scaler_underflow"]


def test_a_scale_that_grows_back_between_two_overflows_is_in_use() -> None:
    line = "WARNING: overflow detected, setting loss scale to: 1.0"
    epochs = ["epoch 7 loss 3.9", line, "epoch 8 loss 3.7", line, "epoch 9 loss 3.6"]
    assert codes("\n".join(epochs)) == []
    stuck = ["epoch 7 loss 3.9", line, "epoch 8 loss 3.9", line, "epoch 9 loss 3.9"]
    assert codes("\n".join(stuck)) == ["grad_scaler_underflow"]


def test_a_scale_that_is_said_to_grow_has_been_found() -> None:
    search = "\n".join(
        f"[INFO] [fused_optimizer.py:9] Reducing dynamic loss scale from {2 * s} to {s}" for s in (128, 64, 32, 16)
    )
    assert codes(search) == ["grad_scaler_underflow"]
    assert codes(search + "\n[INFO] [fused_optimizer.py:11] Increasing dynamic loss scale from 16 to 32") == []


# --- what went on, or did not --------------------------------------------------------------------------------------

UPLOAD = """\
    step 10 loss 2.5
    Exception in thread {thread}:
    Traceback (most recent call last):
      File "/opt/py/lib/python3.11/threading.py", line 1038, in _bootstrap_inner
        self.run()
      File "{file}", line 255, in _body
        self._send(chunks)
    requests.exceptions.ReadTimeout: no answer
    """


def test_a_thread_that_only_reports_ends_no_training() -> None:
    assert codes(UPLOAD.format(thread="Uploader", file="/opt/py/site-packages/wandb/sdk/file_stream.py")) == []
    assert codes(UPLOAD.format(thread="Prefetch", file="/home/me/project/prefetch.py")) != []


@pytest.mark.parametrize(("end", "told"), [("success!", []), ("waiting for results", ["ray_actor_died"])])
def test_a_worker_that_is_gone_at_a_good_end(end: str, told: list[str]) -> None:
    log = f"batch 18 loss 2.1\nWARNING worker.py:1072 -- A worker died or was killed while executing task 45b9.\n{end}"
    assert codes(log) == told


def test_requests_that_are_put_back_are_no_lack_of_memory() -> None:
    full = "KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_tokens_gained: 700"
    assert codes(f"Decode batch, #running-req: 66, token usage: 1.00\n{full}\nDecode batch, #running-req: 62") == []
    assert codes("RuntimeError: KV cache pool is full and cannot be enlarged") == ["kv_cache_oom"]


@each(
    "line",
    [
        "n1:64904:64921 [1] NCCL INFO dlvsym failed on mlx5dv_a_call - /lib/libmlx5.so: undefined symbol: mlx5dv_a_call, version MLX5_1.25",
        "NCCL INFO NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open shared object file: No such file or directory",
        "metric failed: [Errno 2] No such file or directory: 'java'\\nwritten: results/scores.json",
        "I0919 xla_bridge.py:345] Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so: libtpu.so: cannot open shared object file: No such file or directory",
        "WARN launcher::gpu: Cannot determine GPU compute capability: ModuleNotFoundError: No module named 'torch'",
        "ERROR router: Failed to import python tokenizer ModuleNotFoundError: No module named 'transformers'\nWARN router: falling back on the plain one",
        "INFO actor_pool.py:633 -- Scaling up actor pool by 4 (reason=scaling to min size, running=0, restarting=0, pending=0)",
    ],
)
def test_what_a_library_tries_is_no_failure(line: str) -> None:
    assert codes(line) == []


def test_a_device_that_nccl_cannot_open_matters_where_it_has_no_other() -> None:
    line = "n1:262:373 [0] misc/ibvwrap.cc:212 NCCL WARN Call to ibv_open_device failed"
    assert codes(line) == ["nccl_system_error"]
    assert codes(f"{line}\nn1:262:373 [0] NCCL INFO NET/IB : Using [0]mlx5_8:1/RoCE ; OOB eth0:10.0.0.1<0>") == []


def test_no_gpu_matters_where_nothing_is_trained_without_one() -> None:
    line = "E cuda_driver.cc:300] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"
    assert codes(line) == ["world_size_gpu_mismatch"]
    assert codes(line + "\n" + "\n".join(f"step {n} loss {3 - n / 10}" for n in range(5))) == []


def test_what_tensorboard_was_given_beside_a_loss_that_is_a_number() -> None:
    line = "WARNING - tensorboardX.x2num -   NaN or Inf found in input tensor."
    assert codes(line) == ["nan_loss"]
    assert codes(f"{line}\niter: 8 loss: 10.36 lr: 2.5e-06") == []
    assert codes(f"{line}\niter: 8 loss: nan lr: 2.5e-06") == ["nan_loss"]


def test_a_loss_that_is_not_computed_before_the_buffer_is_full() -> None:
    waits = "".join(f"episode={n} step={n * 30} loss=nan epsilon=0.9{n}\n" for n in range(1, 16))
    assert codes(waits) == ["nan_loss"]
    assert codes(waits + "".join(f"episode={n} step={n * 30} loss=0.{n} epsilon=0.8{n}\n" for n in range(16, 22))) == []


def test_models_that_are_trained_one_after_the_other_have_a_loss_each() -> None:
    good = "".join(f"Epoch {n}, Loss: {2 / n:.4f}, Accuracy: 90.1\n" for n in range(1, 41))
    bad = "".join(f"Epoch {n}, Loss: {1.8 + n % 3 / 100}, Accuracy: 55.1\n" for n in range(1, 41))
    assert codes(good + bad) == []
    assert codes(good + bad.replace("Epoch ", "Epoch 4")) == ["loss_not_converging"], "one model that got worse"


REFUSED = """\
    (APIServer pid=1) ERROR:    Exception in ASGI application
    (APIServer pid=1) Traceback (most recent call last):
    (APIServer pid=1)   File "/opt/py/site-packages/vllm/renderers/params.py", line 428, in check
    (APIServer pid=1)     raise LengthError(
    (APIServer pid=1) LengthError: the prompt has more tokens than the model takes
    """


def test_a_server_that_goes_on_answering_has_refused_one_request() -> None:
    assert codes(REFUSED) != []
    answered = '(APIServer pid=1) INFO:     10.0.0.1:41926 - "{} HTTP/1.1" 200 OK\n'
    assert codes(textwrap.dedent(REFUSED) + answered.format("POST /v1/completions") * 4) == []
    assert codes(textwrap.dedent(REFUSED) + answered.format("GET /metrics") * 4) != [], "its front door says nothing"


def test_an_exception_that_was_got_over_before_is_got_over_again() -> None:
    raised = """\
        ERROR:2026-03-26 22:17:25,938:Traceback (most recent call last):
          File "/home/me/env.py", line 270, in read_answer
            action = parse(text)
        TypeError: cannot unpack non-iterable NoneType object
        """
    raised = textwrap.dedent(raised)
    at = "2026-03-26 22:18:00"
    steps = [f"{at} step {n} loss {3 - n / 10}\n" for n in range(6)]
    work = "".join(f"{at} part {n} of the batch\n" for n in range(20))
    assert codes(raised + "".join(steps[:4]) + raised + steps[4] + work) == []
    assert codes("".join(steps[:4]) + raised + steps[4] + work) == ["uncaught_exception"], "seen for the first time"
    assert codes(raised + "".join(steps[:4]) + raised) == ["uncaught_exception"], "the last thing that is said"


def test_a_time_of_day_is_no_number_of_a_rank() -> None:
    log = "\n".join(f"05:13:{n:02d}.429 [I] step {n}" for n in range(8)) + "\n05:13:52.1 [E] RuntimeError: it broke"
    assert first(log).who in ((), ("rank 0",))


def test_a_library_that_is_not_there_matters_where_nothing_follows() -> None:
    line = "Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared object file: No such file"
    assert codes(line) == ["cuda_version_mismatch"]
    assert codes(line + "\n" + "\n".join(f"step {n} train_loss={3 - n / 10}" for n in range(5))) == []


def test_a_file_that_is_called_like_a_good_end_is_none() -> None:
    died = """\
        [rank1]:[E810 03:04:11.06 ProcessGroupNCCL.cpp:683] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=78, OpType=BROADCAST, NumelIn=80, NumelOut=80, Timeout(ms)=600000) ran for 600096 milliseconds before timing out.
        Traceback (most recent call last):
          File "/home/me/src/train_runtime.py", line 178, in pre_backward
            gather()
        RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.7]:57000
        """
    assert first(died).code == "nccl_timeout"


# --- told by little ------------------------------------------------------------------------------------------------


def test_a_driver_without_a_function_is_older_than_torch() -> None:
    found = first(
        "RuntimeError: INTERNAL ASSERT FAILED. Can't find nvmlDeviceGetThing: /lib64/libnvidia-ml.so.1: undefined symbol: nvmlDeviceGetThing"
    )
    assert found.code == "cuda_version_mismatch"
    assert "nvmlDeviceGetThing" in found.title


@pytest.mark.parametrize(
    ("library", "code"), [("libcudart.so.11.0", "cuda_version_mismatch"), ("libGL.so.1", "import_error")]
)
def test_a_library_of_cuda_that_is_missing_is_a_matter_of_versions(library: str, code: str) -> None:
    found = first(f"ImportError: {library}: cannot open shared object file: No such file or directory")
    assert (found.code, library in found.title) == (code, True)


def test_a_store_that_answers_with_another_number_belongs_to_somebody_else() -> None:
    found = first("RuntimeError: nonce == returnedNonce INTERNAL ASSERT FAILED at TCPStore.cpp:418. Ping failed")
    assert found.code == "dist_init_hang"
    assert "another program" in found.title


def test_a_value_that_is_not_supported_is_told_with_those_that_are() -> None:
    log = """\
        (EngineCore pid=71)   File "/opt/py/site-packages/vllm/layers/select.py", line 144, in choose
        (EngineCore pid=71)     raise ValueError(
        (EngineCore pid=71) ValueError: gemm_backend='tiles' is not supported for 4-bit layers. Expected one of ['cutlass', 'marlin'].
        (APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
        """
    found = first(log)
    assert found.code == "cli_argument_error"
    assert "gemm_backend=tiles" in found.title
    assert "'marlin'" in found.cause


def test_an_engine_that_died_while_it_served_did_not_fail_at_start() -> None:
    found = first("vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above)")
    assert found.code == "vllm_init_fail"
    assert "died" in found.title


CHILD = """\
    (EngineCore pid=71) ERROR 08-19 13:12:57 [core.py:708] Traceback (most recent call last):
    (EngineCore pid=71) ERROR 08-19 13:12:57 [core.py:708]   File "/opt/py/site-packages/vllm/layers/select.py", line 144, in choose
    (EngineCore pid=71) ERROR 08-19 13:12:57 [core.py:708]     raise GizmoError("no {frob} here")
    (EngineCore pid=71) ERROR 08-19 13:12:57 [core.py:708] GizmoError: no {frob} here
    """
PARENT = (
    "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
)


def test_what_an_engine_raised_is_told_where_the_log_has_it() -> None:
    alone = first(PARENT)
    assert (alone.code, alone.confidence) == ("vllm_init_fail", "low")
    assert "only the wrapper" in alone.title
    found = first(textwrap.dedent(CHILD) + PARENT)
    assert found.code == "vllm_init_fail"
    assert "GizmoError: no {frob} here" in found.title
    assert "select.py:144" in found.cause
    assert any(":4 " in line for line in found.evidence), "the line that says it"


def test_a_weight_update_whose_engine_was_killed_for_memory() -> None:
    log = """\
        Traceback (most recent call last):
          File "/home/me/fit.py", line 156, in train
            actor.update_weights()
        ray.exceptions.RayTaskError(OutOfMemoryError): ray::Trainer.update_weights()
          File "/home/me/transfer.py", line 81, in update_weights
            ray.get([engine.pause.remote() for engine in self.engines])
        ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.
        """
    assert first(log).code == "host_oom_killed"


def test_a_map_over_processes_that_never_begins() -> None:
    found = first("Loading cached indices\nMap (num_proc=4):   0%|          | 0/9000 [00:00<?, ? examples/s]")
    assert found.code == "dataset_stuck"
    assert "4 processes" in found.title
    assert codes("Map:   0%|          | 0/9000 [00:00<?, ? examples/s]") == [], "one process may just have begun"
    assert codes("Map (num_proc=4):   0%|          | 0/9000 [00:00<?, ? examples/s]\nstep 1 loss 2.0") == []


def test_an_exception_in_the_middle_of_a_map_belongs_to_it() -> None:
    cut_off = """\
        Running tokenizer on dataset (num_proc=64):  98%|#########8| 8127/8273 [01:36<00:01, 843.85 examples/s]
        Traceback (most recent call last):
          File "/home/me/fit/launch.py", line 33, in <module>
            main()
        """
    assert first(cut_off).code == "dataset_stuck"
    assert first(cut_off.replace(" 98%", "100%")).code == "uncaught_exception"


def test_an_index_that_another_process_was_to_build() -> None:
    found = first("FileNotFoundError: [Errno 2] No such file or directory: '/data/index-cache/77ab_shuffle_idx.npy'")
    assert found.code == "dataset_stuck"
    assert "77ab_shuffle_idx.npy" in found.title


def test_an_index_error_is_known_by_its_type() -> None:
    log = """\
        ---------------------------------------------------------------------------
        IndexError                                Traceback (most recent call last)
        <ipython-input-4-77aa> in <cell line: 2>()
        ----> 2 trainer.train()

        /opt/py/site-packages/torch/nn/functional.py in embedding(input, weight)
        -> 2233     return torch.embedding(weight, input)
        """
    found = first(log)
    assert found.code == "index_out_of_range"
    assert "embedding table" in found.title


def test_a_kernel_that_was_restarted_after_a_large_allocation() -> None:
    restarted = "[I ServerApp] AsyncIOLoopKernelRestarter: restarting kernel (1/5), keep random ports"
    assert first(restarted).code == "host_oom_killed"
    assert "4 GiB" in first(f"tcmalloc: large alloc 4294967296 bytes == 0x1e @ 0x7f\n{restarted}").title


def test_a_run_that_is_resumed_behind_its_end() -> None:
    found = first("[INFO] Reached the end (12 epochs) of our training run (10 epochs). This run will do zero steps.")
    assert found.code == "resume_mismatch"


def test_a_server_that_is_waited_for() -> None:
    waits = ["vllm_client - Server is not up yet. Retrying in 2.0 seconds..."] * 3
    assert first("\n".join(waits)).code == "rollout_stuck"
    assert codes("\n".join([*waits, *(f"step {n} loss {2 - n / 10}" for n in range(5))])) == []


def test_a_client_that_waited_for_minutes() -> None:
    line = "The client socket has timed out after 20min while trying to connect to (localhost, 57117)"
    assert first(line).code == "dist_init_hang"


def test_a_ray_worker_that_crashed_tells_it_itself() -> None:
    found = first("(Reference pid=66693) Fatal Python error: Segmentation fault [repeated 3x across cluster]")
    assert found.code == "ray_actor_died"
    assert "66693" in found.who[0]
    assert first("Fatal Python error: Segmentation fault").code != "ray_actor_died"


def test_a_pinning_thread_without_last_words() -> None:
    log = """\
        Exception in thread Thread-2:
        Traceback (most recent call last):
          File "/opt/py/lib/python3.11/threading.py", line 870, in run
            self._target(*self._args, **self._kwargs)
          File "/opt/py/site-packages/torch/utils/data/_utils/pin_memory.py", line 28, in _pin_memory_loop
            idx, data = r
        """
    assert first(log).code == "dataloader_worker_died"


def test_a_model_that_evaluates_to_nan_was_lost_at_its_one_step() -> None:
    one = "{'loss': 26.2, 'grad_norm': nan, 'learning_rate': 1.5e-06, 'epoch': 5.0}\n"
    assert codes(one) == [], "a loss scale may have skipped it"
    assert codes(one + "{'eval_loss': nan, 'eval_runtime': 0.2, 'epoch': 5.0}") == ["nan_loss"]


def test_actors_that_were_pending_at_first_are_no_failure_once_results_come() -> None:
    pending = "WARNING -- The actor or task with ID 0d3f93 is pending and cannot currently be scheduled. It requires {CPU: 1.0}"
    assert codes(pending) == ["ray_workers_pending"]
    assert codes(pending + "\nResult for PPO_x:\n  time_this_iter_s: 6.5\n  training_iteration: 2") == []


def test_a_worker_that_ray_ends_is_no_exception_of_the_program() -> None:
    trace = """\
        Traceback (most recent call last):
          File "python/ray/_raylet.pyx", line 519, in ray._raylet.execute_task.function_executor
          File "/job/play.py", line 42, in method
        [...]
    """
    assert codes("ERROR worker.py:425 -- something was raised\n" + textwrap.dedent(trace)) == ["uncaught_exception"]
    assert codes("ERROR worker.py:425 -- SystemExit was raised from the worker\n" + textwrap.dedent(trace)) == []


def test_a_traceback_that_begins_with_what_ctrl_c_leaves_on_the_screen_is_a_persons() -> None:
    trace = """\
        {}Traceback (most recent call last):
          File "/job/fit.py", line 36, in train
            for batch in loader:
          File "/py/multiprocessing/connection.py", line 257, in poll
            return self._poll(timeout)
    """
    assert codes(trace.format("")) == ["uncaught_exception"]
    assert codes(trace.format("^C")) == []


def test_an_exception_that_names_a_rank_belongs_to_the_frames_above_it() -> None:
    found = first("""\
        Traceback (most recent call last):
          File "/job/fit.py", line 12, in step
            dist.all_reduce(loss)
          File "/py/torch/distributed/distributed_c10d.py", line 1322, in all_reduce
            work = group.allreduce([tensor], opts)
        RuntimeError: NCCL communicator was aborted. Original reason: [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800366 milliseconds before timing out.
        Traceback (most recent call last):
          File "/py/runpy.py", line 193, in _run_module_as_main
            "__main__", mod_spec)
    """)
    assert found.code == "nccl_timeout"


def test_a_model_file_that_is_not_found_is_told_with_its_path() -> None:
    found = first("Namespace(evaluate='/ckpt/best.pth.tar', workers=4)\n=> no model found at '/ckpt/best.pth.tar'")
    assert found.code == "checkpoint_not_found_or_corrupt"
    assert "/ckpt/best.pth.tar" in found.title


@pytest.mark.parametrize("prefix", ["", "[1,0]<stderr>:"])
def test_horovods_stall_report_blames_whom_it_lists_not_who_prints_it(prefix: str) -> None:
    report = [
        "W stall_inspector.cc:105] One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting",
        "Stalled ranks:",
        "6: [allreduce.0, allreduce.1 ...]",
        "11: [allreduce.0, allreduce.1 ...]",
    ]
    found = first(
        "\n".join(["[1,0]<stdout>:step 9 loss 1.5" if prefix else "step 9 loss 1.5", *(prefix + row for row in report)])
    )
    assert (found.code, list(found.who)) == ("rank_desync", ["rank 6", "rank 11"])


def test_horovods_older_report() -> None:
    found = first("W operations.cc:779] Stalled ops:allreduce.2 [missing ranks: 1, 3] [ready ranks: 0, 2]")
    assert (found.code, list(found.who)) == ("rank_desync", ["rank 1", "rank 3"])


def test_workers_of_tensorflow_that_differ_in_shape() -> None:
    found = first(
        "E ring_alg.cc:276] Aborting RingGather: Shape mismatch in the collective instance 7. Op at device /job:worker/replica:0/task:2/device:CPU:0"
        " expected shape [64] but another member in the group expected shape [61]."
    )
    assert found.code == "rank_desync"
    assert "[64] and [61]" in found.title
    assert "task 2" in found.cause


def test_a_peer_of_hccl_that_did_not_send_is_no_failure_of_the_engine_above_it() -> None:
    found = first("""\
        [rank1]:   File "/opt/py/vllm/distributed/parallel.py", line 35, in all_reduce
        [rank1]:     dist.all_reduce(x, group=self.device_group)
        [rank1]: RuntimeError: OPS function error: HcclAllreduce, error code is 6
        [rank1]: EI0006: [PID: 7] Getting socket times out. Reason: Remote Rank did not send the data in time.
    """)
    assert found.code == "nccl_timeout"


def test_ranks_whose_barrier_ended_before_the_data_were_prepared() -> None:
    found = first("""\
        Running tokenizer:  47%|####      | 3169/6811 [30:11<38:27, 1.5 examples/s]
        Traceback (most recent call last):
          File "/job/fit.py", line 50, in prepare
            with args.main_process_first(desc="map"):
          File "/opt/py/transformers/training_args.py", line 1891, in main_process_first
            torch.distributed.barrier()
        RuntimeError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error
    """)
    assert found.code == "dataset_stuck"
    assert "main process" in found.title


def test_a_cut_traceback_that_shows_what_was_asserted() -> None:
    override = """\
          File "/opt/py/hydra/plugins/common/utils.py", line 72, in split_key_val
            assert "=" in s, "'{}' not a valid override, expecting key=value format".format(s)
    """
    assert first(override).code == "cli_argument_error"
    cache = """\
        ERROR worker_base.py:157] Traceback (most recent call last):
        ERROR worker_base.py:157]   File "/opt/py/vllm/worker/worker.py", line 171, in initialize_cache
        ERROR worker_base.py:157]     raise_if_cache_size_invalid(num_gpu_blocks,
    """
    assert first(cache).code == "kv_cache_oom"


def test_memory_that_was_asked_for_a_kv_cache() -> None:
    words = "ggml_cuda_alloc: allocating 204800.00 MiB on device 0: cudaMalloc failed: out of memory"
    assert codes(words)[:1] == ["cuda_oom"]
    assert codes(words + "\nllama_kv_cache_init: failed to allocate buffer for kv cache") == ["kv_cache_oom"]


@pytest.mark.parametrize(
    "warning",
    [
        "WARNING:tensorflow:Error in loading the saved optimizer state. As a result, your model is starting with a freshly initialized optimizer.",
        "saving_lib.py:713: UserWarning: Skipping variable loading for optimizer 'adam', because it has 2 variables whereas the saved optimizer has 30 variables.",
    ],
)
def test_an_optimizer_that_keras_did_not_load_matters_to_those_who_train(warning: str) -> None:
    trains = "\n".join(f"Epoch {n}/20\n99/99 [====] - 3s 22ms/step - loss: {9 / n:.4f}" for n in (11, 12, 13))
    assert codes(f"{warning}\n{trains}") == ["resume_without_optimizer"]
    assert codes(f"{warning}\n1/1 [====] - 0s 92ms/step\n1/1 ━━━━━ 0s 9ms/step\ncat 0.97") == []
