"""Whole names for the files of frames: py-spy shortens them to what lies within a package, unless it is asked for full ones.

What a frame means is known by the end of its file's name and by whose code it is: ``threading.py`` is Python's, ``torch/...`` an installed
package's. The program's own name comes from the command line. ``…`` stands for the part that nobody told.
"""

from __future__ import annotations

import sys

from ...command_lines import program, words
from .told import ToldFrame, ToldProcess

__all__ = ["completed"]

_NAMES = """
IPython PIL _pytest absl accelerate aiohttp albumentations apex av boto3 botocore bitsandbytes cloudpickle colossalai cupy cv2 datasets
deepspeed diffusers distributed einops etils evaluate fairscale fastapi filelock flash_attn flax fsspec gcsfs google grpc gym gymnasium
httpcore httpx huggingface_hub hydra ignite imageio ipykernel jax jaxlib jinja2 joblib jupyter_client kornia librosa lightning
lightning_fabric llvmlite lmdb matplotlib megatron mlflow mmcv mmengine monai mpi4py msgpack multiprocess nccl nltk numba numpy nvidia
omegaconf onnx onnxruntime openai optimum orjson pandas peft pkg_resources pluggy polars psutil pyarrow pydantic pytest
pytorch_lightning ray regex requests ruamel s3fs s3transfer safetensors scipy sentencepiece sentry_sdk setuptools sglang skimage
sklearn soundfile starlette streaming sympy tensorboard tensorboardX tensorflow tensorstore tiktoken timm tokenizers torch
torch_geometric torchaudio torchdata torchmetrics torchrun torchtitan torchvision tornado tqdm traitlets transformer_engine
transformers triton trl unsloth urllib3 uvicorn uvloop verl vllm wandb webdataset xformers yaml zarr zmq zstandard
"""
_PACKAGES = frozenset(_NAMES.split())
"""What trainings run and nobody here writes, by the name that is imported."""


def completed(process: ToldProcess, frame: ToldFrame, *, outermost: bool) -> ToldFrame:
    """`frame` with as much of its file's name as is known. `outermost`: it began its thread."""
    file = frame.file
    if (
        file.startswith(("/", "<"))
        or not file.endswith((".py", ".pyc"))
        or (len(file) > 2 and file[1:3] in (":\\", ":/"))
    ):
        return frame
    kind, script, _ = program(words(process.command))
    if kind == "script" and (script == file or script.endswith("/" + file)):
        return frame._replace(file=script)
    if outermost and frame.function == "<module>" and file != "runpy.py":
        return frame
    top = file.partition("/")[0].removesuffix(".py")
    if "/" in file and top in _PACKAGES:
        return frame._replace(file=f"…/lib/python{_version(process)}/site-packages/{file}")
    if top in sys.stdlib_module_names:
        return frame._replace(file=f"…/lib/python{_version(process)}/{file}")
    return frame


def _version(process: ToldProcess) -> str:
    """``3.11`` of ``3.11.7``."""
    return ".".join(process.python.split(".")[:2]) or "3"
