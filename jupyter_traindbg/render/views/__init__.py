"""One file per result class, named after it: ``LearningRates`` is shown by ``learning_rates.py``, by its ``view(result)``."""
