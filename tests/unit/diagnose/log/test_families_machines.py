"""Logs of inference engines, of Ray and of GPUs whose words mislead: what is named first, and which numbers the verdict uses."""

# ruff: noqa: E501  (lines of logs are as long as the libraries print them)

from __future__ import annotations

from log_evidence import judged, only

# --- inference engines ---------------------------------------------------------------------------------------------


def test_weights_larger_than_the_share_make_a_higher_share_useless_whatever_the_error_says() -> None:
    found = only(
        """
INFO [model_runner.py:12] Model loading took 52.00 GiB and 9.1 seconds
INFO [gpu_worker.py:34] Available KV cache memory: -12.50 GiB
ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_0': 1}
""",
        "kv_cache_oom",
    )
    assert "52 GiB" in found.title
    assert "39.5 GiB" in found.title
    assert "cannot help" in found.cause
    assert "tensor_parallel_size" in found.next_steps[0]


def test_the_length_that_would_fit_is_computed() -> None:
    found = only(
        "ValueError: To serve at least one request with the models's max seq len (40960), (5.00 GiB KV cache is needed, which is larger than "
        "the available KV cache memory (2.50 GiB). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`.",
        "kv_cache_oom",
    )
    assert "20480" in found.next_steps[0]
    assert "2.5 GiB" in found.next_steps[1]


def test_the_wrapper_that_is_printed_last_gives_way_to_what_the_child_printed() -> None:
    found = only(
        """
(EngineCore pid=77) ERROR 01-02 10:00:00 [core.py:9] ValueError: Free memory on device (20.10/79.10 GiB) on startup is less than desired GPU memory utilization (0.9, 71.19 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
""",
        "vllm_init_fail",
    )
    assert "20.1" in found.title
    assert "71.19" in found.title
    assert "nvidia-smi" in found.next_steps[0]


def test_a_wrapper_alone_says_that_the_reason_is_elsewhere() -> None:
    found = only(
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_0': 1}",
        "vllm_init_fail",
    )
    assert found.confidence == "low"
    assert "EngineCore_0" in found.title


def test_out_of_memory_while_waking_up_is_about_what_the_trainer_still_holds() -> None:
    found = only(
        """
  File "/opt/env/lib/python3.11/site-packages/vllm/device_allocator/cumem.py", line 75, in create_and_map
    python_create_and_map(*allocation_handle)
RuntimeError: CUDA Error: out of memory at /build/csrc/cumem_allocator.cpp:119
""",
        "engine_weight_sync",
    )
    assert "trainer" in found.title
    assert "offload" in found.next_steps[0]


# --- Ray -----------------------------------------------------------------------------------------------------------


def test_a_request_that_the_cluster_grows_for_is_no_failure() -> None:
    assert (
        judged(
            """
(autoscaler +12s) Warning: The following resource request cannot be scheduled right now: {'CPU': 1.0}. This is likely due to all cluster resources being claimed by actors.
(autoscaler +55s) Resized to 32 CPUs.
epoch 1 finished
"""
        )
        == []
    )


def test_a_request_that_is_repeated_for_minutes_is_one() -> None:
    warning = "Warning: The following resource request cannot be scheduled right now: {'GPU': 2.0}. This is likely due to all cluster resources being claimed"
    found = only(
        f"(autoscaler +35s) {warning}\n(autoscaler +2m5s) {warning}\n(autoscaler +7m40s) {warning}",
        "ray_workers_pending",
    )
    assert "7.7 min" in found.title
    assert "3 times" in found.cause


def test_groups_that_ask_for_more_than_the_host_has_are_added_up() -> None:
    found = only(
        """
Total GPUs: 4
Policy workers: 4 GPUs
Judge workers: 2 GPUs
Warning: The following resource request cannot be scheduled right now: {'GPU': 1.0}.
""",
        "ray_workers_pending",
    )
    assert found.title == "6 GPUs are asked for, 4 are there"


def test_the_kernels_word_is_the_root_of_a_dead_actor() -> None:
    found = only(
        """
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
[88123.1] Out of memory: Killed process 5150 (ray::Learner) total-vm:991234kB, anon-rss:104857600kB, file-rss:0kB
""",
        "host_oom_killed",
    )
    assert "5150" in found.title
    assert "100 GiB" in found.cause


def test_a_dead_worker_whose_task_is_run_again_is_no_failure() -> None:
    assert (
        judged(
            """
(raylet) A worker died or was killed while executing a task by an unexpected system error. Worker PID: 77 Worker exit type: SYSTEM_ERROR Worker exit detail: The process receives a SIGTERM.
Attempting to recover 2 lost objects by resubmitting their tasks or setting a new primary location from existing copies.
"""
        )
        == []
    )


# --- GPUs ----------------------------------------------------------------------------------------------------------


def test_an_index_out_of_range_is_the_root_of_the_cublas_error_that_the_traceback_shows() -> None:
    found = only(
        """
RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle, opa, opb, m, n, k )`
../aten/src/ATen/native/cuda/Indexing.cu:1236: indexSelectLargeIndex: block: [4,0,0], thread: [9,0,0] Assertion `srcIndex < srcSelectDimSize` failed.
""",
        "cuda_device_assert",
    )
    assert "embedding" in found.title
    assert "CUBLAS_STATUS_EXECUTION_FAILED" in found.cause


def test_a_memory_error_of_the_gpu_is_not_taken_for_an_assertion() -> None:
    found = only(
        """
RuntimeError: CUDA error: uncorrectable ECC error encountered
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
""",
        "nvidia_smi_hang_xid",
    )
    assert "hardware" in found.cause


def test_xids_that_the_program_causes_are_told_apart() -> None:
    program = only(
        "NVRM: Xid (PCI:0000:17:00): 31, pid=991, name=python, Ch 00000008, MMU Fault", "nvidia_smi_hang_xid"
    )
    board = only(
        "NVRM: Xid (PCI:0000:17:00): 79, pid=991, name=python, GPU has fallen off the bus.", "nvidia_smi_hang_xid"
    )
    assert "program" in program.title
    assert "fell off the bus" in board.title


def test_a_driver_too_old_is_told_with_both_versions() -> None:
    found = only(
        """
UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 12040). Please update your GPU driver
torch 2.9.0+cu129, cuda: False
""",
        "cuda_version_mismatch",
    )
    assert "12.4" in found.title
    assert "cu129" in found.title
    assert "cu124" in found.next_steps[0]


def test_two_ranks_on_one_gpu_is_a_matter_of_the_launch() -> None:
    found = only(
        """
torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:1, invalid usage
ncclInvalidUsage: This usually reflects invalid usage of NCCL library.
Last error:
Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 4b000
""",
        "world_size_gpu_mismatch",
    )
    assert "4b000" in found.title
