# make test       what decides, in CI as here: ruff, mypy, tsc, the front end's tests, tests/unit and tests/smoke; twelve minutes on two cores
# make test-all   every test, part by part, each with its time; PART="integration scenes" runs those. PARTs are folders of tests/
# make check      ruff, mypy, tsc and prettier only          make format  let ruff rewrite          make clean  forget the set-up
# make demo       start a training and open a notebook that attaches to it (HEADLESS=1: run the notebook here and print what it found)
#
# Each does its own set-up in .venv; the second time that takes no time. Variables:
#   PYTHON         the interpreter that .venv is made from (3.10 or newer)
#   TORCH_INSTALL  what pip is told to install as torch; on a machine without GPU the CPU build is much smaller:
#                  make test TORCH_INSTALL="torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
#   ARGS           words for one pytest instead of the tiers: make test ARGS="-k layering -x"

SHELL := /bin/bash
PYTHON ?= python3
TORCH_INSTALL ?= torch==2.13.0
HEADLESS ?=
ARGS ?=
PART ?=
VENV := .venv
BIN := $(VENV)/bin
INPUTS := pyproject.toml hatch_build.py jupyter_traindbg/native/boot.c jupyter_traindbg/_version.py scripts/setup scripts/frontend

MESSAGES := $(patsubst %.po,%.mo,$(wildcard jupyter_traindbg/locale/*/LC_MESSAGES/*.po))

export PYTHON TORCH_INSTALL

.PHONY: demo test test-all check format clean
.DEFAULT_GOAL := test

demo: $(VENV)/.ready-demo $(MESSAGES)
	@scripts/frontend --link || true
	$(BIN)/python scripts/demo.py $(if $(filter-out 0,$(HEADLESS)),--headless)

test: $(VENV)/.ready-test $(MESSAGES) check
	scripts/frontend --npm test --silent
	scripts/test $(ARGS)

test-all: $(VENV)/.ready-all $(MESSAGES)
	scripts/test --all $(PART)

check: $(VENV)/.ready-demo
	scripts/check
	scripts/frontend --npm run --silent check

format: $(VENV)/.ready-demo
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .venv-ipykernel6 .demo .mypy_cache .ruff_cache .pytest_cache labextension/node_modules labextension/lib labextension/build

%.mo: %.po | $(VENV)/.ready-demo
	$(BIN)/python -c "import hatch_build; hatch_build.compile_catalogues()"

$(VENV)/.ready-demo: $(INPUTS)
	scripts/setup demo

$(VENV)/.ready-test: $(VENV)/.ready-demo
	scripts/setup test

$(VENV)/.ready-all: $(VENV)/.ready-test
	scripts/setup all
