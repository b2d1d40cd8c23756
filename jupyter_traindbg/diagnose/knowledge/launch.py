"""What launchers set and read: who is which rank, and where the ranks meet."""

from __future__ import annotations

from typing import Any

from .variable import Variable

__all__ = ["ROWS"]

ENV_INIT = "https://docs.pytorch.org/docs/stable/distributed.html#environment-variable-initialization"
TORCHRUN = "https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables"
AT = "https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/"
LIGHTNING = "https://github.com/Lightning-AI/pytorch-lightning/blob/master/src/lightning/fabric/plugins/environments/lightning.py"
AGENT = AT + "elastic/agent/server/local_elastic_agent.py"
ACCELERATE = "https://github.com/huggingface/accelerate/blob/main/src/accelerate/utils/"
OPEN_MPI = "https://github.com/open-mpi/ompi/blob/main/docs/tuning-apps/environment-var.rst"
DEEPSPEED = "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/constants.py"
SLURM = "https://slurm.schedmd.com/srun.html"


def _torchrun(name: str, en: str, zh: str, **more: Any) -> Variable:
    settings: dict[str, Any] = {"source": TORCHRUN, **more}
    return Variable(name, "torchrun", en, zh, **settings)


def _script(name: str, en: str, zh: str) -> Variable:
    """What start-up scripts pass on; PyTorch itself does not look at it."""
    return Variable(name, "start-up scripts", en, zh, AT + "argparse_util.py")


ROWS = (
    Variable(
        "MASTER_ADDR",
        "PyTorch",
        "where rank 0 listens: all ranks connect there first",
        "rank 0 监听的地址：所有 rank 先连到这里",
        ENV_INIT,
        alike="job",
    ),
    Variable("MASTER_PORT", "PyTorch", "its port", "其端口", ENV_INIT, alike="job", values=r"\d+", strict=True),
    Variable(
        "RANK",
        "PyTorch",
        "the number of this process in the job",
        "本进程在任务中的编号",
        ENV_INIT,
        alike="rank",
        values=r"\d+",
        strict=True,
    ),
    Variable(
        "WORLD_SIZE",
        "PyTorch",
        "how many processes the job has; init waits until all are there",
        "任务的进程总数；全部到齐后初始化才返回",
        ENV_INIT,
        alike="job",
        values=r"\d+",
        strict=True,
    ),
    _torchrun(
        "LOCAL_RANK",
        "the number of this process on its machine: its GPU",
        "本进程在本机的编号：对应 GPU",
        alike="rank",
        values=r"\d+",
    ),
    _torchrun("LOCAL_WORLD_SIZE", "processes on this machine", "本机进程数", alike="host", values=r"\d+"),
    _torchrun("GROUP_RANK", "the number of the machine", "机器编号", alike="host"),
    _torchrun("GROUP_WORLD_SIZE", "machines", "机器数", alike="job", source=AGENT),
    _torchrun("ROLE_NAME", "the role of this process", "进程角色", source=AGENT),
    _torchrun("ROLE_RANK", "its number within the role", "角色内编号", alike="rank"),
    _torchrun("ROLE_WORLD_SIZE", "processes of that role", "该角色进程数"),
    _torchrun(
        "TORCHELASTIC_RESTART_COUNT", "how often torchrun has restarted the job", "torchrun 已重启次数", alike="job"
    ),
    _torchrun(
        "TORCHELASTIC_MAX_RESTARTS",
        "how often torchrun may restart the job",
        "torchrun 最多重启任务的次数",
        alike="job",
    ),
    _torchrun("TORCHELASTIC_RUN_ID", "the job's name at the rendezvous", "rendezvous 中的任务名", alike="job"),
    _torchrun(
        "TORCHELASTIC_USE_AGENT_STORE",
        "the store behind MASTER_PORT is torchrun's own, not rank 0's",
        "MASTER_PORT 上是 torchrun 自己的 store",
        source=AT + "rendezvous.py",
        alike="job",
    ),
    _torchrun(
        "TORCHELASTIC_ERROR_FILE",
        "where a failing rank leaves its traceback",
        "出错的 rank 写入 traceback 的文件",
        alike="rank",
        source="https://docs.pytorch.org/docs/stable/elastic/errors.html",
    ),
    _torchrun(
        "TORCHELASTIC_ENABLE_FILE_TIMER",
        "ends ranks whose timer runs out",
        "到时结束 rank 的定时器",
        source=AGENT,
    ),
    _torchrun(
        "TORCHELASTIC_TIMER_FILE",
        "the pipe of those timers",
        "定时器管道",
        source=AGENT,
    ),
    _torchrun(
        "TORCHELASTIC_HEALTH_CHECK_PORT",
        "where torchrun's agent answers health checks",
        "健康检查端口",
        source=AGENT,
    ),
    _torchrun(
        "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT",
        "seconds in uninterruptible sleep (state D) after which torchrun gives up on a rank; not set, it waits",
        "rank 处于不可中断睡眠（D 状态）多少秒后 torchrun 放弃；不设则一直等",
        source=AGENT,
    ),
    _torchrun(
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT",
        "seconds between SIGTERM and SIGKILL when torchrun ends ranks (30)",
        "torchrun 结束 rank 时 SIGTERM 到 SIGKILL 的秒数（30）",
        source=AT + "launcher/api.py",
    ),
    _torchrun("PYTHON_EXEC", "the Python that torchrun starts instead of its own", "torchrun 启动所用的 Python"),
    _torchrun(
        "TORCHELASTIC_SIGNALS_TO_HANDLE",
        "the signals that torchrun passes on",
        "torchrun 转发的信号",
        source=AT + "elastic/multiprocessing/api.py",
    ),
    _torchrun(
        "TORCHELASTIC_*",
        "a setting of torchrun",
        "torchrun 的设置",
        source=AGENT,
    ),
    _torchrun("TORCH_ELASTIC_*", "a setting of torchrun", "torchrun 的设置", source=AT + "elastic/agent/server/api.py"),
    _torchrun("PET_*", "an option of torchrun's", "torchrun 的命令行选项", source=AT + "argparse_util.py"),
    # --- others' ways of saying the same
    Variable(
        "NODE_RANK",
        "Lightning",
        "the number of the machine; torchrun does not read it (--node-rank, or PET_NODE_RANK)",
        "机器编号；torchrun 不读取（用 --node-rank 或 PET_NODE_RANK）",
        LIGHTNING,
        alike="host",
    ),
    _script(
        "NNODES",
        "the number of machines; torchrun does not read it (--nnodes, or PET_NNODES)",
        "机器数；torchrun 不读取（用 --nnodes 或 PET_NNODES）",
    ),
    _script(
        "NPROC_PER_NODE",
        "processes per machine; torchrun does not read it (--nproc-per-node, or PET_NPROC_PER_NODE)",
        "每机进程数；torchrun 不读取",
    ),
    Variable("SLURM_*", "Slurm", "set by Slurm for this step", "Slurm 为本步骤设置", SLURM),
    Variable(
        "OMPI_*",
        "Open MPI",
        "set by mpirun",
        "由 mpirun 设置",
        OPEN_MPI,
    ),
    Variable(
        "PMI*",
        "MPI",
        "set by the MPI launcher",
        "由 MPI 启动器设置",
        ACCELERATE + "environment.py",
    ),
    Variable(
        "ACCELERATE_*",
        "accelerate",
        "an option of accelerate launch",
        "accelerate launch 的选项",
        ACCELERATE + "launch.py",
        alike="job",
    ),
    Variable(
        "FSDP_*",
        "accelerate",
        "an option of accelerate's FSDP",
        "accelerate FSDP 的选项",
        ACCELERATE + "launch.py",
        alike="job",
    ),
    Variable(
        "DEEPSPEED_TIMEOUT",
        "DeepSpeed",
        "minutes: the time-out of the groups that deepspeed.init_distributed makes (10; 30 in older releases)",
        "deepspeed.init_distributed 所建进程组的超时，单位分钟（10；旧版 30）",
        DEEPSPEED,
        alike="job",
        values=r"\d+",
        strict=True,
    ),
    Variable("DEEPSPEED_*", "DeepSpeed", "a setting of DeepSpeed", "DeepSpeed 的设置", DEEPSPEED),
    Variable(
        "DS_*",
        "DeepSpeed",
        "a setting of DeepSpeed",
        "DeepSpeed 的设置",
        "https://www.deepspeed.ai/tutorials/advanced-install/",
    ),
    Variable("TRAINDBG*", "jupyter-traindbg", "this debugger", "本调试器", "docs/attaching.md"),
)
