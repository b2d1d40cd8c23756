"""One file per verb; `base` says what a verb is, `ipython` makes magics of them, `jupyter_traindbg.cli` subcommands."""
