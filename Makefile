# Convolver's tasks. Everything happens in .venv/; `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SOURCES := pyproject.toml setup.py $(wildcard csrc/*/*.[ch] csrc/*/*.py probes/*.[ch] probes/*.py probes/kernels/*.[ch] convolver/_native/*.cdef.h convolver/_native/build.py)

.DEFAULT_GOAL := help
.PHONY: help setup run test bench validate lint docs clean

help: ## List the tasks
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  \1\t/' | expand -t 14

$(STAMP): $(SOURCES)
	@sh tools/need.sh
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip
	$(BIN)/python -m pip install -q -e . --group dev
	touch $@

setup: $(STAMP) ## Build everything into .venv/

test: $(STAMP) ## Run the tests
	$(BIN)/python -m pytest

lint: $(STAMP) ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean: ## Remove everything that was built
	rm -rf $(VENV) build dist run *.egg-info convolver/_native/_core.* convolver/_native/*.so
	find convolver/_programs -mindepth 1 ! -name __init__.py -delete
