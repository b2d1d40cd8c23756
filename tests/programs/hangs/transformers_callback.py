"""transformers' own Trainer, unchanged; a callback synchronises, but only on rank 0. The others are in the next step's backward."""

import torch.distributed as dist
from parts import Run
from trainers import Tokens, Trainer, TrainerCallback, arguments, language_model

EXPECTED = {
    "code": ("collective_mismatch", "collective_not_issued"),
    "ranks": [0],
    "where": "on_step_end",
    "doubt": True,
}


class Publish(TrainerCallback):
    def __init__(self, run):
        self.run = run

    def on_step_end(self, args, state, control, **kwargs):
        self.run.trouble(state.global_step)
        if state.is_world_process_zero and state.global_step == self.run.step:
            dist.barrier()  # HERE


def main():
    run = Run(culprit=0, group=False)
    with run.folder() as folder:
        trainer = Trainer(language_model(), arguments(folder), train_dataset=Tokens(), callbacks=[Publish(run)])
        trainer.train()


if __name__ == "__main__":
    main()
