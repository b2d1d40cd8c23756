"""CUDA, OpenMP, Python, Hugging Face and the rest that a training process reads."""

from __future__ import annotations

from .variable import Variable

__all__ = ["ROWS"]

CUDA = "https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html"
GOMP = "https://gcc.gnu.org/onlinedocs/libgomp/Environment-Variables.html"
PYTHON = "https://docs.python.org/3/using/cmdline.html#environment-variables"
HUB = "https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables"
HUB_SOURCE = "https://github.com/huggingface/huggingface_hub/blob/main/src/huggingface_hub/constants.py"
DATASETS = "https://huggingface.co/docs/datasets/cache"
UCX = "https://openucx.readthedocs.io/en/master/faq.html"
EFA = "https://github.com/aws/aws-ofi-nccl/blob/master/doc/efa-env-var.md"
GOOGLE = "https://github.com/GoogleCloudPlatform/container-engine-accelerators/tree/master/gpudirect-tcpxo"
LOADER = "https://man7.org/linux/man-pages/man8/ld.so.8.html"
CURL = "https://requests.readthedocs.io/en/latest/user/advanced/#proxies"
INTEL = "https://www.intel.com/content/www/us/en/docs/onemkl/developer-guide-linux/current/improving-performance-with-threading.html"


def _row(name: str, reader: str, en: str, zh: str, source: str, **more: str) -> Variable:
    return Variable(name, reader, en, zh, source, **more)  # type: ignore[arg-type]  # the words of Literal fields, from this file alone


ROWS = (
    # --- CUDA
    _row(
        "CUDA_VISIBLE_DEVICES",
        "CUDA",
        "the GPUs that the process sees, renumbered from 0; empty means none",
        "进程可见的 GPU，从 0 重新编号；空表示没有",
        CUDA,
    ),
    _row(
        "CUDA_DEVICE_ORDER",
        "CUDA",
        "PCI_BUS_ID numbers GPUs as nvidia-smi does",
        "PCI_BUS_ID 与 nvidia-smi 编号一致",
        CUDA,
        alike="host",
        values="PCI_BUS_ID|FASTEST_FIRST",
    ),
    _row(
        "CUDA_LAUNCH_BLOCKING",
        "CUDA",
        "every kernel launch waits: for debugging; NCCL can hang with it",
        "每次内核启动都等待：仅供调试；NCCL 可能因此卡死",
        CUDA,
        alike="job",
        default="0",
    ),
    _row(
        "CUDA_DEVICE_MAX_CONNECTIONS",
        "CUDA",
        "hardware queues; Megatron's overlap needs 1",
        "硬件队列数；Megatron 的重叠需要 1",
        CUDA,
        alike="job",
    ),
    _row(
        "CUDA_MODULE_LOADING",
        "CUDA",
        "LAZY loads a kernel at its first use",
        "LAZY 在首次使用时加载内核",
        CUDA,
        values="LAZY|EAGER|DEFAULT",
    ),
    _row("CUDA_CACHE_PATH", "CUDA", "where compiled kernels are kept", "内核缓存目录", CUDA),
    _row("CUDA_*", "CUDA", "a setting of CUDA", "CUDA 的设置", CUDA),
    _row(
        "CUBLAS_WORKSPACE_CONFIG",
        "cuBLAS",
        "the workspace; needed for deterministic algorithms",
        "工作区；确定性算法需要",
        "https://docs.nvidia.com/cuda/cublas/#results-reproducibility",
        alike="job",
    ),
    _row("CUDNN_*", "cuDNN", "a setting of cuDNN", "cuDNN 的设置", "https://docs.nvidia.com/deeplearning/cudnn/"),
    _row(
        "NVIDIA_VISIBLE_DEVICES",
        "NVIDIA container toolkit",
        "the GPUs that the container gets",
        "容器获得的 GPU",
        "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html",
    ),
    _row(
        "NVIDIA_DRIVER_CAPABILITIES",
        "NVIDIA container toolkit",
        "the parts of the driver that the container gets",
        "容器获得的驱动功能",
        "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html",
    ),
    _row(
        "NVIDIA_TF32_OVERRIDE",
        "cuBLAS, cuDNN",
        "0 turns TF32 off everywhere: other numbers",
        "0 全局关闭 TF32：数值会变",
        "https://docs.nvidia.com/cuda/cublas/#tensor-core-usage",
        alike="job",
    ),
    _row(
        "HIP_VISIBLE_DEVICES",
        "ROCm",
        "the GPUs that the process sees",
        "进程可见的 GPU",
        "https://rocm.docs.amd.com/projects/HIP/en/latest/reference/env_variables.html",
    ),
    _row(
        "ROCR_VISIBLE_DEVICES",
        "ROCm",
        "the GPUs that the process sees",
        "进程可见的 GPU",
        "https://rocm.docs.amd.com/projects/HIP/en/latest/reference/env_variables.html",
    ),
    # --- threads
    _row(
        "OMP_NUM_THREADS",
        "OpenMP, PyTorch",
        "CPU threads per process; torchrun sets 1 where it is not set and there are several processes",
        "每进程 CPU 线程数；torchrun 在多进程且未设置时设为 1",
        "https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/run.py",
        alike="job",
        values=r"\d+(,\d+)*",
    ),
    _row(
        "OMP_WAIT_POLICY",
        "OpenMP",
        "ACTIVE lets waiting threads spin",
        "ACTIVE 时等待线程自旋",
        GOMP,
        values="ACTIVE|PASSIVE",
    ),
    _row(
        "OMP_PROC_BIND",
        "OpenMP",
        "binds threads to CPUs: all ranks to the same ones, where it is set for all",
        "线程绑核：若所有 rank 相同则挤在同一批核上",
        GOMP,
    ),
    _row("OMP_*", "OpenMP", "a setting of OpenMP", "OpenMP 的设置", GOMP),
    _row("GOMP_*", "libgomp", "a setting of GNU's OpenMP", "GNU OpenMP 的设置", GOMP),
    _row(
        "KMP_DUPLICATE_LIB_OK",
        "Intel OpenMP",
        "hides that two OpenMP libraries are loaded: wrong results are possible",
        "掩盖重复加载 OpenMP 的问题：可能出错",
        INTEL,
    ),
    _row("KMP_*", "Intel OpenMP", "a setting of Intel's OpenMP", "Intel OpenMP 的设置", INTEL),
    _row("MKL_NUM_THREADS", "MKL", "threads of MKL", "MKL 线程数", INTEL, values=r"\d+"),
    _row("MKL_*", "MKL", "a setting of MKL", "MKL 的设置", INTEL),
    _row(
        "OPENBLAS_NUM_THREADS",
        "OpenBLAS",
        "threads of OpenBLAS (NumPy)",
        "OpenBLAS 线程数",
        "https://github.com/OpenMathLib/OpenBLAS#setting-the-number-of-threads-using-environment-variables",
        values=r"\d+",
    ),
    _row(
        "NUMEXPR_*",
        "numexpr",
        "threads of numexpr",
        "numexpr 线程数",
        "https://numexpr.readthedocs.io/en/latest/user_guide.html",
    ),
    _row(
        "TOKENIZERS_PARALLELISM",
        "tokenizers",
        "threads within one tokenizer; they do not survive a fork, so workers of a DataLoader work without",
        "分词器内部线程；fork 后不可用，DataLoader worker 中会关闭",
        "https://github.com/huggingface/tokenizers/blob/main/bindings/python/src/lib.rs",
        values="true|false|1|0|yes|no|on|off|y|n|t|f",
    ),
    _row(
        "MALLOC_*",
        "glibc malloc",
        "a setting of malloc",
        "malloc 的设置",
        "https://man7.org/linux/man-pages/man3/mallopt.3.html",
    ),
    _row("LD_PRELOAD", "the loader", "libraries put before all others", "优先加载的库", LOADER),
    _row(
        "LD_LIBRARY_PATH",
        "the loader",
        "where libraries are looked for first: another NCCL there is used instead of PyTorch's",
        "库的优先搜索路径：其中的 NCCL 会取代 PyTorch 自带的",
        LOADER,
        alike="job",
    ),
    # --- Python
    _row("PYTHONUNBUFFERED", "Python", "prints at once", "立即输出", PYTHON),
    _row("PYTHONFAULTHANDLER", "Python", "Python stacks at a crash", "崩溃时输出 Python 栈", PYTHON),
    _row("PYTHONMALLOC", "Python", "Python's allocator; debug is slow", "Python 内存分配器", PYTHON),
    _row(
        "PYTHONHASHSEED",
        "Python",
        "the order of sets of strings: where ranks iterate over one and call collectives, they have to agree",
        "字符串集合的顺序：若据此调用集合通信，各 rank 须一致",
        PYTHON,
    ),
    _row(
        "TMPDIR",
        "Python",
        "temporary files",
        "临时文件目录",
        "https://docs.python.org/3/library/tempfile.html#tempfile.gettempdir",
    ),
    # --- Hugging Face
    _row("HF_HOME", "huggingface_hub", "where models and datasets are kept", "模型与数据集缓存目录", HUB),
    _row("HF_HUB_CACHE", "huggingface_hub", "where downloads are kept", "下载缓存目录", HUB),
    _row("HF_HUB_OFFLINE", "huggingface_hub", "no requests to the Hub", "不访问 Hub", HUB, alike="job"),
    _row(
        "HF_HUB_DOWNLOAD_TIMEOUT",
        "huggingface_hub",
        "seconds for a download to move on",
        "下载超时秒数",
        HUB,
        values=r"\d+",
    ),
    _row("HF_ENDPOINT", "huggingface_hub", "another Hub, or a mirror", "Hub 镜像地址", HUB),
    _row("HF_TOKEN", "huggingface_hub", "the access token", "访问令牌", HUB),
    _row(
        "HF_DATASETS_CACHE",
        "datasets",
        "where prepared datasets are kept: one that the ranks do not share is prepared by each",
        "数据集缓存；各 rank 不共享则每个都要重做",
        DATASETS,
    ),
    _row("HF_DATASETS_OFFLINE", "datasets", "no downloads of datasets", "不下载数据集", DATASETS, alike="job"),
    Variable(
        "HF_HUB_ENABLE_HF_TRANSFER",
        "huggingface_hub",
        "hf_transfer is not used any more",
        "hf_transfer 已不再使用",
        HUB_SOURCE,
        "dead",
        "HF_XET_HIGH_PERFORMANCE",
        "HF_XET_HIGH_PERFORMANCE",
        until="1.0",
    ),
    Variable(
        "TRANSFORMERS_CACHE",
        "transformers",
        "transformers 5 does not read it",
        "transformers 5 不再读取",
        "https://github.com/huggingface/transformers/blob/main/src/transformers/utils/hub.py",
        "dead",
        "HF_HOME or HF_HUB_CACHE",
        "HF_HOME 或 HF_HUB_CACHE",
        until="5.0",
    ),
    Variable(
        "TRANSFORMERS_OFFLINE",
        "huggingface_hub",
        "the old name of HF_HUB_OFFLINE",
        "HF_HUB_OFFLINE 的旧名",
        HUB_SOURCE,
        "old name",
        "HF_HUB_OFFLINE",
        "HF_HUB_OFFLINE",
        "job",
    ),
    Variable(
        "HUGGINGFACE_HUB_CACHE",
        "huggingface_hub",
        "the old name of HF_HUB_CACHE",
        "HF_HUB_CACHE 的旧名",
        HUB_SOURCE,
        "old name",
        "HF_HUB_CACHE",
        "HF_HUB_CACHE",
    ),
    _row("HF_*", "Hugging Face", "a setting of Hugging Face's libraries", "Hugging Face 库的设置", HUB),
    _row(
        "TRANSFORMERS_*",
        "transformers",
        "a setting of transformers",
        "transformers 的设置",
        "https://huggingface.co/docs/transformers/installation",
    ),
    # --- other networks and libraries
    _row("UCX_*", "UCX", "a setting of UCX", "UCX 的设置", UCX),
    _row("UCC_*", "UCC", "a setting of UCC", "UCC 的设置", "https://github.com/openucx/ucc"),
    _row(
        "FI_*",
        "libfabric",
        "a setting of libfabric, which NCCL's plugin for EFA uses",
        "libfabric 的设置（EFA 插件使用）",
        EFA,
    ),
    _row("OFI_NCCL_*", "aws-ofi-nccl", "a setting of NCCL's plugin for EFA", "NCCL EFA 插件的设置", EFA),
    _row(
        "NCCL_FASTRAK_*",
        "NCCL plugin of Google Cloud",
        "a setting of NCCL's plugin for Google Cloud",
        "Google Cloud NCCL 插件的设置",
        GOOGLE,
    ),
    _row(
        "NCCL_GPUDIRECTTCPX_*",
        "NCCL plugin of Google Cloud",
        "a setting of NCCL's plugin for Google Cloud",
        "Google Cloud NCCL 插件的设置",
        GOOGLE,
    ),
    _row(
        "NCCL_IBEXT_DISABLE",
        "NCCL plugin of HPC-X",
        "leaves NVIDIA's RDMA plugin unused",
        "禁用 HPC-X 的 RDMA 插件",
        "https://github.com/Mellanox/nccl-rdma-sharp-plugins",
        alike="job",
    ),
    _row(
        "RCCL_*",
        "RCCL",
        "a setting of AMD's NCCL",
        "AMD RCCL 的设置",
        "https://github.com/ROCm/rccl",
    ),
    _row(
        "NVTE_*",
        "Transformer Engine",
        "a setting of Transformer Engine",
        "Transformer Engine 的设置",
        "https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/envvars.html",
    ),
    _row(
        "VLLM_*", "vLLM", "a setting of vLLM", "vLLM 的设置", "https://docs.vllm.ai/en/latest/configuration/env_vars/"
    ),
    _row("TRITON_*", "Triton", "a setting of Triton", "Triton 的设置", "https://triton-lang.org/main/"),
    _row("XLA_*", "XLA", "a setting of XLA", "XLA 的设置", "https://docs.pytorch.org/xla/"),
    *(
        _row(
            name,
            "requests, curl",
            "a proxy for HTTP; rank to rank connections do not use it",
            "HTTP 代理；rank 间连接不使用",
            CURL,
        )
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy", "NO_PROXY")
    ),
)
