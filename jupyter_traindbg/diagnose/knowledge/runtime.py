"""CUDA, OpenMP, Python, Hugging Face and the rest that a training process reads."""

from __future__ import annotations

from .variable import Variable

__all__ = ["ROWS"]

CUDA = "https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html"
GOMP = "https://gcc.gnu.org/onlinedocs/libgomp/Environment-Variables.html"
KMP = "https://github.com/llvm/llvm-project/blob/main/openmp/runtime/src/kmp_settings.cpp"
MKL = "https://www.intel.com/content/www/us/en/docs/onemkl/developer-guide-windows/2023-1/onemkl-specific-env-vars-for-openmp-thread-ctrl.html"
"""The same variables on all systems; of this guide the page was seen."""
TORCH = "https://docs.pytorch.org/docs/stable/cuda_environment_variables.html"
PYTHON = "https://docs.python.org/3/using/cmdline.html#environment-variables"
HUB = "https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables"
HUB_SOURCE = "https://github.com/huggingface/huggingface_hub/blob/main/src/huggingface_hub/constants.py"
UCX = "https://openucx.readthedocs.io/en/master/faq.html"
EFA = "https://github.com/aws/aws-ofi-nccl/blob/master/doc/efa-env-var.md"
OFI = "https://github.com/aws/aws-ofi-nccl/blob/master/include/nccl_ofi_param.h"
GOOGLE = "https://github.com/GoogleCloudPlatform/container-engine-accelerators/tree/master/"
HPCX = "https://github.com/Mellanox/nccl-rdma-sharp-plugins/blob/master/src/"
LOADER = "https://man7.org/linux/man-pages/man8/ld.so.8.html"
PROXIES = "https://requests.readthedocs.io/en/latest/user/advanced/#proxies"


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
        "the workspace; :4096:8 or :16:8 make results with several streams reproducible",
        "工作区；多个流时 :4096:8 或 :16:8 使结果可复现",
        TORCH,
        alike="job",
    ),
    _row("CUDNN_*", "cuDNN", "a setting of cuDNN", "cuDNN 的设置", TORCH),
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
        TORCH,
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
        "https://github.com/llvm/llvm-project/blob/main/openmp/runtime/src/i18n/en_US.txt",
    ),
    _row("KMP_*", "Intel OpenMP", "a setting of Intel's OpenMP", "Intel OpenMP 的设置", KMP),
    _row(
        "MKL_NUM_THREADS",
        "MKL",
        "threads of MKL; it counts before OMP_NUM_THREADS",
        "MKL 线程数；优先于 OMP_NUM_THREADS",
        MKL,
        values=r"\d+",
    ),
    _row("MKL_*", "MKL", "a setting of MKL", "MKL 的设置", MKL),
    _row(
        "OPENBLAS_NUM_THREADS",
        "OpenBLAS",
        "threads of OpenBLAS (NumPy); it counts before OMP_NUM_THREADS, unless OpenBLAS was built with OpenMP",
        "OpenBLAS 线程数；优先于 OMP_NUM_THREADS（OpenMP 版 OpenBLAS 除外）",
        "https://github.com/OpenMathLib/OpenBLAS#setting-the-number-of-threads-using-environment-variables",
        values=r"\d+",
    ),
    _row(
        "NUMEXPR_*",
        "numexpr",
        "a setting of numexpr, such as its threads",
        "numexpr 的设置，如线程数",
        "https://numexpr.readthedocs.io/en/latest/user_guide.html",
    ),
    _row(
        "TOKENIZERS_PARALLELISM",
        "tokenizers",
        "threads within one tokenizer; not set, processes that are forked after its first use go without; true keeps them there, "
        "where they can deadlock",
        "分词器内部线程；未设置时，首次使用后 fork 的进程自动关闭；设为 true 则保留，可能死锁",
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
        "where libraries are looked for, NCCL's plugins too; PyTorch's CUDA wheels look at their own NCCL first, other builds may not",
        "库与 NCCL 插件的搜索路径；PyTorch 的 CUDA wheel 优先用自带 NCCL，其他构建未必",
        "https://github.com/pytorch/pytorch/blob/v2.9.0/.ci/manywheel/build_cuda.sh",
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
        "seconds to wait for the server during a download (10)",
        "下载时等待服务器的秒数（10）",
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
        "https://huggingface.co/docs/datasets/cache",
    ),
    _row(
        "HF_DATASETS_OFFLINE",
        "datasets",
        "no downloads of datasets; within datasets it counts before HF_HUB_OFFLINE",
        "不下载数据集；在 datasets 内优先于 HF_HUB_OFFLINE",
        "https://github.com/huggingface/datasets/blob/main/src/datasets/config.py",
        alike="job",
    ),
    _row(
        "HF_HUB_DISABLE_XET",
        "huggingface_hub",
        "downloads over plain HTTP, without hf_xet",
        "改用普通 HTTP 下载，不用 hf_xet",
        HUB,
    ),
    _row("HF_XET_HIGH_PERFORMANCE", "huggingface_hub", "downloads with all of the machine", "用满带宽与 CPU 下载", HUB),
    Variable(
        "HF_HUB_ENABLE_HF_TRANSFER",
        "huggingface_hub",
        "hf_transfer is not used any more",
        "hf_transfer 已不再使用",
        "https://huggingface.co/docs/huggingface_hub/concepts/migration",
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
        "https://github.com/huggingface/transformers/blob/main/MIGRATION_GUIDE_V5.md",
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
        "https://github.com/huggingface/transformers/blob/main/src/transformers/utils/logging.py",
    ),
    # --- other networks and libraries
    _row("UCX_*", "UCX", "a setting of UCX", "UCX 的设置", UCX),
    _row(
        "UCC_*",
        "UCC",
        "a setting of UCC",
        "UCC 的设置",
        "https://github.com/openucx/ucc/blob/master/docs/user_guide.md",
    ),
    _row(
        "FI_*",
        "libfabric",
        "a setting of libfabric, which NCCL's plugin for EFA uses",
        "libfabric 的设置（EFA 插件使用）",
        EFA,
    ),
    _row("OFI_NCCL_*", "aws-ofi-nccl", "a setting of NCCL's plugin for EFA", "NCCL EFA 插件的设置", OFI),
    _row(
        "RDMAV_FORK_SAFE",
        "rdma-core",
        "can break things on current kernels: the authors of the EFA plugin say not to use it",
        "在新内核上可能出错：EFA 插件作者建议不要设置",
        EFA,
    ),
    _row(
        "NCCL_FASTRAK_*",
        "NCCL plugin of Google Cloud",
        "a setting of NCCL's plugin for Google Cloud",
        "Google Cloud NCCL 插件的设置",
        GOOGLE + "gpudirect-tcpxo",
    ),
    _row(
        "NCCL_SHIMNET_*",
        "NCCL plugin of Google Cloud",
        "a setting of NCCL's plugin for Google Cloud",
        "Google Cloud NCCL 插件的设置",
        GOOGLE + "gpudirect-tcpxo",
    ),
    _row(
        "NCCL_TUNER_CONFIG_*",
        "tuner plugins of NCCL",
        "the file that a tuner plugin reads",
        "NCCL 调优插件的配置文件",
        "https://github.com/NVIDIA/nccl/blob/v2.30.7-1/plugins/tuner/example/README.md",
        alike="any",
    ),
    _row(
        "NCCL_GPUDIRECTTCPX_*",
        "NCCL plugin of Google Cloud",
        "a setting of NCCL's plugin for Google Cloud",
        "Google Cloud NCCL 插件的设置",
        GOOGLE + "gpudirect-tcpx",
    ),
    _row(
        "NCCL_IBEXT_DISABLE",
        "NCCL plugin of HPC-X",
        "leaves NVIDIA's RDMA plugin unused",
        "禁用 HPC-X 的 RDMA 插件",
        HPCX + "ib_plugin.c",
        alike="job",
    ),
    _row(
        "NCCL_SHARP_*",
        "NCCL plugin of HPC-X",
        "a setting of SHARP, InfiniBand's reductions in the switch",
        "InfiniBand 交换机内归约 (SHARP) 的设置",
        HPCX + "sharp_plugin.c",
        alike="job",
    ),
    _row(
        "NCCL_UCX_*",
        "NCCL plugin of HPC-X",
        "a setting of NCCL's network over UCX",
        "NCCL 经 UCX 通信的设置",
        HPCX + "ucx_plugin.c",
        alike="job",
    ),
    _row(
        "TP_SOCKET_IFNAME",
        "PyTorch's RPC",
        "the interface of torch.distributed.rpc",
        "torch.distributed.rpc 使用的网卡",
        "https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/rpc/tensorpipe_agent.cpp",
        alike="host",
    ),
    _row(
        "RCCL_*",
        "RCCL",
        "a setting of AMD's NCCL",
        "AMD RCCL 的设置",
        "https://github.com/ROCm/rccl/tree/develop/src",
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
    _row(
        "TRITON_CACHE_DIR",
        "Triton",
        "where Triton keeps its kernels; on a network disk it can be slow, or hang at the end",
        "Triton 缓存目录；放在网络盘上可能变慢，或退出时卡住",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/ops/transformer/inference/triton/matmul_ext.py",
    ),
    _row(
        "TRITON_*",
        "Triton",
        "a setting of Triton",
        "Triton 的设置",
        "https://github.com/triton-lang/triton/blob/main/python/triton/knobs.py",
    ),
    _row(
        "XLA_*",
        "XLA",
        "a setting of XLA",
        "XLA 的设置",
        "https://github.com/pytorch/xla/blob/master/configuration.yaml",
    ),
    *(
        _row(
            name,
            "requests, httpx",
            "a proxy for HTTP; rank to rank connections do not use it",
            "HTTP 代理；rank 间连接不使用",
            PROXIES,
        )
        for name in (
            "http_proxy",
            "https_proxy",
            "all_proxy",
            "no_proxy",
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "ALL_PROXY",
            "NO_PROXY",
        )
    ),
)
