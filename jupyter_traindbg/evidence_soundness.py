"""From what the probe of soundness answers (plain data) to the dataclasses of `jupyter_traindbg.model`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .frames.whose import frames_of
from .model import FullCollections, NotAvailable, Place, Sampled, Soundness
from .outside import procfs

__all__ = ["full_collections", "soundness"]


def soundness(answer: Mapping[str, Any]) -> Soundness:
    """What the probe alone knows: records, gradients and learning rates are not in it."""
    return Soundness(
        window_s=answer["window_s"],
        steps_in_window=answer["steps"],
        backwards=answer["backwards"],
        sampled=_sampled(answer["sampled"]),
        collections=full_collections(answer["collections"]),
        scaler_steps=answer["scaler_steps"],
        scaler_skipped=answer["scaler_skipped"],
        skipped_in_a_row=answer["skipped_in_a_row"],
        scales=tuple((first, last) for first, last in answer["scales"]),
        losses_of_no_step=tuple(answer["losses_of_no_step"]),
        mapped_growth_bytes=answer["mapped_growth_bytes"],
        left_bytes=answer["left_bytes"],
    )


def _sampled(raw: Mapping[str, Any]) -> Sampled:
    places = (
        Place(
            frames_of(p["frames"]),
            p["looks"],
            p["wall_s"],
            NotAvailable("this kernel keeps no account of it") if p["idle_s"] is None else p["idle_s"],
            "" if p["call"] is None else procfs.call_name(p["call"]),
        )
        for p in raw["stacks"]
    )
    return Sampled(raw["looks"], raw["wall_s"], tuple(places))


def full_collections(raw: Mapping[str, Any]) -> FullCollections:
    """What was collected while somebody looked."""
    places = tuple((frames_of(p["frames"]), p["count"]) for p in raw["places"])
    pauses = tuple((began, took) for began, took in raw["pauses"])
    return FullCollections(raw["count"], raw["pause_s"], raw["longest_s"], places, raw["asked"], pauses)
