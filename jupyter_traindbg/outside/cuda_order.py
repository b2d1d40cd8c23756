"""Which GPU a job calls 0: what CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER make of the devices of a machine. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jupyter_traindbg.language import text
from jupyter_traindbg.model import Device, available

__all__ = ["cuda_indices"]


def cuda_indices(devices: Sequence[Device], visible: str | None, order: str | None) -> tuple[dict[int, int], list[str]]:
    """``{position in devices: the job's CUDA index}``, and notes.

    `visible` and `order` are the job's CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER (None: not set). A device whose index
    cannot be known for sure is left out, and a note says why.
    """
    gpus = [i for i, device in enumerate(devices) if device.mig_parent is None]
    names = {devices[i].name for i in gpus}
    mig = any(device.mig_parent is not None for device in devices)
    unsure = None
    if mig:
        unsure = text(
            "MIG is on: without MIG UUIDs in CUDA_VISIBLE_DEVICES, which instance CUDA takes is not known here"
        )
    elif len(gpus) > 1 and order != "PCI_BUS_ID" and (len(names) > 1 or not all(map(available, names))):
        unsure = text("the GPUs differ and CUDA_DEVICE_ORDER is not PCI_BUS_ID: CUDA's own order is not known here")
    if visible is None:
        return ({}, [unsure]) if unsure else (dict(zip(gpus, range(len(gpus)), strict=True)), [])
    if not visible.strip():
        return {}, [text("CUDA_VISIBLE_DEVICES is empty: the job sees no GPU")]
    chosen: dict[int, int] = {}
    for cuda_index, word in enumerate(word.strip() for word in visible.split(",")):
        by_index, position = _position(devices, gpus, word)
        if position is None:
            known = not word.startswith("MIG-GPU-")  # the name that drivers before 470 gave; newer ones take it too
            ignored = text("CUDA ignores CUDA_VISIBLE_DEVICES={visible!r} from {word!r} on", visible=visible, word=word)
            odd = text(
                "it is not known here what CUDA makes of CUDA_VISIBLE_DEVICES={visible!r} from {word!r} on",
                visible=visible,
                word=word,
            )
            return chosen, [ignored if known else odd]
        if position in chosen:
            return {}, [
                text("CUDA_VISIBLE_DEVICES={visible!r} names a GPU twice: CUDA then shows none", visible=visible)
            ]
        if by_index and unsure:
            return {}, [unsure]
        chosen[position] = cuda_index
        if devices[position].mig_parent is not None:
            break  # a process sees one MIG instance, and nothing else beside it
    return chosen, []


def _position(devices: Sequence[Device], gpus: Sequence[int], word: str) -> tuple[bool, int | None]:
    """Is `word` an index (what follows its digits does not count), and which device does it mean, if any?

    A UUID may be cut short as long as it fits one device only.
    """
    if number := re.match(r"[+-]?\d+", word):
        index = int(number[0])
        return True, gpus[index] if 0 <= index < len(gpus) else None
    named = [i for i, device in enumerate(devices) if device.uuid.startswith(word)]
    return False, named[0] if word.startswith(("GPU-", "MIG-")) and len(named) == 1 else None
