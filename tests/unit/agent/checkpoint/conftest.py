"""A checkpoint of this very process, stage by stage as a client would ask for it."""

from checkpointing import client, gate  # noqa: F401 - fixtures
