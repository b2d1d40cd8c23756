"""What PyTorch reads: process groups, flight recorder, allocator, compiler. Checked against the headers, libraries and Python of 2.13."""

from __future__ import annotations

from typing import Any

from .variable import Variable

__all__ = ["ROWS"]

AT = "https://github.com/pytorch/pytorch/blob/v2.13.0/torch/"
C10D = AT + "csrc/distributed/c10d/"
NCCL_DOCS = "https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html"
DISTRIBUTED = "https://docs.pytorch.org/docs/stable/distributed.html"
SOURCE = C10D + "ProcessGroupNCCL.cpp"
RECORDER = C10D + "FlightRecorder.cpp"
ALLOCATOR = "https://github.com/pytorch/pytorch/blob/v2.13.0/c10/cuda/CUDAAllocatorConfig.h"
GLOO = "https://github.com/pytorch/gloo/blob/main/gloo/common/"
CUDA_DOCS = "https://docs.pytorch.org/docs/stable/cuda_environment_variables.html"
BOOL = "y|yes|1|t|true|n|no|0|f|false"


def _nccl(name: str, en: str, zh: str, **more: Any) -> Variable:
    settings: dict[str, Any] = {"source": NCCL_DOCS, "alike": "job", "strict": True, **more}
    return Variable(f"TORCH_NCCL_{name}", "PyTorch", en, zh, **settings)


def _torch(name: str, en: str, zh: str, source: str, **more: Any) -> Variable:
    return Variable(name, "PyTorch", en, zh, source, **more)


def _gloo(name: str, en: str, zh: str, **more: Any) -> Variable:
    settings: dict[str, Any] = {"source": GLOO + "utils.cc", "alike": "job", "values": "True|False|0|1", **more}
    return Variable(name, "gloo", en, zh, **settings)


def _old(name: str, new: str, source: str = C10D + "ProcessGroupNCCL.hpp") -> Variable:
    en, zh = f"the old name of {new}: still read, with a warning", f"{new} 的旧名：仍会读取，但有警告"
    return Variable(name, "PyTorch", en, zh, source, "old name", new, new, "job")


def _unread(name: str, instead_en: str, instead_zh: str) -> Variable:
    source = C10D + "ProcessGroupNCCL.hpp"
    return Variable(
        name,
        "nobody",
        "PyTorch has no such variable",
        "PyTorch 没有这个变量",
        source,
        "folklore",
        instead_en,
        instead_zh,
    )


ROWS = (
    # --- NCCL process groups
    _nccl(
        "ASYNC_ERROR_HANDLING",
        "what happens to a stuck collective: 0 nothing, 1 and 3 the process is ended, 2 the communicator is",
        "集合通信卡住后：0 不处理，1 和 3 结束进程，2 中止通信器",
        values="[0-3]",
    ),
    _nccl(
        "BLOCKING_WAIT",
        "wait() blocks the CPU; no watchdog thread is started",
        "wait() 阻塞 CPU；不启动 watchdog 线程",
        values=BOOL,
        default="0",
    ),
    _nccl(
        "HEARTBEAT_TIMEOUT_SEC",
        "after how long without a sign of life from the watchdog thread the process is ended (480 s); not the time-out of collectives",
        "watchdog 线程多久无心跳则结束进程（480 s）；不是集合通信的超时",
        values=r"\d+",
        instead_en="for collectives: init_process_group(timeout=...)",
        instead_zh="集合通信的超时用 init_process_group(timeout=...)",
    ),
    _nccl(
        "ENABLE_MONITORING",
        "ends the process when the watchdog itself hangs",
        "watchdog 自身卡住时结束进程",
        values=BOOL,
        default="1",
    ),
    _nccl(
        "DUMP_ON_TIMEOUT",
        "writes the flight recorder's files at a time-out; on by default in current releases",
        "超时时写出 flight recorder；当前版本默认开启",
        values=BOOL,
    ),
    _nccl(
        "DESYNC_DEBUG", "says at a time-out which rank was late", "超时时报告哪个 rank 落后", values=BOOL, default="0"
    ),
    _nccl(
        "ENABLE_TIMING",
        "times every collective; makes a hang of the watchdog likelier",
        "为每次集合通信计时；更容易使 watchdog 卡住",
        values=BOOL,
        default="0",
    ),
    _nccl(
        "PROPAGATE_ERROR",
        "tells all ranks of an error through the store",
        "通过 store 把错误通知所有 rank",
        values=BOOL,
        source=C10D + "ProcessGroupNCCL.hpp",
    ),
    _nccl(
        "WAIT_TIMEOUT_DUMP_MILSEC",
        "how long to wait for the dump to be written (15000)",
        "等待写出转储的时间（15000）",
        values=r"\d+",
    ),
    _nccl(
        "COORD_CHECK_MILSEC",
        "how often to look for another rank's signal (1000)",
        "检查其他 rank 信号的间隔（1000）",
        values=r"\d+",
    ),
    _nccl(
        "RETHROW_CUDA_ERRORS",
        "whether the watchdog rethrows CUDA errors",
        "watchdog 是否重新抛出 CUDA 错误",
        values=BOOL,
        default="1",
        source=C10D + "ProcessGroupNCCL.hpp",
    ),
    _nccl("HIGH_PRIORITY", "high-priority streams", "高优先级流", values=BOOL),
    _nccl(
        "NAN_CHECK", "looks for NaN in what is sent, and stops", "检查发送数据中的 NaN 并中止", values=BOOL, default="0"
    ),
    _nccl(
        "CUDA_EVENT_CACHE",
        "reuses CUDA events: destroying them can hang",
        "复用 CUDA event：销毁时可能卡住",
        values=BOOL,
        source=C10D + "ProcessGroupNCCL.hpp",
    ),
    _nccl(
        "USE_COMM_NONBLOCKING",
        "non-blocking communicators",
        "非阻塞通信器",
        values="[01]",
        strict=False,
        source=CUDA_DOCS,
    ),
    _nccl(
        "USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
        "registers tensors with NCCL",
        "向 NCCL 注册张量内存",
        values=BOOL,
        source=C10D + "ProcessGroupNCCL.hpp",
    ),
    _nccl(
        "BCAST_UNIQUEID",
        "whether rank 0 hands out the unique id",
        "是否由 rank 0 分发 unique id",
        values=BOOL,
        source=C10D + "ProcessGroupNCCL.hpp",
    ),
    _nccl(
        "RANKS_PER_ROOT",
        "ranks per root when a large communicator is made",
        "大规模初始化时每个 root 的 rank 数",
        values=r"-?\d+",
        source=C10D + "ProcessGroupNCCL.hpp",
    ),
    _nccl(
        "EXTRA_DUMP_ON_EXEC",
        "a dump also when the group ends for an exception from elsewhere",
        "进程组因其他异常结束时也转储",
        values=BOOL,
        default="0",
        source=SOURCE,
    ),
    _nccl(
        "LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN",
        "logs C++ stacks at an unclean end",
        "异常退出时记录 C++ 栈",
        values=BOOL,
        source=C10D + "ProcessGroupNCCL.hpp",
    ),
    _nccl(
        "SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING",
        "a warning about send and receive",
        "点对点串行化警告",
        values=BOOL,
        source=C10D + "ProcessGroupNCCL.hpp",
    ),
    _nccl(
        "AVOID_RECORD_STREAMS",
        "ignored, with a warning: it is what PyTorch does anyway",
        "被忽略并有警告：PyTorch 已默认如此",
        status="dead",
        until="2.8",
        source=SOURCE,
        instead_en="leave it out",
        instead_zh="去掉即可",
    ),
    _old("NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
    _old("NCCL_BLOCKING_WAIT", "TORCH_NCCL_BLOCKING_WAIT"),
    _old("NCCL_DESYNC_DEBUG", "TORCH_NCCL_DESYNC_DEBUG"),
    _old("NCCL_ENABLE_TIMING", "TORCH_NCCL_ENABLE_TIMING"),
    _old("NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"),
    _unread("TORCH_NCCL_TIMEOUT", "init_process_group(timeout=...)", "使用 init_process_group(timeout=...)"),
    _unread("TORCH_DISTRIBUTED_TIMEOUT", "init_process_group(timeout=...)", "使用 init_process_group(timeout=...)"),
    _unread("TORCH_DISTRIBUTED_BACKEND", 'init_process_group(backend="gloo")', 'init_process_group(backend="gloo")'),
    _unread("TORCH_NCCL_DEBUG", "NCCL_DEBUG", "NCCL_DEBUG"),
    _unread(
        "TORCH_NCCL_ENABLE_FLIGHT_RECORDER",
        "nothing: it is on; TORCH_FR_BUFFER_SIZE is its size",
        "无需设置：默认开启；大小为 TORCH_FR_BUFFER_SIZE",
    ),
    # --- the flight recorder
    _torch(
        "TORCH_FR_BUFFER_SIZE",
        "entries of the flight recorder (2000); 0 turns it off",
        "flight recorder 条数（2000）；0 为关闭",
        C10D + "FlightRecorder.hpp",
        values=r"\d+",
        strict=True,
    ),
    _torch(
        "TORCH_FR_DUMP_TEMP_FILE", "where it is dumped to, the rank being appended", "转储路径前缀，后接 rank", RECORDER
    ),
    _torch(
        "TORCH_FR_DUMP_DYNAMIC_FILE_NAME",
        "lets that name change while it runs",
        "允许运行中改变该文件名",
        RECORDER,
        values=BOOL,
        strict=True,
    ),
    _torch(
        "TORCH_FR_CPP_STACK",
        "records C++ stacks as well",
        "同时记录 C++ 栈",
        C10D + "FlightRecorder.hpp",
        values=BOOL,
        strict=True,
    ),
    _torch(
        "TORCH_INCLUDE_STACK_TRACE",
        "whether dumps have stacks: slow to write",
        "转储是否含调用栈（写得慢）",
        C10D + "FlightRecorder.hpp",
        values=BOOL,
    ),
    _torch(
        "TORCH_INCLUDE_ONLY_ACTIVE",
        "dumps only what has not completed",
        "只转储未完成的操作",
        C10D + "FlightRecorder.hpp",
        values=BOOL,
    ),
    _old("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE", C10D + "FlightRecorder.hpp"),
    _old("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_FR_DUMP_TEMP_FILE", RECORDER),
    _old("TORCH_NCCL_TRACE_CPP_STACK", "TORCH_FR_CPP_STACK", C10D + "FlightRecorder.hpp"),
    _nccl(
        "DEBUG_INFO_PIPE_FILE",
        "a pipe by which a dump can be asked for",
        "用于请求转储的管道",
        source=NCCL_DOCS,
        alike="any",
    ),
    # --- gloo, and all backends
    _torch(
        "GLOO_SOCKET_IFNAME",
        "the interfaces gloo uses: exact names, by comma; one that does not exist is an error",
        "gloo 使用的网卡：精确名，逗号分隔；不存在则报错",
        DISTRIBUTED + "#choosing-the-network-interface-to-use",
        alike="host",
    ),
    _torch(
        "GLOO_DEVICE_TRANSPORT",
        "gloo's transport: TCP, TCP_TLS, UV or IBVERBS",
        "gloo 的传输方式",
        C10D + "GlooDeviceFactory.cpp",
        alike="job",
        values="TCP|TCP_TLS|UV|IBVERBS",
        strict=True,
    ),
    _torch(
        "TORCH_GLOO_LAZY_INIT",
        "connects two ranks when they first talk",
        "首次通信时才建立连接",
        C10D + "ProcessGroupGloo.hpp",
        alike="job",
        values=BOOL,
        strict=True,
    ),
    _gloo(
        "GLOO_DISABLE_CONNECTION_RETRIES",
        "a connection that fails is not tried again",
        "连接失败后不再重试",
        values="True|False|0|1",
        default="0",
    ),
    _gloo("GLOO_ENABLE_STORE_V2_API", "fewer requests to the store at start-up", "启动时减少对 store 的请求"),
    _gloo("GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER", "pairs are told apart by rank", "用 rank 作连接序号"),
    _gloo(
        "GLOO_LOG_LEVEL",
        "logging of gloo: DEBUG, INFO, WARN, ERROR",
        "gloo 日志级别：DEBUG、INFO、WARN、ERROR",
        source=GLOO + "logging.cc",
        alike="any",
        values="",
    ),
    _torch(
        "TORCH_DISTRIBUTED_DEBUG",
        "OFF, INFO, or DETAIL, which checks every collective over a second group: slow, and can hang init",
        "OFF/INFO/DETAIL；DETAIL 经第二个组检查每次集合通信：慢，且可能使初始化卡住",
        DISTRIBUTED + "#torch-distributed-debug",
        alike="job",
        values="OFF|INFO|DETAIL",
        default="OFF",
        strict=True,
    ),
    _torch(
        "TORCH_DIST_INIT_BARRIER",
        "a barrier at the end of init_process_group and new_group",
        "init_process_group/new_group 结束时加 barrier",
        AT + "distributed/distributed_c10d.py",
        alike="job",
        default="0",
    ),
    _torch(
        "TORCH_CPP_LOG_LEVEL",
        "C++ logging: INFO, WARNING, ERROR, FATAL",
        "C++ 日志级别",
        DISTRIBUTED + "#torch-distributed-debug",
        values="INFO|WARNING|ERROR|FATAL|[0-3]",
    ),
    _torch(
        "TORCH_SHOW_CPP_STACKTRACES",
        "C++ stacks in error messages",
        "错误信息附带 C++ 栈",
        AT + "csrc/utils/cpp_stacktraces.cpp",
    ),
    _torch(
        "TORCH_LOGS",
        "logging of torch.compile and of `distributed`",
        "torch.compile 与 distributed 的日志",
        "https://docs.pytorch.org/docs/stable/logging.html",
    ),
    _torch(
        "USE_LIBUV",
        "0 uses the old server behind MASTER_PORT, slower with many ranks",
        "0 表示使用旧的 store 服务，rank 多时慢",
        AT + "distributed/rendezvous.py",
        alike="job",
        values="[01]",
        default="1",
    ),
    _torch(
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE",
        "a store of its own for the job, apart from torchrun's",
        "任务不与 torchrun 共用 store",
        AT + "distributed/elastic/rendezvous/dynamic_rendezvous.py",
        alike="job",
    ),
    _torch(
        "TORCH_DISTRIBUTED_USE_TORCHCOMMS",
        "another implementation of the backends",
        "使用 torchcomms 后端",
        AT + "distributed/config.py",
        alike="job",
    ),
    # --- the compiler: where ranks differ, their graphs and so their collectives may
    _torch(
        "TORCH_COMPILE_DISABLE",
        "torch.compile does nothing",
        "禁用 torch.compile",
        AT + "_dynamo/config.py",
        alike="job",
        default="0",
    ),
    _torch(
        "TORCHDYNAMO_DISABLE",
        "torch.compile does nothing",
        "禁用 torch.compile",
        AT + "_dynamo/eval_frame.py",
        alike="job",
        default="0",
    ),
    _torch(
        "TORCHINDUCTOR_CACHE_DIR",
        "where compiled kernels are kept",
        "编译缓存目录",
        "https://docs.pytorch.org/tutorials/recipes/torch_compile_caching_configuration_tutorial.html",
    ),
    _torch("TORCHINDUCTOR_COMPILE_THREADS", "processes that compile", "编译进程数", AT + "_inductor/config.py"),
    _torch("TORCHINDUCTOR_*", "a setting of the compiler", "编译器设置", AT + "_inductor/config.py"),
    _torch("TORCHDYNAMO_*", "a setting of the compiler", "编译器设置", AT + "_dynamo/config.py"),
    _torch("TORCH_COMPILE_*", "a setting of the compiler", "编译器设置", AT + "_dynamo/config.py"),
    # --- memory
    _torch("PYTORCH_ALLOC_CONF", "settings of the caching allocator", "缓存分配器设置", ALLOCATOR),
    _torch(
        "PYTORCH_CUDA_ALLOC_CONF",
        "the older name of PYTORCH_ALLOC_CONF, which it overrides on CUDA",
        "PYTORCH_ALLOC_CONF 的旧名，在 CUDA 上优先",
        ALLOCATOR,
    ),
    _torch("PYTORCH_HIP_ALLOC_CONF", "the same on ROCm", "ROCm 上的同类设置", ALLOCATOR),
    _torch(
        "PYTORCH_NO_CUDA_MEMORY_CACHING",
        "no caching of GPU memory: very slow, for debugging",
        "不缓存显存：很慢，仅供调试",
        CUDA_DOCS,
        default="0",
    ),
    _torch(
        "PYTORCH_NVML_BASED_CUDA_CHECK",
        "asks NVML whether CUDA works, so that a later fork is possible",
        "用 NVML 检查 CUDA，便于之后 fork",
        CUDA_DOCS,
    ),
    _torch(
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
        "forces TF32: other numbers",
        "强制 TF32：数值会变",
        CUDA_DOCS,
        alike="job",
        default="0",
    ),
    _torch("TORCH_CUDNN_V8_API_DISABLED", "an older cuDNN interface", "使用旧 cuDNN 接口", CUDA_DOCS),
    _torch("TORCH_DEVICE_BACKEND_AUTOLOAD", "loads out-of-tree backends", "自动加载外部后端", AT + "__init__.py"),
    _torch(
        "TORCH_CUDA_ARCH_LIST",
        "the GPUs to build extensions for; building time only",
        "编译扩展的目标架构；仅编译时有效",
        "https://docs.pytorch.org/docs/stable/cpp_extension.html",
    ),
    _torch(
        "TORCH_HOME",
        "where models of torch.hub are kept",
        "torch.hub 缓存目录",
        "https://docs.pytorch.org/docs/stable/hub.html",
    ),
    _torch(
        "TORCH_EXTENSIONS_DIR",
        "where extensions are built; a lock file left there makes every rank wait",
        "扩展编译目录；残留锁文件会让所有 rank 等待",
        "https://docs.pytorch.org/docs/stable/cpp_extension.html",
    ),
)
