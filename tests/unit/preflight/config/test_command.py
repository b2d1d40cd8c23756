"""Command lines and shell scripts as entries; nothing of them is run."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from cases import each

from jupyter_traindbg.errors import BadConfig
from jupyter_traindbg.preflight.config import command


def said(line: str) -> dict[str, object]:
    return {entry.path: entry.value for entry in command.of_words(shlex.split(line)).entries}


@each(
    ("line", "expected"),
    [
        ("python t.py --lr 1e-6 --bf16 --n=3 --offset -5", {"lr": 1e-6, "bf16": True, "n": 3, "offset": -5}),
        ("torchrun --standalone train.py --Seq-Len 8", {"torchrun.standalone": True, "seq_len": 8}),
        ("torchrun --nproc-per-node=4 -m pkg.train --x 1", {"torchrun.nproc_per_node": 4, "x": 1}),
        ("python3 -m torch.distributed.run --nnodes 2 t.py", {"torchrun.nnodes": 2}),
        ("accelerate launch --num_processes 8 t.py --x 1", {"accelerate_launcher.num_processes": 8, "x": 1}),
        ("deepspeed --num_gpus 4 t.py --deepspeed ds.json", {"deepspeed_launcher.num_gpus": 4, "deepspeed": "ds.json"}),
        ("srun -N2 --ntasks-per-node=8 python t.py", {"slurm.nodes": 2, "slurm.ntasks_per_node": 8}),
        ("srun -N 2 torchrun --nproc_per_node 8 t.py", {"slurm.nodes": 2, "torchrun.nproc_per_node": 8}),
        ("python -m verl.trainer.main_ppo data.n=4 ++a.b=null", {"data.n": 4, "a.b": None}),
        ("ray job submit --address x -- python -m openrlhf.cli.train_ppo_ray --bf16", {"bf16": True}),
        ("vllm serve nobody/base-7B --max-model-len 64", {"max_model_len": 64, "model": "nobody/base-7B"}),
        ("python t.py --save_trajectories a.b=1 --flag", {"save_trajectories": True, "a.b": 1, "flag": True}),
    ],
)
def test_options_of_launchers_and_programs(line: str, expected: dict[str, object]) -> None:
    assert said(line) == expected


def test_variables_for_a_command_and_its_arguments() -> None:
    found = command.of_words(shlex.split("NCCL_DEBUG=INFO env A=1 llamafactory-cli train run.yaml"))
    assert {name: entry.value for name, entry in found.environ.items()} == {"NCCL_DEBUG": "INFO", "A": "1"}
    assert found.words == ["train", "run.yaml"]
    assert found.programs == ["llamafactory-cli"]


SCRIPT = r"""#!/bin/bash
#SBATCH --nodes=2
#SBATCH --job-name=x
set -euo pipefail
export NCCL_TIMEOUT=1800   # folklore
GPUS=4; RBS=64
NNODES=${NNODES:-"2"}
WHEN=$(date +%s)
MORE_ARGS=(
    --n_samples_per_prompt 8   # samples
    --name "two words"
)
MORE_ARGS+=(--tail 1)
WORDS="--seed 7 --flash_attn"
if [ -d out ]; then python clean.py --out out; fi
torchrun --nnodes $NNODES --nproc-per-node ${GPUS} \
    examples/train.py \
    --rollout_batch_size ${RBS} --tag "run-${WHEN}" \
    ${MORE_ARGS[@]} $WORDS \
    2>&1 | tee log.txt
echo "it's done"
"""


def test_a_script_is_read_with_its_variables(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text(SCRIPT)
    found = command.of_script(path, {})
    read = {entry.path: entry.value for entry in found.entries}
    assert read["slurm.nodes"] == 2
    assert (read["torchrun.nnodes"], read["torchrun.nproc_per_node"]) == (2, 4)
    assert (read["rollout_batch_size"], read["n_samples_per_prompt"], read["name"]) == (64, 8, "two words")
    assert (read["tail"], read["seed"], read["flash_attn"]) == (1, 7, True)
    assert str(read["tag"]).startswith("run-$"), "what only a shell can tell stays as it is"
    assert "out" not in read
    assert found.environ["NCCL_TIMEOUT"].line == 5
    assert next(e for e in found.entries if e.path == "rollout_batch_size").line == 18
    assert next(e for e in found.entries if e.path == "torchrun.nproc_per_node").line == 16


def test_the_environment_fills_what_the_script_does_not_set(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text("python t.py --n $N --m ${M:-3} --k $K\n")
    read = {e.path: e.value for e in command.of_script(path, {"N": "5"}).entries}
    assert read == {"n": 5, "m": 3, "k": "$K"}


def test_a_here_document_holds_the_command(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text(
        "read -r -d '' wanted <<EOF\npkg.cli.train \\\n  --size 16 \\\n  --bf16\nEOF\ndeepspeed --module $wanted\n"
    )
    assert {e.path: e.value for e in command.of_script(path, {}).entries}.items() >= {"size": 16, "bf16": True}.items()


def test_a_launcher_that_nobody_knows_is_read_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text("mkdir -p out\n${LAUNCH} train.py --micro_batch_size 4 --seq_len 32\n")
    assert {e.path for e in command.of_script(path, {}).entries} == {"micro_batch_size", "seq_len"}


def test_an_empty_script_is_no_configuration(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text("# nothing\n\n")
    with pytest.raises(BadConfig, match=r"train\.sh holds no command"):
        command.of_script(path, {})


def test_nothing_of_a_script_runs(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text(f"touch {tmp_path}/gone\nX=$(touch {tmp_path}/gone)\npython t.py --x `touch {tmp_path}/gone`\n")
    command.of_script(path, {})
    assert not (tmp_path / "gone").exists()


def test_a_quote_that_never_ends_costs_no_time(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text("echo it's\n" + "python t.py --x 1\n" * 3000)
    assert "x" in {entry.path for entry in command.of_script(path, {}).entries}, "what follows is read again"
