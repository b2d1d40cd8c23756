"""What Ray reads, and what it read once."""

from __future__ import annotations

from .variable import Variable

__all__ = ["ROWS"]

OOM = "https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html"
LOGGING = "https://docs.ray.io/en/latest/ray-observability/user-guides/configure-logging.html"
GPUS = "https://github.com/ray-project/ray/blob/master/python/ray/_private/accelerators/nvidia_gpu.py"
BACKEND = "https://github.com/ray-project/ray/blob/master/src/ray/util/logging.cc"
MEMORY = "https://docs.ray.io/en/latest/ray-core/scheduling/memory-management.html"
CONSTANTS = "https://github.com/ray-project/ray/blob/master/python/ray/_private/ray_constants.py"
CONFIG = "https://github.com/ray-project/ray/blob/master/src/ray/common/ray_config_def.h"


def _ray(name: str, en: str, zh: str, source: str) -> Variable:
    return Variable(name, "Ray", en, zh, source)


ROWS = (
    _ray(
        "RAY_ADDRESS",
        "the cluster that ray.init() joins: a forgotten one joins the wrong cluster",
        "ray.init() 加入的集群：忘记清除会连错",
        "https://docs.ray.io/en/latest/ray-core/api/doc/ray.init.html",
    ),
    _ray("RAY_NAMESPACE", "the namespace of named actors", "具名 actor 的命名空间", CONSTANTS),
    _ray("RAY_RUNTIME_ENV", "the runtime environment of the job", "任务的运行环境", CONSTANTS),
    _ray("RAY_RUNTIME_ENV_*", "how runtime environments are made", "运行环境的构建设置", CONSTANTS),
    _ray(
        "RAY_memory_monitor_refresh_ms",
        "how often Ray looks at memory (250); 0, where Ray starts, leaves killing to the kernel's OOM killer",
        "Ray 检查内存的间隔（250）；启动 Ray 时设 0 则交给内核 OOM killer",
        OOM,
    ),
    _ray(
        "RAY_memory_usage_threshold",
        "the share of memory from which Ray kills workers (0.95)",
        "Ray 开始杀 worker 的内存比例（0.95）",
        OOM,
    ),
    _ray(
        "RAY_DEDUP_LOGS",
        "lines that repeat are shown once: 0 shows every rank's",
        "重复日志只显示一次；0 显示每个 rank 的",
        LOGGING,
    ),
    _ray("RAY_DEDUP_LOGS_*", "how these are recognised", "去重方式", LOGGING),
    _ray("RAY_LOG_TO_STDERR", "logs to stderr, not to files", "日志写到 stderr 而非文件", CONSTANTS),
    _ray("RAY_BACKEND_LOG_LEVEL", "logging of Ray's own C++", "Ray C++ 日志级别", BACKEND),
    _ray("RAY_SCHEDULER_EVENTS", "the autoscaler's messages", "自动伸缩器的消息", CONSTANTS),
    _ray("RAY_OVERRIDE_RESOURCES", "what a node claims to have", "节点声明的资源", CONSTANTS),
    _ray("RAY_GCS_SERVER_PORT", "the head's port", "head 端口", CONSTANTS),
    _ray(
        "RAY_worker_register_timeout_seconds",
        "how long a worker may take to start (60 s): imports from a slow disk exceed it",
        "worker 启动的时限（60 s）：慢盘上 import 会超时",
        CONFIG,
    ),
    _ray(
        "RAY_grpc_enable_http_proxy",
        "lets Ray's own connections go through http_proxy",
        "让 Ray 的连接走 http_proxy",
        CONSTANTS,
    ),
    _ray(
        "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES",
        "Ray does not set CUDA_VISIBLE_DEVICES: every worker sees all GPUs",
        "Ray 不设置 CUDA_VISIBLE_DEVICES：每个 worker 看到全部 GPU",
        GPUS,
    ),
    _ray(
        "RAY_record_ref_creation_sites",
        "records where objects are made, for messages and `ray memory`",
        "记录对象创建位置，供报错信息与 `ray memory` 使用",
        "https://github.com/ray-project/ray/blob/master/python/ray/exceptions.py",
    ),
    _ray(
        "RAY_DEFAULT_OBJECT_STORE_MEMORY_PROPORTION",
        "the share of memory that becomes the object store (0.3)",
        "对象存储占内存的比例（0.3）",
        MEMORY,
    ),
    _ray(
        "RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES",
        "the object store is never larger (200 GB)",
        "对象存储的上限（200 GB）",
        MEMORY,
    ),
    _ray(
        "RAY_health_check_*",
        "when a node that does not answer is taken for dead: asked every 3 s for at most 10 s, five times",
        "节点多久无应答视为死亡：每 3 s 询问，每次最多 10 s，共五次",
        CONFIG,
    ),
    _ray(
        "RAY_gcs_server_request_timeout_seconds",
        "how long Ray waits for its head (60 s)",
        "等待 head 应答的时限（60 s）",
        CONSTANTS,
    ),
    Variable(
        "RAY_DISABLE_MEMORY_MONITOR",
        "Ray",
        "turned off an older memory monitor, which Ray's workers have no more",
        "关闭的是旧内存监视器，Ray worker 已不再使用",
        "https://github.com/ray-project/ray/pull/31993",
        "dead",
        "RAY_memory_monitor_refresh_ms=0, where `ray start` runs",
        "在 `ray start` 处设置 RAY_memory_monitor_refresh_ms=0",
        until="2.3",
    ),
    Variable(
        "RAY_WORKER_REGISTER_TIMEOUT_SECONDS",
        "nobody",
        "Ray's settings are read in small letters",
        "Ray 的设置名为小写",
        CONFIG,
        "folklore",
        "RAY_worker_register_timeout_seconds",
        "RAY_worker_register_timeout_seconds",
    ),
    _ray("RAY_*", "a setting of Ray, or set by it", "Ray 的设置，或由 Ray 设置", CONFIG),
)
