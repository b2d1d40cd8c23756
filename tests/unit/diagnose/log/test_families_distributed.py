"""Logs of distributed runs whose words mislead: who is named first, who is to blame, and which numbers the verdict uses.

Of inference engines, of Ray and of GPUs: test_families_machines.py.
"""

# ruff: noqa: E501  (lines of logs are as long as the libraries print them)

from __future__ import annotations

import pytest
from cases import each
from log_evidence import judged, only, said

# --- collectives ---------------------------------------------------------------------------------------------------


def test_the_rank_that_reports_is_the_victim_and_the_late_one_is_to_blame() -> None:
    found = only(
        """
[rank0]:[E204 10:00:00.1 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=412, OpType=ALLREDUCE, NumelIn=8192, NumelOut=8192, Timeout(ms)=600000) ran for 600041 milliseconds before timing out.
[rank0]:[E204 10:00:00.2 ProcessGroupNCCL.cpp:2100] [PG ID 0 PG GUID 0 Rank 0]  failure detected by watchdog at work sequence id: 412 PG status: last enqueued work: 412, last completed work: 411
[rank1]:[E204 10:00:00.2 ProcessGroupNCCL.cpp:2100] [PG ID 0 PG GUID 0 Rank 1]  failure detected by watchdog at work sequence id: 412 PG status: last enqueued work: 412, last completed work: 411
[rank2]:[E204 10:00:00.3 ProcessGroupNCCL.cpp:2100] [PG ID 0 PG GUID 0 Rank 2]  failure detected by watchdog at work sequence id: 398 PG status: last enqueued work: 398, last completed work: 398
""",
        "nccl_timeout",
    )
    assert list(found.who) == ["rank 2"]
    assert "398" in found.title
    assert "412" in found.title
    assert found.confidence == "high"


def test_when_one_rank_is_ahead_of_many_it_made_a_call_of_its_own() -> None:
    waiting = "\n".join(
        f"[rank{r}]:[E1 ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0 Rank {r}] Timeout at NCCL work: 70, last enqueued NCCL work: 70, last completed NCCL work: 69."
        for r in (1, 2, 3)
    )
    ahead = "[rank0]:[E1 ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0 Rank 0] Timeout at NCCL work: 71, last enqueued NCCL work: 71, last completed NCCL work: 69."
    found = only(f"{waiting}\n{ahead}", "nccl_timeout")
    assert list(found.who) == ["rank 0"]
    assert "3 other ranks" in found.cause


def test_the_same_number_with_other_operations_is_no_matter_of_speed() -> None:
    found = only(
        """
[rank0]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=55, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600011 milliseconds before timing out.
[rank1]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=55, OpType=_ALLGATHER_BASE, NumelIn=4096, NumelOut=8192, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.
""",
        "nccl_timeout",
    )
    assert {"rank 0", "rank 1"} == set(found.who)
    assert "ALLREDUCE(1)" in found.cause
    assert "_ALLGATHER_BASE(4096)" in found.cause


def test_advice_of_a_timeout_never_names_folklore_as_a_cure() -> None:
    found = only(
        "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=BROADCAST, NumelIn=77, NumelOut=77, "
        "Timeout(ms)=1800000) ran for 1800030 milliseconds before timing out.",
        "nccl_timeout",
    )
    assert "30 min" in found.cause
    assert "export NCCL_TIMEOUT" not in said(found)
    assert "NCCL_BACKEND" not in said(found)


def test_parameters_without_gradient_explain_the_time_out_that_is_printed_later() -> None:
    found = only(
        """
[rank1]: RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.
[rank1]: Parameter indices which did not receive grad for rank 1: 31 32
[rank0]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=500, NumelOut=500, Timeout(ms)=600000) ran for 600003 milliseconds before timing out.
""",
        "rank_desync",
    )
    assert list(found.who) == ["rank 1"]
    assert "31 32" in found.title


def test_a_mismatch_names_the_rank_with_the_smaller_number() -> None:
    found = only(
        """
RuntimeError: Detected mismatch between collectives on ranks.
Rank 5 is running collective: CollectiveFingerPrint(SequenceNumber=20, OpType=ALLREDUCE, TensorShape=[4]),
but Rank 2 is running collective: CollectiveFingerPrint(SequenceNumber=17, OpType=ALLREDUCE, TensorShape=[4]).
""",
        "rank_desync",
    )
    assert list(found.who) == ["rank 2"]
    assert "17" in found.title
    assert "20" in found.title


# --- meeting -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("joined", "expected", "words"),
    [(1, 16, "Only 1 of 16"), (63, 64, "one never came"), (8, 16, "8 of 16")],
)
def test_how_many_joined_decides_the_cause(joined: int, expected: int, words: str) -> None:
    found = only(
        f"torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. {joined}/{expected} clients joined.",
        "dist_init_hang",
    )
    assert words in found.title
    assert f"{expected}" in found.cause


def test_a_socket_that_is_still_trying_is_no_failure() -> None:
    assert (
        judged(
            """
[W socket.cpp:663] [c10d] The client socket has failed to connect to [localhost]:29577 (errno: 99 - Cannot assign requested address).
step 1 loss: 3.20
step 2 loss: 3.11
step 3 loss: 3.05
step 4 loss: 3.01
"""
        )
        == []
    )


def test_the_host_that_ended_first_is_to_blame_not_the_one_that_lost_its_connection() -> None:
    found = only(
        """
gn12:811:840 [0] misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer gn11.cluster.local<40122>
[rank1]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.
srun: error: gn11: task 0: Exited with exit code 1
""",
        "nccl_system_error",
    )
    assert "rank 0" in found.who
    assert "gn11" in found.title


# --- slowness and silence ------------------------------------------------------------------------------------------


def test_pre_emption_alone_is_no_failure_but_lost_throughput_is() -> None:
    preempted = "WARNING scheduler.py:9] Sequence group 3 is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV cache space. total_num_cumulative_preemption=951"
    assert judged(preempted) == []

    def stats(tokens: float, waiting: int, usage: float) -> str:
        return f"Avg generation throughput: {tokens} tokens/s, Running: 60 reqs, Waiting: {waiting} reqs, GPU KV cache usage: {usage}%"

    log = [stats(900.0, 0, 40.0), preempted, stats(300.0, 80, 99.1), stats(290.0, 90, 99.4), stats(300.0, 95, 99.9)]
    found = only("\n".join(log), "generation_slow")
    assert "900 -> 300" in found.title
    assert "951" in found.cause


def test_the_rank_that_reports_no_time_out_is_the_one_that_all_others_waited_for() -> None:
    waited = "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 900000ms for recv operation to complete"
    found = only(f"[rank2]: step 5 starts\n[rank0]: {waited}\n[rank1]: {waited}", "nccl_timeout")
    assert list(found.who) == ["rank 2"]


def test_collecting_at_the_end_of_a_log_is_no_failure_but_workers_that_never_return_are() -> None:
    assert judged("INFO starting\nINFO Collecting trajectories...") == []
    assert (
        judged(
            "Waiting for 9 workers... (elapsed: 60.0s)\nWaiting for 5 workers... (elapsed: 120.0s)\nWaiting for 2 workers... (elapsed: 180.0s)"
        )
        == []
    )
    found = only("\n".join(f"Waiting for 4 workers... (elapsed: {s}.0s)" for s in (60, 120, 180, 240)), "rollout_stuck")
    assert found.title == "4 workers have not returned after 4 min"


def test_idle_gpus_are_named_only_if_more_than_one_table_shows_them() -> None:
    def table(first: int, second: int) -> str:
        return f"""
|   0  NVIDIA X100                    On  | 00000000:1B:00.0 Off |                    0 |
| N/A   60C    P0             300W / 400W |  70000MiB / 81559MiB |    {first}%      Default |
|   1  NVIDIA X100                    On  | 00000000:43:00.0 Off |                    0 |
| N/A   30C    P0              60W / 400W |      4MiB / 81559MiB |      {second}%      Default |
"""

    assert judged(table(99, 0)) == []
    assert judged(table(99, 0) + table(0, 99)) == []  # they take turns
    found = only(table(99, 0) + table(97, 1), "uneven_gpu_load")
    assert list(found.who) == ["GPU 1"]


def test_sampled_figures_that_stand_still_while_the_policy_learns_are_a_missing_weight_update() -> None:
    def step(n: int, reward: float, length: float) -> str:
        return (
            f"step:{n} - actor/grad_norm:{0.4 + n / 100} - critic/rewards/mean:{reward} - response_length/mean:{length}"
        )

    def log(*steps: str) -> str:
        return "\n".join(steps)

    still = log(*(step(n, 0.413857, 211.3725) for n in range(1, 8)))
    found = only(still, "engine_weight_sync")
    assert "stayed exactly at 0.4139 over 7 steps" in found.cause
    assert judged(log(*(step(n, 0.413857 + n / 1000, 211.3725 + n) for n in range(1, 8)))) == []
    never_right = log(
        *(step(n, 0.0, 512.0) for n in range(1, 8))
    )  # a reward that is never given, answers cut at the limit
    assert "engine_weight_sync" not in [f.code for f in judged(never_right)]


# --- who is a victim -----------------------------------------------------------------------------------------------


def test_those_who_only_waited_are_not_named_as_the_ones_to_look_at() -> None:
    waited = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=88, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600012 milliseconds before timing out."
    found = only(
        "\n".join(f"[rank{r}]:[E1 ProcessGroupNCCL.cpp:632] [Rank {r}] {waited}" for r in (1, 2)), "nccl_timeout"
    )
    assert found.who == ()
    assert "[Rank 1]" in found.evidence[0]


@pytest.mark.parametrize(("minutes", "blamed"), [(20, ("rank 0",)), (0, ())])
def test_the_rank_that_saves_in_silence_is_late_not_those_that_report(minutes: int, blamed: tuple[str, ...]) -> None:
    log = f"""
2025-03-04 10:00:00 INFO Saving checkpoint of step 4000 to /data/run7
2025-03-04 10:{minutes:02d}:02 [rank6]:[E1 ProcessGroupNCCL.cpp:632] [Rank 6] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=88, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=1200000) ran for 1200012 milliseconds before timing out.
"""
    found = only(log, "nccl_timeout")
    assert found.who == blamed
    assert ("Saving checkpoint" in found.cause) == bool(blamed)


def test_the_rank_in_torchruns_table_is_named_for_a_killed_process() -> None:
    found = only(
        """
train.py FAILED
Root Cause (first observed failure):
[0]:
  time      : 2025-03-04_10:00:00
  host      : node-b
  rank      : 5 (local_rank: 1)
  exitcode  : -9 (pid: 8123)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 8123
""",
        "host_oom_killed",
    )
    assert found.who[0] == "rank 5"
    assert found.confidence == "medium"


def test_rays_list_of_possible_reasons_is_no_kill_for_memory() -> None:
    found = only(
        """
(raylet) A worker died or was killed while executing a task by an unexpected system error. Worker IP address: 10.7.0.4 Worker port: 10017 Worker PID: 3120 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file. There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer due to high memory usage. (2) ray stop --force is called.
""",
        "ray_actor_died",
    )
    assert "pid 3120" in found.who


def test_more_sign_in_than_are_expected_means_that_two_jobs_share_a_store() -> None:
    found = only(
        "Timed out initializing process group in store based barrier on rank: 1, for key: store_based_barrier_key:1 (world_size=2, worker_count=5, timeout=0:30:00)",
        "dist_init_hang",
    )
    assert "same store" in found.cause


@each(
    "line",
    [
        "node2:311:400 [1] NCCL INFO Channel 03/0 : 5[1] -> 4[0] via P2P/IPC",
        "node2:311:400 [1] ras/client_support.cc:171 NCCL WARN Call to bind failed: Address already in use",
        "node2:311:400 [1] NCCL WARN NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
        "ddp_timeout: 3600, nccl_timeout: 1800",
        "INFO rendezvous: waiting for all workers to join: 16/16 joined",
        "weight sync took 2.4 s, failed: 0",
        "Xid errors: 0, retired pages: 0",
        "ERROR: Could not fetch URL https://pypi.example.org/simple/: [Errno -2] Name or service not known",
    ],
)
def test_what_healthy_runs_print_is_no_failure(line: str) -> None:
    assert judged(f"step 1 loss 2.0\n{line}\nstep 2 loss 1.9\n") == []


@each(
    ("line", "code"),
    [
        ("ValueError: Total available GPUs 4.0 is less than total desired GPUs 12", "ray_workers_pending"),
        ("AssertionError: rollout world_size: 3 is not divisible by infer_tp: 2", "world_size_gpu_mismatch"),
        ("Exception: Worker failed with error 'pidfd_getfd: Operation not permitted'", "engine_weight_sync"),
        ("last enqueued NCCL work: 3, last completed NCCL work: 2", "nccl_timeout"),
        ("nslookup: can't resolve 'exp-master-0': Name does not resolve", "dist_init_hang"),
        ("NCCL WARN No transport found for rank 3[1c000] -> rank 9[1c000]", "nccl_system_error"),
        ("RayOutOfMemoryError: More than 95% of the memory on node gpu-b is used (60.1 / 62.8 GB).", "host_oom_killed"),
        ("各 rank 的 collective 调用顺序不一致", "rank_desync"),
        ("NVRM: _kgspRpcRecvPoll: Timeout after 6s of waiting for RPC response from GPU4 GSP!", "nvidia_smi_hang_xid"),
    ],
)
def test_one_line_is_enough(line: str, code: str) -> None:
    assert [f.code for f in judged(line)][:1] == [code]
