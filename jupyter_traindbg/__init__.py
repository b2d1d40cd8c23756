"""jupyter_traindbg: attach from a notebook to a training job that is already running."""
