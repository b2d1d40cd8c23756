"""Nothing is wrong: transformers' own Trainer, unchanged, data parallel."""

from parts import Run
from trainers import Tokens, Trainer, TrainerCallback, arguments, language_model

EXPECTED = {"code": None, "state": ("healthy",)}


class Ready(TrainerCallback):
    def __init__(self, run):
        self.run = run

    def on_step_end(self, args, state, control, **kwargs):
        self.run.trouble(state.global_step)


def main():
    run = Run(group=False)
    with run.folder() as folder:
        options = arguments(folder, dataloader_num_workers=1)
        Trainer(language_model(), options, train_dataset=Tokens(), callbacks=[Ready(run)]).train()


if __name__ == "__main__":
    main()
