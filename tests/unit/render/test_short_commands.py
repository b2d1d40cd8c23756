"""Command lines as they are seen on real machines, and what is left of each in how much room."""

from __future__ import annotations

import shlex

from cases import each

from jupyter_traindbg.render.short_commands import same_program, short_command, short_path

TORCHRUN = (
    "/opt/venv/bin/python3 /opt/venv/bin/torchrun --nnodes=2 --node_rank=0 --nproc_per_node=8 --rdzv_id=job1 --rdzv_backend=c10d "
    "--rdzv_endpoint=node0:29500 --max_restarts 3 /home/ada/project/train.py --config configs/big.yaml --lr 3e-4 --seed 7"
)
ACCELERATE = (
    "/usr/bin/python3 /usr/local/bin/accelerate launch --config_file fsdp.yaml --num_processes 8 --mixed_precision bf16 "
    "/home/ada/examples/run_clm.py --model_name_or_path meta-llama/Llama-3-8B --output_dir /data/out"
)
DEEPSPEED = (
    "/opt/conda/bin/python3 -u -m deepspeed.launcher.launch --world_info=eyJsb2NhbGhvc3QiOiBbMCwgMV19 --master_addr=127.0.0.1 "
    "--master_port=29500 finetune.py --deepspeed ds_config.json"
)
KERNEL = "/opt/venv/bin/python -Xfrozen_modules=off -m ipykernel_launcher -f /home/ada/.local/share/jupyter/runtime/kernel-49993c88.json"
RAY = (
    "/v/bin/python /v/lib/python3.11/site-packages/ray/_private/workers/default_worker.py --node-ip-address=10.0.0.1 "
    "--node-manager-port=40123 --object-store-name=/tmp/ray/session/sockets/plasma_store --raylet-name=/tmp/ray/raylet"
)
WRITTEN = shlex.join(
    ["/v/bin/python", "-c", 'import os\nfrom x import main\n\n# go\nmain(os.environ["X"])\n', "--tag", "a"]
)
SPAWNED = shlex.join(
    [
        "/v/bin/python",
        "-c",
        "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)",
        "--multiprocessing-fork",
    ]
)
ONE_LONG = f"python train.py --overrides={'x' * 300}"
DEEP = f"python /home/ada/{'a-very-long-directory-name/' * 3}train_the_very_largest_model.py --x 1"


@each(
    ("line", "room", "short"),
    [
        ("/opt/venv/bin/python train.py", 60, "python train.py"),
        ("/opt/conda/envs/llm/bin/python3.11 -u -X faulthandler /home/ada/project/train.py --x 1", 60, "python …/project/train.py --x 1"),
        ("python -m pkg.train --x 1", 60, "python -m pkg.train --x 1"),
        ("/opt/venv/bin/python /opt/venv/bin/axolotl train config.yml", 60, "axolotl train config.yml"),
        (TORCHRUN, 300, "torchrun " + TORCHRUN.partition("torchrun ")[2].replace("/home/ada", "…")),
        (TORCHRUN, 100, "torchrun --nnodes=2 --nproc_per_node=8 …/project/train.py --config configs/big.yaml … --seed 7"),
        (TORCHRUN, 76, "torchrun …/project/train.py --config configs/big.yaml --lr 3e-4 --seed 7"),
        (TORCHRUN, 60, "torchrun …/project/train.py --config configs/big.y… --seed 7"),
        (TORCHRUN, 30, "torchrun train.py --config co…"),
        ("python -m torch.distributed.run --standalone -m pkg.train --lr 1e-4", 43, "torchrun … -m pkg.train --lr 1e-4"),
        ("python -m torch.distributed.run --nproc-per-node 4 run.sh", 60, "torchrun --nproc-per-node 4 run.sh"),
        (ACCELERATE, 100, "accelerate launch --num_processes 8 …/examples/run_clm.py --model_name_or_path meta-llama/Llama-3-8…"),
        (DEEPSPEED, 72, "deepspeed … finetune.py --deepspeed ds_config.json"),
        (KERNEL, 60, "ipykernel"),
        ("python -m ipykernel_launcher --ip=127.0.0.1 --Session.key=b'k' --f=/r/kernel-v3.json", 60, "ipykernel"),
        (RAY, 80, "python ray/_private/workers/default_worker.py --node-ip-address=10.0.0.1 …"),
        ("ray::TorchTrainer.train", 60, "ray::TorchTrainer.train"),
        ("a Ray cluster", 60, "a Ray cluster"),
        (WRITTEN, 60, 'python -c … main(os.environ["X"]) --tag a'),
        ("python -c 'import torch'", 60, "python -c import torch"),
        (SPAWNED, 72, "python -c … spawn_main(tracker_fd=5) --multiprocessing-fork"),
        (ONE_LONG, 50, "python train.py --overrides=xxxxxxxxxx…xxxxxxxxxxx"),
        (DEEP, 60, "python train_the_very_largest_model.py --x 1"),
        (DEEP, 33, "train_the_very_largest_model.py …"),
        ("python", 60, "python"),
        ("", 60, ""),
    ],
)  # fmt: skip
def test_what_tells_a_job_from_others_stays(line: str, room: int, short: str) -> None:
    assert short_command(line, room) == short
    assert len(short) <= room


@each(
    "line",
    [
        TORCHRUN,
        ACCELERATE,
        DEEPSPEED,
        RAY,
        WRITTEN,
        SPAWNED,
        ONE_LONG,
        DEEP,
        KERNEL,
        "x " * 200,
        "'",
        "ray::" + "W" * 90,
    ],
)
def test_it_fits_whatever_the_room_and_the_scripts_name_stays_whole(line: str) -> None:
    name = next((word.rpartition("/")[2] for word in line.split() if word.endswith(".py")), "")
    for room in range(1, 200):
        short = short_command(line, room)
        assert len(short) <= max(room, len(name)), (room, short)
        assert name in short


@each(
    ("line", "launcher", "same"),
    [
        ("/v/bin/python -u /home/ada/project/train.py --config configs/big.yaml --lr 3e-4 --seed 7", TORCHRUN, True),
        ("/v/bin/python -u /home/ada/project/train.py --config configs/small.yaml", TORCHRUN, False),
        ("/v/bin/python -u finetune.py --local_rank=1 --deepspeed ds_config.json", DEEPSPEED, True),
        ("/v/bin/python -u finetune.py --local-rank 1 --deepspeed ds_config.json", DEEPSPEED, True),
        (
            "/v/bin/python -m pkg.train --lr 1",
            "python -m torch.distributed.run --nnodes 1 --module pkg.train --lr 1",
            True,
        ),
        (SPAWNED, "python spawns.py", True),
        ("python forks.py", "python forks.py", True),
        ("ray::Worker.run", "a Ray cluster", False),
    ],
)
def test_a_rank_that_runs_what_its_launcher_says(line: str, launcher: str, same: bool) -> None:
    assert same_program(line, launcher) is same


@each(
    ("path", "room", "short"),
    [
        ("/home/ada/train.ipynb", 30, "/home/ada/train.ipynb"),
        ("/home/ada/my runs/train.ipynb", 24, "…/my runs/train.ipynb"),
        ("/home/ada/my runs/train.ipynb", 20, "…/train.ipynb"),
        ("/home/ada/my runs/train.ipynb", 5, "train.ipynb"),
        ("train.ipynb", 5, "train.ipynb"),
        ("", 5, ""),
    ],
)
def test_a_path_keeps_its_end(path: str, room: int, short: str) -> None:
    assert short_path(path, room) == short
