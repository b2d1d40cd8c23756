# ruff: noqa: E501 - a line of a log stays one line
"""Words that frighten where nothing is wrong, each beside a twin in which something is. Written for this test; no log of anybody."""

from __future__ import annotations

from cases import each
from log_evidence import judged

GOES_ON = "\n".join(f"step {i} loss {2 - i / 50:.3f}" for i in range(20))
MISMATCH = "size mismatch for cls_head.weight: copying a param with shape torch.Size([400, 512]) from checkpoint, the shape in current model is torch.Size([2, 512])."
LOADING = f"""Traceback (most recent call last):
  File "/app/train.py", line 9, in <module>
    model.load_state_dict(saved)
RuntimeError: Error(s) in loading state_dict for Net:
{MISMATCH}"""
OF_WORKER = """(Loop pid={pid}) ERROR:10:00:0{n}:Traceback (most recent call last):
(Loop pid={pid})   File "/app/env.py", line 27, in extract
(Loop pid={pid})     action, x = parse(text)
(Loop pid={pid}) TypeError: cannot unpack non-iterable NoneType object"""
OFI = "node-1:285:765 [0] nccl_net_ofi_init:14 NCCL WARN NET/OFI aws-ofi-nccl initialization failed"
IB = "node-1:285:765 [0] NCCL WARN NET/IB : Got completion from peer with status=12 opcode=0 len=0 vendor err 129"
INTERRUPTED = """step 3 loss 1.2 ^C
Traceback (most recent call last):
  File "/app/train.py", line 27, in one_epoch"""
FLOOR = [
    f"| epoch 02{n} | loss 3.8{9 - n} | loss_scale 1.000 |\n| WARNING: overflow detected, setting loss scale to: 0.5"
    for n in range(4)
]
EOF = """Traceback (most recent call last):
  File "/app/train.py", line 9, in <module>
    obs = env.reset()
  File "/opt/env/lib/python3.11/multiprocessing/connection.py", line 399, in _recv
    raise EOFError
EOFError"""
WINDOWS = """  File "C:\\env\\lib\\site-packages\\accelerate\\commands\\launch.py", line 17, in launch_command
    simple_launcher(args)
subprocess.CalledProcessError: Command '['C:\\env\\python.exe', 'train.py']' returned non-zero exit status {status}."""
LAUNCH = "Traceback (most recent call last):\n" + WINDOWS
UPDATE = 'INFO: 127.0.0.1:18 - "POST /update_weights_from_tensor HTTP/1.1" 200 OK\n[10:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):\n  File "/opt/sglang/srt/managers/scheduler.py", line 29, in run'

TOKENIZER = "WARNING 12-15 13:10:53 [tokenizer.py:284] No tokenizer found in /stub-path, using another one. (Exception: Repo id must use alphanumeric chars: '/stub-path'.)"

ABORTED = "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Aborted."
HOROVOD = (
    "W op_kernel.cc:1318] Aborted: Horovod has been shut down. This was caused by an exception on one of the ranks."
)
NEGATIVE = "ppo_trainer.py:88: UserWarning: KL divergence is starting to become negative: {kl} - this might be a precursor for failed training."
WAITS = "\n".join(
    f"Epoch: [0]  [{20 * n}/900]  eta: 0:03:0{n}  time: 0.22{n}  data: 0.19{n}  max mem: 99" for n in range(9)
)
WAKING = """Traceback (most recent call last):
  File "/app/server.py", line 71, in wake_up
    ray.get(futures)
"""

SCENES = {
    "a new head, and the training goes on": (f"{MISMATCH}\n{GOES_ON}", ""),
    "a new head that was not meant": (LOADING, "checkpoint_missing_keys"),
    "an exception that one process raises again and again": ("\n".join(OF_WORKER.format(pid=11, n=n) for n in range(3)) + "\n" + "\n".join(f"[10:00:{n:02d}] INFO (Loop pid=11) item {n}" for n in range(20)), ""),
    "an exception at the end of one process": (OF_WORKER.format(pid=11, n=1), "uncaught_exception"),
    "a network plugin that is not used": (OFI, ""),
    "a network that fails": (IB, "nccl_system_error"),
    "an option that the engine does not know and skips": ("Acme: Not an error, but `quantization_mode` is not supported in vLLM. Skipping.\nINFO quantization method is not supported for `x`", ""),
    "a graph that TensorFlow runs as it is": ("WARNING: Entity f could not be transformed and will be executed as-is. Cause: converting <f>: AttributeError: module 'gast' has no attribute 'Num'", ""),
    "a person who stopped it": (INTERRUPTED, ""),
    "the same place without a person": (INTERRUPTED.replace(" ^C", ""), "uncaught_exception"),
    "overflows between losses that fall": ("\n".join(FLOOR), ""),
    "overflows alone": ("\n".join(line.splitlines()[1] for line in FLOOR), "grad_scaler_underflow"),
    "an environment's process that ended": (EOF, "peer_lost"),
    "an access violation on Windows": (LAUNCH.format(status=3221225477), "process_ended"),
    "a scheduler that fails as weights come in": (UPDATE, "engine_weight_sync"),
    "a port that HCCL cannot have": ("[ERROR] HCCL socket type[1], listen on ip[10.1.1.9] and specific port[16666] fail. Please check the port status and whether the port is been using by other process.\n[ERROR] wait socket establish timeout, role[1] rank[12] timeout[120]\nEI0006: Getting socket times out.", "nccl_system_error"),
    "a warning that the run got over before": (f"{TOKENIZER}\n{GOES_ON}\n{TOKENIZER}", ""),
    "the same at the end alone": (f"{GOES_ON}\n{TOKENIZER}", "checkpoint_not_found_or_corrupt"),
    "requests that are computed again": ("WARNING scheduler.py:9] Sequence group 7 is preempted by\nPreemptionMode.RECOMPUTE mode because there is not enough KV cache\nspace.", ""),
    "workers of another framework": ("RuntimeError: DataLoader 4 workers exit unexpectedly, pids: 5695, 5696", "dataloader_worker_died"),
    "a file that torch cannot open": ('Traceback (most recent call last):\n  File "/app/train.py", line 22, in train\n    torch.save(state, path)\nRuntimeError: File out/run/1.pt cannot be opened.', "checkpoint_disk_full"),
    "a build that crashes": ("./install.sh: line 196: 10132 Segmentation fault (core dumped) python setup.py bdist_wheel\nFail to install acme", "install_failed"),
    "a worker that aborts behind a full bar": (f"Evaluating: 100% 40/40 [00:09<00:00, 4.2it/s]\n{ABORTED}", ""),
    "a worker that aborts as the next bar begins": (f"Evaluating: 100% 40/40 [00:09<00:00, 4.2it/s]\nEpoch 5:   0% 0/80 [00:00<?, ?it/s]double free or corruption\n{ABORTED}", "dataloader_worker_died"),
    "a rank of Horovod that left after the work": (f"Training completed\n{HOROVOD}", ""),
    "a rank of Horovod that left": (HOROVOD, "peer_lost"),
    "a configuration of checkpoints that nobody gave": ("INFO state_store.py:7] The checkpoint config file /opt/input/checkpointconfig.json does not exist.\nstep 1 loss 2.1", ""),
    "a checkpoint that is not there": ("The checkpoint file /opt/input/last.pt does not exist.", "checkpoint_not_found_or_corrupt"),
    "a negative estimate of KL, by noise": (NEGATIVE.format(kl="-0.21"), ""),
    "a KL that is far below zero": (NEGATIVE.format(kl="-4.20"), "kl_out_of_range"),
    "figures of replayed graphs": ("CUDA graph capture done\n" + WAITS, ""),
    "the same without graphs": (WAITS, "low_gpu_utilisation"),
    "an actor that died as the engine woke up": (f"{WAKING}ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.", "ray_actor_died"),
    "an engine that failed as it woke up": (f"{WAKING}KeyError: 'model.embed'", "engine_weight_sync"),
    "out of memory, of which Ray tells the type alone": ("ray.exceptions.RayTaskError(OutOfMemoryError): ray::Worker.update() (pid=11, ip=10.1.1.9)", "cuda_oom"),
}  # fmt: skip


@each("what, log, code", [(what, *scene) for what, scene in SCENES.items()])
def test_a_word_and_its_twin(what: str, log: str, code: str) -> None:
    assert [f.code for f in judged(log)][:1] == ([code] if code else []), what
