"""Checkpoints written from within the training process."""
