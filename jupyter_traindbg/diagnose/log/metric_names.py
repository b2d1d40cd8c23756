"""What a printed metric is, by its name, which every framework writes in its own way. Names are in lower case. Pure."""

from __future__ import annotations

import re

from ...model import UNNAMED_SERIES

__all__ = [
    "RATES",
    "STEPS",
    "is_accuracy",
    "is_evaluation_loss",
    "is_learning_rate",
    "is_loss",
    "is_main_loss",
    "is_reinforced",
    "is_score",
    "of_training",
]

RATES = ("lr", "learning_rate", "learning rate", "lr_0", "lr-adamw")
STEPS = (
    "global_step",
    "global step",
    "step",
    "total_step",
    "iteration",
    "iter",
    "num_updates",
    "training/global_step",
    "total_timesteps",
    "epoch",
)

_MAIN = re.compile(
    r"(?:train(?:ing|er)?[ _/.])?(?:(?:avg|avr|average|mean|running|epoch|total|task|lm|nll|ce|mlm|mle|sft|cross[ _]?entropy)[ _/]?)?"
    r"(?:train(?:ing)?[ _/])?loss(?:[ _/](?:avg|mean|total))?"
)
_LOSS = re.compile(r"(?:^|[\w/ .-])loss(?:_?[a-z\d]{0,12})?$|loss$")
_NO_LOSS = re.compile(
    r"\b(?:e?val(?:id(?:ation)?)?|test|best|dev)(?:[\b_/ .-]|$)|loss[_ ]scal|scale|aux|balanc|router|z_?loss|count|weight|coef"
)
_EVALUATION = re.compile(r"(?:e?val(?:id(?:ation)?)?|dev|test)[ _/.](?:avg[ _])?(?:lm[ _])?loss")
_ACCURACY = re.compile(
    r"(?:(?:train(?:ing)?|val(?:idation)?|eval|test|top[- ]?1)[ _/])?(?:acc(?:uracy)?|acc@1|top[- ]?1)"
)
_SCORE = re.compile(r"(?:^|[/_ .])(?:auc|acc(?:uracy)?\d?|bleu|map|f1)$")
_MEMORY = re.compile(r"memory|(?:^|[ _/])mem(?:$|[ _/])|alloc|reserved|fragmentation|(?:^|[ _/])(?:ram|rss)$")
_REINFORCED = re.compile(
    r"reward|advantage|(?:^|[/_])kl(?:$|[/_])|pg_loss|ppo|policy|(?:^|[/_ ])[dg]_loss|critic|discriminator"
)


def is_learning_rate(name: str) -> bool:
    """``lr``, ``train/learning_rate``."""
    return name.rpartition("/")[2] in RATES


def is_main_loss(name: str) -> bool:
    """Whether it is what the training minimises, or the part of it that is the task: ``loss``, ``lm loss``, ``train/total_loss``."""
    return _MAIN.fullmatch(name) is not None


def is_loss(name: str) -> bool:
    """Whether it is a loss of the training, a part of one too (``loss_bbox``), or a value that is printed alone, as by ``print(loss)``."""
    return name == UNNAMED_SERIES or (_LOSS.search(name) is not None and _NO_LOSS.search(name) is None)


def is_evaluation_loss(name: str) -> bool:
    """``validation loss``, ``eval_loss``."""
    return _EVALUATION.fullmatch(name) is not None


def is_accuracy(name: str) -> bool:
    """``acc``, ``training accuracy``."""
    return _ACCURACY.fullmatch(name) is not None


def is_score(name: str) -> bool:
    """What is higher for a better model: ``acc5``, ``val_auc``, ``bleu``."""
    return _SCORE.search(name) is not None


def is_reinforced(name: str) -> bool:
    """Whether a log that has it is of reinforcement learning or of adversaries, whose losses go up and down for good reasons."""
    return _REINFORCED.search(name) is not None


def of_training(name: str) -> bool:
    """Whether a further value of it shows that the training goes on. How much memory is in use is told of one that has failed, too."""
    return _MEMORY.search(name) is None
