"""What NCCL reads, what guides take for NCCL's, and what it read once."""

from __future__ import annotations

from typing import Any

from .variable import Variable

__all__ = ["ROWS"]

DOCS = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
SOURCE = "https://github.com/NVIDIA/nccl/blob/v2.30.7-1/"
SWITCH = r"-?\d+|0x[0-9a-f]+"
POLICY = "DEFAULT|EFFICIENCY|ZERO"


def _documented(name: str, en: str, zh: str, **more: Any) -> Variable:
    settings: dict[str, Any] = {"alike": "job", "source": f"{DOCS}#{name.lower().replace('_', '-')}", **more}
    return Variable(name, "NCCL", en, zh, **settings)


def _nobody(name: str, en: str, zh: str, instead_en: str, instead_zh: str, source: str) -> Variable:  # noqa: PLR0917
    return Variable(name, "nobody", en, zh, source, "folklore", instead_en, instead_zh)


def _no_such(name: str, instead_en: str, instead_zh: str = "") -> Variable:
    words = "NCCL has no such variable", "NCCL 没有这个变量"
    return _nobody(name, *words, instead_en, instead_zh or instead_en, NO_READER)


def _dead(name: str, en: str, zh: str, until: str, instead_en: str, instead_zh: str) -> Variable:  # noqa: PLR0917
    return _documented(name, en, zh, status="dead", until=until, instead_en=instead_en, instead_zh=instead_zh)


TIMEOUT = "https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.init_process_group"
NO_READER = "https://github.com/NVIDIA/nccl/tree/v2.30.7-1/src"
"""Where it is not: all names that NCCL's source reads are in `nccl_names`."""
GDR_LEVEL = f"{DOCS}#nccl-net-gdr-level-formerly-nccl-ib-gdr-level"
"""Its heading has both names."""

ROWS = (
    # --- which network
    _documented(
        "NCCL_SOCKET_IFNAME",
        "the IP interfaces to use: prefixes, or exact names after `=`, excluded after `^`; find or fail",
        "使用哪些 IP 网卡：前缀匹配，`=` 后为精确名，`^` 为排除；找不到则失败",
        alike="host",
    ),
    _documented("NCCL_SOCKET_FAMILY", "IPv4 or IPv6 only", "只用 IPv4 或 IPv6", values="AF_INET6?"),
    _documented(
        "NCCL_SOCKET_RETRY_CNT",
        "retries of a refused or timed out connection (34: about 60 s in all)",
        "连接被拒或超时后的重试次数（34，共约 60 s）",
        values=r"\d+",
    ),
    _documented(
        "NCCL_SOCKET_RETRY_SLEEP_MSEC",
        "first pause between those retries (100 ms); each is longer by as much",
        "重试前的首次等待时间（100 ms），逐次递增",
        values=r"\d+",
    ),
    _documented("NCCL_SOCKET_POLL_TIMEOUT_MSEC", "polls during start-up, to spare the CPU", "启动阶段轮询时长，省 CPU"),
    _documented(
        "NCCL_SOCKET_NTHREADS",
        "CPU threads per socket connection, 1 to 16",
        "每个 socket 连接的 CPU 线程数，1 到 16",
        values=r"\d+",
    ),
    _documented("NCCL_NSOCKS_PERTHREAD", "sockets per such thread", "每个线程的 socket 数", values=r"\d+"),
    _documented(
        "NCCL_SOCKET_MAGIC",
        "magic number of the transports' sockets, to keep jobs apart",
        "传输层 socket 握手的魔数，用于区分任务",
    ),
    _documented("NCCL_CROSS_NIC", "whether a ring may cross NICs", "同一个环是否可跨网卡", values="[012]", default="2"),
    _documented("NCCL_NET", "the network to use: IB, Socket, or a plugin's name", "使用的网络：IB、Socket 或插件名"),
    _documented("NCCL_NET_PLUGIN", "which network plugin to load", "加载哪个网络插件"),
    _documented("NCCL_TUNER_PLUGIN", "which tuner plugin to load", "加载哪个调优插件"),
    _documented("NCCL_PROFILER_PLUGIN", "which profiler plugin to load", "加载哪个性能分析插件"),
    _documented("NCCL_ENV_PLUGIN", "which plugin supplies the settings", "由哪个插件提供设置"),
    _documented("NCCL_OOB_NET_ENABLE", "uses NCCL's own network for the start-up messages", "启动消息走 NCCL 网络"),
    _documented("NCCL_OOB_NET_IFNAME", "the interface for those", "启动消息使用的网卡", alike="host"),
    _documented(
        "NCCL_NETDEVS_POLICY",
        "how NICs are shared among GPUs: AUTO, ALL, or MAX:N",
        "GPU 如何分配网卡：AUTO、ALL 或 MAX:N",
        values=r"AUTO|ALL|MAX:\d+",
        default="AUTO",
    ),
    _documented("NCCL_NET_SHARED_BUFFERS", "one pool of buffers for all peers", "所有对端共用缓冲池", values="[01]"),
    _documented("NCCL_NET_SHARED_COMMS", "PXN shares connections", "PXN 复用连接", values="[01]"),
    _documented(
        "NCCL_IGNORE_NET_MISMATCH",
        "0 makes init fail where ranks see different numbers of NICs",
        "0 时各 rank 网卡数不同则初始化失败",
        values="[01]",
        default="1",
    ),
    _documented(
        "NCCL_IGNORE_COLLNET_MISMATCH",
        "1 goes on where ranks see different CollNet devices",
        "1 时各 rank 的 CollNet 设备数不同也继续",
        values="[01]",
        default="0",
    ),
    _documented("NCCL_UID_STAGGER_RATE", "spreads the start-up messages of many ranks", "错开大量 rank 的启动消息"),
    _documented("NCCL_UID_STAGGER_THRESHOLD", "from how many ranks on to do so", "从多少 rank 起错开"),
    _documented(
        "NCCL_IB_DISABLE",
        "leaves InfiniBand and RoCE unused: sockets instead, many times slower",
        "禁用 InfiniBand/RoCE，改走 socket，慢很多倍",
        values=SWITCH,
        default="0",
    ),
    _documented(
        "NCCL_IB_HCA", "the RDMA devices to use: prefixes, or exact names after `=`", "使用哪些 RDMA 网卡", alike="host"
    ),
    _documented(
        "NCCL_IB_GID_INDEX",
        "the GID of RoCE; -1 (the default since 2.21) chooses it itself",
        "RoCE 的 GID 索引；-1 为自动",
        alike="host",
        values=SWITCH,
    ),
    _documented("NCCL_IB_ADDR_FAMILY", "the address family of that GID", "该 GID 的地址族", values="AF_INET6?"),
    _documented("NCCL_IB_ADDR_RANGE", "the addresses among which to choose that GID", "该 GID 的地址范围"),
    _documented("NCCL_IB_ROCE_VERSION_NUM", "the version of RoCE", "RoCE 版本"),
    _documented(
        "NCCL_IB_TIMEOUT",
        "an exponent, not seconds: 4.096 µs · 2^value, times NCCL_IB_RETRY_CNT; 20 (the default since 2.23) is 4.3 s, 0 is for ever",
        "是指数而非秒：4.096 µs · 2^值，再乘 NCCL_IB_RETRY_CNT；20（2.23 起默认）即 4.3 s，0 为无限",
        values=r"\d+",
        instead_en="14 to 22; for a collective's own time-out use init_process_group(timeout=...)",
        instead_zh="取 14 到 22；集合通信的超时用 init_process_group(timeout=...)",
    ),
    _documented("NCCL_IB_RETRY_CNT", "InfiniBand's retries, 0 to 7", "InfiniBand 重试次数，0 到 7", values="[0-7]"),
    _documented("NCCL_IB_SL", "InfiniBand service level", "InfiniBand 服务等级"),
    _documented("NCCL_IB_TC", "InfiniBand traffic class", "InfiniBand 流量类别"),
    _documented("NCCL_IB_FIFO_TC", "the same, for control messages", "控制消息的流量类别"),
    _documented("NCCL_IB_RETURN_ASYNC_EVENTS", "stops at fatal InfiniBand events", "遇到致命 IB 事件即停止"),
    _documented("NCCL_IB_QPS_PER_CONNECTION", "queue pairs per connection", "每个连接的 QP 数"),
    _documented("NCCL_IB_SPLIT_DATA_ON_QPS", "how these are shared", "多个 QP 的使用方式"),
    _documented("NCCL_IB_AR_THRESHOLD", "adaptive routing from this size on", "自适应路由的阈值"),
    _documented("NCCL_IB_ADAPTIVE_ROUTING", "adaptive routing", "自适应路由"),
    _documented("NCCL_IB_PCI_RELAXED_ORDERING", "relaxed ordering on PCI", "PCI 宽松排序"),
    _documented("NCCL_IB_ECE_ENABLE", "enhanced connection establishment", "增强连接建立 (ECE)"),
    _documented("NCCL_IB_OOO_RQ", "receives out of order", "乱序接收", values="[01]"),
    _documented("NCCL_IB_MERGE_NICS", "merges two-port NICs", "合并双端口网卡", values="[01]"),
    _documented(
        "NCCL_NET_MERGE_POLICY", "which NICs may be merged", "哪些网卡可合并", values="ALL|RAIL", default="ALL"
    ),
    _documented(
        "NCCL_NET_GDR_LEVEL",
        "how far apart GPU and NIC may be for GPU Direct RDMA; LOC is never",
        "GPU Direct RDMA 允许的 GPU-网卡距离；LOC 为不用",
        source=GDR_LEVEL,
    ),
    _documented("NCCL_NET_GDR_READ", "GPU Direct RDMA also when sending", "发送时也用 GPU Direct RDMA"),
    _documented("NCCL_NET_GDR_C2C", "GPU Direct RDMA over C2C", "经 C2C 的 GPU Direct RDMA"),
    _documented("NCCL_DMABUF_ENABLE", "registers GPU memory with dma-buf", "用 dma-buf 注册显存"),
    # --- within a machine
    _documented(
        "NCCL_P2P_DISABLE",
        "GPUs do not reach each other's memory: a workaround for IOMMU/ACS trouble, and slow",
        "GPU 之间不直接访问显存：绕过 IOMMU/ACS 问题的办法，但慢",
        values=SWITCH,
        default="0",
    ),
    _documented("NCCL_P2P_LEVEL", "how far apart GPUs may be to reach each other directly", "GPU 直连允许的最远距离"),
    _documented("NCCL_P2P_DIRECT_DISABLE", "no direct access within one process", "同一进程内不直接访问"),
    _documented(
        "NCCL_SHM_DISABLE",
        "no shared memory between ranks of a machine: the network instead",
        "同机 rank 不用共享内存，改走网络",
        values=SWITCH,
        default="0",
    ),
    _documented("NCCL_NVLS_ENABLE", "NVLink SHARP", "NVLink SHARP", values="[012]"),
    _documented("NCCL_NVB_DISABLE", "no detour over another GPU's NVLink", "不经其他 GPU 的 NVLink 绕行"),
    _documented("NCCL_PXN_DISABLE", "no NIC of another GPU", "不使用其他 GPU 的网卡"),
    _documented("NCCL_PXN_C2C", "a NIC of another GPU over C2C as well", "经 C2C 也可用其他 GPU 的网卡", values="[01]"),
    _documented("NCCL_P2P_PXN_LEVEL", "when PXN serves send and receive", "点对点何时使用 PXN"),
    _documented("NCCL_MNNVL_ENABLE", "NVLink between machines", "多机 NVLink", values="[012]"),
    _documented("NCCL_MNNVL_UUID", "names the NVLink domain", "NVLink 域的标识", alike="any"),
    _documented("NCCL_MNNVL_CLIQUE_ID", "splits the NVLink domain", "划分 NVLink 域", alike="any"),
    _documented(
        "NCCL_IPC_USE_ABSTRACT_SOCKET",
        "0 where GPUs of containers with network namespaces of their own do not reach each other",
        "容器网络命名空间不同、GPU 无法直连时设 0",
        values="[01]",
        default="1",
    ),
    _documented(
        "NCCL_CUMEM_ENABLE",
        "cuMem* for memory; on by default since 2.19 where it works",
        "用 cuMem* 分配内存；2.19 起默认自动",
        values="-?[012]",
    ),
    _documented("NCCL_CUMEM_HOST_ENABLE", "the same for host memory", "主机内存也用 cuMem*", values="-?[01]"),
    _documented("NCCL_TOPO_FILE", "reads the topology from a file", "从文件读取拓扑", alike="host"),
    _documented("NCCL_TOPO_DUMP_FILE", "writes the topology to a file", "把拓扑写入文件", alike="any"),
    _documented("NCCL_IGNORE_CPU_AFFINITY", "ignores the CPU set of the job", "忽略任务的 CPU 亲和性"),
    _documented(
        "NCCL_MULTI_RANK_GPU_ENABLE",
        "several ranks on one GPU (experimental): hangs where the GPU's resources do not suffice",
        "一块 GPU 上多个 rank（实验性）：资源不足会卡死",
        values="[01]",
        default="0",
    ),
    Variable(
        "NCCL_HOSTID",
        "NCCL",
        "stands for the machine's name when NCCL tells machines apart",
        "NCCL 区分机器时代替主机名",
        SOURCE + "src/misc/utils.cc",
        alike="host",
    ),
    # --- how. That ranks which choose differently hang: https://github.com/NVIDIA/nccl/issues/1136
    _documented(
        "NCCL_ALGO",
        "forces algorithms; ranks that differ hang",
        "强制算法；各 rank 不一致会卡死",
        instead_en="leave it to NCCL",
        instead_zh="交给 NCCL 选择",
    ),
    _documented(
        "NCCL_PROTO",
        "forces protocols; ranks that differ hang, and LL128 where it is not supported corrupts data",
        "强制协议；各 rank 不一致会卡死，不支持 LL128 的平台上会损坏数据",
        instead_en="leave it to NCCL",
        instead_zh="交给 NCCL 选择",
    ),
    _documented(
        "NCCL_BUFFSIZE",
        "bytes of the buffer between two GPUs (4 MiB)",
        "两块 GPU 间缓冲区字节数（4 MiB）",
        values=SWITCH,
    ),
    _documented(
        "NCCL_NTHREADS", "CUDA threads per block: 64, 128, 256 or 512", "每个块的 CUDA 线程数", values="64|128|256|512"
    ),
    _documented("NCCL_MIN_CTAS", "at least so many blocks", "最少 CTA 数", values=r"\d+"),
    _documented("NCCL_MAX_CTAS", "at most so many blocks", "最多 CTA 数", values=r"\d+"),
    _documented(
        "NCCL_MIN_NCHANNELS",
        "the old name of NCCL_MIN_CTAS",
        "NCCL_MIN_CTAS 的旧名",
        status="old name",
        instead_en="NCCL_MIN_CTAS",
        instead_zh="NCCL_MIN_CTAS",
    ),
    _documented(
        "NCCL_MAX_NCHANNELS",
        "the old name of NCCL_MAX_CTAS",
        "NCCL_MAX_CTAS 的旧名",
        status="old name",
        instead_en="NCCL_MAX_CTAS",
        instead_zh="NCCL_MAX_CTAS",
    ),
    Variable(
        "NCCL_MIN_NRINGS",
        "NCCL",
        "an older name of NCCL_MIN_CTAS",
        "NCCL_MIN_CTAS 的更旧名",
        f"{DOCS}#nccl-min-nchannels",
        "old name",
        "NCCL_MIN_CTAS",
        "NCCL_MIN_CTAS",
        "job",
    ),
    Variable(
        "NCCL_MAX_NRINGS",
        "NCCL",
        "an older name of NCCL_MAX_CTAS",
        "NCCL_MAX_CTAS 的更旧名",
        f"{DOCS}#nccl-max-nchannels",
        "old name",
        "NCCL_MAX_CTAS",
        "NCCL_MAX_CTAS",
        "job",
    ),
    _documented(
        "NCCL_CTA_POLICY", "how many blocks, by policy", "CTA 策略", values=rf"[012]|({POLICY})(\|({POLICY}))*"
    ),
    _documented("NCCL_CGA_CLUSTER_SIZE", "blocks per cluster", "CGA 簇大小"),
    _documented(
        "NCCL_COMM_BLOCKING",
        "whether NCCL's calls may block; overrides what PyTorch asks for",
        "NCCL 调用是否可阻塞；会覆盖 PyTorch 的设置",
        values="[01]",
    ),
    _documented(
        "NCCL_RUNTIME_CONNECT",
        "connects at the first collective, not at init",
        "首次集合通信时才建立连接",
        values="[01]",
        default="1",
    ),
    _documented(
        "NCCL_LAUNCH_MODE",
        "GROUP is for one process with several GPUs; deprecated",
        "GROUP 用于单进程多 GPU；已弃用",
        values="GROUP|PARALLEL",
    ),
    _documented(
        "NCCL_LAUNCH_ORDER_IMPLICIT",
        "collectives of different communicators run in program order: no deadlock between them",
        "不同通信器的操作按程序顺序执行，避免互相死锁",
        values="[01]",
        default="0",
    ),
    _documented(
        "NCCL_LAUNCH_RACE_FATAL",
        "two threads that launch at the same time are an error",
        "并发启动视为错误",
        values="[01]",
        default="1",
    ),
    _documented(
        "NCCL_GRAPH_MIXING_SUPPORT", "collectives in and beside CUDA graphs", "CUDA graph 内外混用", values="[01]"
    ),
    _documented(
        "NCCL_GRAPH_STREAM_ORDERING",
        "0 leaves the order of collectives in CUDA graphs to the program",
        "0 时 CUDA graph 中的顺序由程序负责",
        values="[01]",
        default="1",
    ),
    _documented("NCCL_GRAPH_REGISTER", "registers buffers in CUDA graphs", "注册 CUDA graph 中的缓冲区", values="[01]"),
    _documented("NCCL_LOCAL_REGISTER", "registers buffers when asked to", "按请求注册本地缓冲区", values="[01]"),
    _documented(
        "NCCL_LEGACY_CUDA_REGISTER",
        "registers memory of cudaMalloc as well: can hang",
        "也注册 cudaMalloc 的内存：可能卡死",
        values="[01]",
        default="0",
    ),
    _documented("NCCL_WIN_ENABLE", "registers windows", "窗口注册", values="[01]"),
    _documented("NCCL_SYM_GIN_KERNELS_ENABLE", "symmetric kernels over the network", "经网络的对称内核", values="[01]"),
    _documented("NCCL_MEM_SYNC_DOMAIN", "memory domain of the kernels", "内核的内存同步域", values="[01]"),
    _documented("NCCL_P2P_NET_CHUNKSIZE", "bytes per message of send and receive", "点对点消息字节数", values=SWITCH),
    _documented("NCCL_P2P_LL_THRESHOLD", "up to how many bytes these use LL", "点对点使用 LL 的上限", values=SWITCH),
    _documented(
        "NCCL_ALLOC_P2P_NET_LL_BUFFERS", "LL buffers for every peer", "为每个对端分配 LL 缓冲区", values="[01]"
    ),
    _documented("NCCL_COLLNET_ENABLE", "the CollNet plugin", "CollNet 插件", values="[01]"),
    _documented("NCCL_COLLNET_NODE_THRESHOLD", "from how many machines on", "CollNet 的最少机器数", values=r"\d+"),
    _documented(
        "NCCL_SET_STACK_SIZE",
        "1 sets CUDA's stack size at init: where changing it later hangs",
        "1 在初始化时设定 CUDA 栈大小，避免之后重配时卡住",
        values="[01]",
        default="0",
    ),
    _documented("NCCL_SET_THREAD_NAME", "names NCCL's threads", "为 NCCL 线程命名", alike="any"),
    _documented(
        "NCCL_CHECK_MODE",
        "checks the arguments of every call: DEBUG_LOCAL, or DEBUG_GLOBAL, which compares ranks",
        "检查每次调用的参数：DEBUG_LOCAL 或跨 rank 的 DEBUG_GLOBAL",
        values="DEFAULT|DEBUG_LOCAL|DEBUG_GLOBAL",
        default="DEFAULT",
    ),
    _documented(
        "NCCL_CHECK_POINTERS",
        "1 is NCCL_CHECK_MODE=DEBUG_LOCAL; deprecated since 2.29.7",
        "1 等于 NCCL_CHECK_MODE=DEBUG_LOCAL；2.29.7 起弃用",
        values="[01]",
        default="0",
    ),
    _documented("NCCL_CONF_FILE", "a file with these settings", "设置文件", alike="any"),
    Variable(
        "NCCL_COMM_ID",
        "NCCL",
        "one address for the start of every communicator: for MPI-like programs",
        "所有通信器共用一个启动地址：供 MPI 类程序使用",
        SOURCE + "src/bootstrap.cc",
        "real",
        "leave it out: PyTorch hands out the ids over its store",
        "去掉：PyTorch 通过自己的 store 分发 id",
        "job",
    ),
    # --- seeing what it does
    _documented(
        "NCCL_DEBUG",
        "VERSION, WARN, INFO or TRACE; most lines of TRACE exist only in builds with TRACE=1",
        "VERSION/WARN/INFO/TRACE；TRACE 的多数行只在 TRACE=1 的构建中才有",
        alike="any",
        values="VERSION|WARN|INFO|ABORT|TRACE",
    ),
    _documented(
        "NCCL_DEBUG_SUBSYS",
        "which parts NCCL_DEBUG=INFO speaks of: INIT, NET, COLL, GRAPH and others",
        "NCCL_DEBUG=INFO 输出哪些子系统",
        alike="any",
    ),
    _documented(
        "NCCL_DEBUG_FILE", "where to: %h is the host, %p the process", "日志文件：%h 主机，%p 进程", alike="any"
    ),
    _documented("NCCL_DEBUG_TIMESTAMP_FORMAT", "how its times look", "日志时间格式", alike="any"),
    _documented("NCCL_DEBUG_TIMESTAMP_LEVELS", "which lines have one", "哪些级别带时间", alike="any"),
    _documented(
        "NCCL_RAS_ENABLE",
        "the service that `nccl-check` asks for operation counts",
        "`nccl-check` 查询操作计数的服务",
        values="[01]",
        default="1",
    ),
    _documented("NCCL_RAS_ADDR", "where it listens (localhost:28028)", "其监听地址（localhost:28028）", alike="host"),
    _documented("NCCL_RAS_TIMEOUT_FACTOR", "stretches its time-outs", "放大其超时", values=r"\d+"),
    # --- what guides say, and nobody reads
    _nobody(
        "NCCL_TIMEOUT",
        "neither NCCL nor PyTorch reads it",
        "NCCL 和 PyTorch 都不读取",
        "init_process_group(timeout=datetime.timedelta(...)); for InfiniBand itself NCCL_IB_TIMEOUT",
        "使用 init_process_group(timeout=datetime.timedelta(...))；InfiniBand 本身用 NCCL_IB_TIMEOUT",
        TIMEOUT,
    ),
    _nobody(
        "NCCL_TIMEOUT_MS",
        "neither NCCL nor PyTorch reads it",
        "NCCL 和 PyTorch 都不读取",
        "init_process_group(timeout=...)",
        "使用 init_process_group(timeout=...)",
        TIMEOUT,
    ),
    _no_such(
        "NCCL_SOCKET_TIMEOUT",
        "NCCL_SOCKET_RETRY_CNT and NCCL_SOCKET_RETRY_SLEEP_MSEC",
        "NCCL_SOCKET_RETRY_CNT 与 NCCL_SOCKET_RETRY_SLEEP_MSEC",
    ),
    _nobody(
        "NCCL_BACKEND",
        "nobody reads it: the backend is chosen in the program",
        "无人读取：后端由程序选择",
        'init_process_group(backend="gloo")',
        'init_process_group(backend="gloo")',
        TIMEOUT,
    ),
    _nobody(
        "NCCL_HEARTBEAT_TIMEOUT_SEC",
        "nobody reads it without its prefix",
        "缺少前缀则无人读取",
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
        NO_READER,
    ),
    _nobody(
        "NCCL_IB_ENABLE",
        "NCCL has no such variable: InfiniBand is used where it is found",
        "NCCL 没有这个变量：有 InfiniBand 就会用",
        "nothing; NCCL_IB_DISABLE=1 turns it off",
        "无需设置；NCCL_IB_DISABLE=1 才是关闭",
        NO_READER,
    ),
    _nobody(
        "NCCL_P2P_ENABLE",
        "NCCL has no such variable: peer access is used where it works",
        "NCCL 没有这个变量",
        "nothing; NCCL_P2P_DISABLE=1 turns it off",
        "无需设置；NCCL_P2P_DISABLE=1 才是关闭",
        NO_READER,
    ),
    # the first stands in https://github.com/aws/aws-ofi-nccl/blob/master/doc/efa-env-var.md
    _no_such("NCCL_MIN_CHANNELS", "NCCL_MIN_CTAS"),
    _no_such("NCCL_MAX_CHANNELS", "NCCL_MAX_CTAS"),
    _no_such("NCCL_DEBUG_LEVEL", "NCCL_DEBUG"),
    _no_such("NCCL_NET_GDR_DISABLE", "NCCL_NET_GDR_LEVEL=LOC"),
    # --- what it read once
    _dead(
        "NCCL_IB_CUDA_SUPPORT",
        "GPU Direct RDMA, in NCCL before 2.4",
        "2.4 之前的 GPU Direct RDMA 开关",
        "2.4",
        "NCCL_NET_GDR_LEVEL",
        "NCCL_NET_GDR_LEVEL",
    ),
    _dead("NCCL_SINGLE_RING_THRESHOLD", "gone since 2.3", "2.3 起已移除", "2.3", "leave it out", "去掉即可"),
    _dead("NCCL_LL_THRESHOLD", "gone since 2.5", "2.5 起已移除", "2.5", "NCCL_PROTO, if at all", "必要时用 NCCL_PROTO"),
    _dead("NCCL_TREE_THRESHOLD", "gone since 2.5", "2.5 起已移除", "2.5", "NCCL_ALGO, if at all", "必要时用 NCCL_ALGO"),
    _dead(
        "NCCL_CHECKS_DISABLE",
        "checks are off by default",
        "检查默认已关闭",
        "2.3",
        "NCCL_CHECK_MODE turns them on",
        "用 NCCL_CHECK_MODE 打开",
    ),
)
