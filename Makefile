# make demo   start a training and open a notebook that attaches to it (HEADLESS=1: run the notebook here and print what it found)
# make test   everything that must hold: ruff, mypy, all tests
# make check  ruff and mypy only          make format  let ruff rewrite          make clean  forget the set-up
#
# Each does its own set-up in .venv; the second time that takes no time. Variables:
#   PYTHON         the interpreter that .venv is made from (3.10 or newer)
#   TORCH_INSTALL  what pip is told to install as torch; on a machine without GPU the CPU build is much smaller:
#                  make test TORCH_INSTALL="torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
#   ARGS           more words for pytest: make test ARGS="-k layering -x"

SHELL := /bin/bash
PYTHON ?= python3
TORCH_INSTALL ?= torch==2.13.0
HEADLESS ?=
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
INPUTS := pyproject.toml hatch_build.py jupyter_traindbg/native/boot.c jupyter_traindbg/_version.py scripts/setup

export PYTHON TORCH_INSTALL

.PHONY: demo test check format clean
.DEFAULT_GOAL := test

demo: $(VENV)/.ready-demo
	$(BIN)/python scripts/demo.py $(if $(filter-out 0,$(HEADLESS)),--headless)

test: $(VENV)/.ready-test check
	$(BIN)/python -m pytest $(ARGS)

check: $(VENV)/.ready-demo
	scripts/check

format: $(VENV)/.ready-demo
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .venv-ipykernel6 .demo .mypy_cache .ruff_cache .pytest_cache

$(VENV)/.ready-demo: $(INPUTS)
	scripts/setup demo

$(VENV)/.ready-test: $(VENV)/.ready-demo
	scripts/setup test
