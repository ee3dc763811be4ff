# Convolver's tasks. Everything happens in .venv/; `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SOURCES := pyproject.toml setup.py $(wildcard csrc/*/*.[chS] csrc/*/*/*.[ch] csrc/*/*.py probes/*.[ch] probes/*.py probes/*/*.[ch] convolver/_native/build_core.py)

unexport PYTHONDONTWRITEBYTECODE # or each start of the tests compiles them anew, 20 seconds for each worker

.DEFAULT_GOAL := help
.PHONY: help setup run test test-all fuzz bench validate docs docs-html docs-man docs-outputs tables clean
.PHONY: lint lint-style lint-types lint-prose

help: ## List the tasks
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 16

$(STAMP): $(SOURCES)
	@sh tools/need.sh
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip
	$(BIN)/python -m pip install -q -e . --group dev
	$(BIN)/python -m compileall -q convolver # or each start compiles, where Python is told to write no bytecode
	touch $@

setup: $(STAMP) ## Build everything into .venv/

run: $(STAMP) ## Predict two real programs on three machines, end to end (artifacts in run/)
	$(BIN)/python tools/run_demo.py

test: $(STAMP) ## Run the tests, without the slow ones (9 minutes on two cores that others share)
	$(BIN)/python -m pytest -m "not slow" --hypothesis-profile=quick

test-all: $(STAMP) ## Run all tests
	$(BIN)/python -m pytest --durations=25

fuzz: $(STAMP) ## Feed mutated files to every reader and, with clang, to the C parsers (MINUTES=5 each); findings stay in run/fuzz/
	$(BIN)/python -m tests.robust.fuzz_readers --minutes $(or $(MINUTES),5)
	$(BIN)/python -m tests.robust.fuzz_core --minutes $(or $(MINUTES),5)

bench: $(STAMP) ## Measure slowdowns and throughput beside the packaged peers (minutes; a quiet machine)
	$(BIN)/python tests/bench/tracer_slowdown.py
	$(BIN)/python tests/bench/simulator_speed.py
	$(BIN)/python tests/bench/paths_cost.py

validate: $(STAMP) ## Compare predicted with measured times of real programs (quick selection; ARGS=--full for all traces, too)
	@sh tests/bench/campaign_packages.sh
	$(BIN)/python -m convolver validate tests/bench/campaign.toml --quick --fresh -o run/validate $(ARGS)

docs: docs-html docs-man ## Build the pages and the manual page in build/docs/ (warnings are errors)

docs-html docs-man: docs-%: $(STAMP)
	$(BIN)/sphinx-build -q -W --keep-going -b $* docs build/docs/$*

docs-outputs: $(STAMP) ## Run the commands of the pages (minutes; a quiet machine) and write what they print into them (PAGES=cli/info.md, FRESH=1)
	$(BIN)/python tools/docs_outputs.py $(if $(FRESH),--fresh) $(PAGES)

tables: $(STAMP) ## Write the measured figures and pictures of the pages from benchmarks/results/
	$(BIN)/python tools/result_tables.py
	$(BIN)/python tools/result_pictures.py

lint: lint-style lint-types lint-prose ## Check style, types, prose and the pages' figures

lint-style: $(STAMP)
	$(BIN)/clang-format --dry-run -Werror $$(find csrc probes tests examples -name '*.[ch]' -o -name '*.cpp')
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint-types: $(STAMP)
	$(BIN)/mypy

lint-prose: $(STAMP)
	$(BIN)/python tools/prose.py
	$(BIN)/python tools/result_tables.py --check

clean: ## Remove everything that was built
	rm -rf $(VENV) build dist run *.egg-info convolver/_native/_core.* convolver/_native/*.so
	find convolver/_programs -mindepth 1 ! -name __init__.py -delete
