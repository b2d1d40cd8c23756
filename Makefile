# make demo   start a training and open a notebook that attaches to it (HEADLESS=1: run the notebook here and print what it found)
# make test   everything that must hold: ruff, mypy, tsc, all tests, those of the front end and in a real browser among them
# make check  ruff, mypy, tsc and prettier only          make format  let ruff rewrite          make clean  forget the set-up
#
# Each does its own set-up in .venv; the second time that takes no time. Variables:
#   PYTHON         the interpreter that .venv is made from (3.10 or newer)
#   TORCH_INSTALL  what pip is told to install as torch; on a machine without GPU the CPU build is much smaller:
#                  make test TORCH_INSTALL="torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
#   ARGS           words for pytest: make test ARGS="-k layering -x"; without them the tests run in two lanes side by side (scripts/test)

SHELL := /bin/bash
PYTHON ?= python3
TORCH_INSTALL ?= torch==2.13.0
HEADLESS ?=
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
INPUTS := pyproject.toml hatch_build.py jupyter_traindbg/native/boot.c jupyter_traindbg/_version.py scripts/setup scripts/frontend

export PYTHON TORCH_INSTALL

.PHONY: demo test check format clean
.DEFAULT_GOAL := test

demo: $(VENV)/.ready-demo
	@scripts/frontend --link || true
	$(BIN)/python scripts/demo.py $(if $(filter-out 0,$(HEADLESS)),--headless)

test: $(VENV)/.ready-test check
	scripts/frontend --npm test --silent
	scripts/test $(ARGS)

check: $(VENV)/.ready-demo
	scripts/check
	scripts/frontend --npm run --silent check

format: $(VENV)/.ready-demo
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .venv-ipykernel6 .demo .mypy_cache .ruff_cache .pytest_cache labextension/node_modules labextension/lib labextension/build

$(VENV)/.ready-demo: $(INPUTS)
	scripts/setup demo

$(VENV)/.ready-test: $(VENV)/.ready-demo
	scripts/setup test
