# Two commands matter: `make demo` and `make test`. Both set up .venv by themselves, once.

PYTHON ?= python3
VENV ?= .venv
# Which torch to take when .venv has none: a requirement, or the path of a wheel.
TORCH ?= torch==2.13.0
# Folder with the real data sets. Tests that need them are left out when this is not set.
GATEWISE_DATA ?=
# A program that lays the data sets out under the folder it is given; without one, lay them out yourself.
DATA_TOOL ?= $(wildcard ../shared/tools/unpack-data)
# Test processes, each with one torch thread.
JOBS ?= 2
PYTEST_ARGS ?=
# Python for `make bench`. One that has the peers compares with them (benchmarks/ntk_methods.py says how to make one).
PEERS ?= $(VENV)/bin/python

BIN := $(VENV)/bin
CORE := $(VENV)/.core-ready
DEV := $(VENV)/.dev-ready
DOCS := $(VENV)/.docs-ready
DATA := $(if $(GATEWISE_DATA),$(if $(DATA_TOOL),$(GATEWISE_DATA)/.laid-out))
SOURCES := src laboratory tests conftest.py benchmarks tools
CHECKS := tests/test_architecture.py tests/test_form.py tests/test_docstrings.py tests/test_public_names.py tests/test_docs_run.py
export GATEWISE_DATA
export PYRIGHT_PYTHON_IGNORE_WARNINGS = 1
# Python keeps compiled modules. Otherwise every process that a test starts compiles all sources again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-papers test-full check format errors bench surgery-table real real-smallest docs notebooks dist data clean
.DELETE_ON_ERROR:

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 20

demo: $(CORE) ## compare seven units with ReLU on short signals (5 minutes on two cores); write demo/report.html and demo/units.html
	$(BIN)/gatewise list units
	@mkdir -p demo
	$(BIN)/gatewise compare demo --workers 2 --out demo/study
	$(BIN)/gatewise report demo/study --out demo/report.html
	$(BIN)/gatewise list units --page demo/units.html
	@echo "Wrote demo/report.html: which activations differ from ReLU, by how much, with intervals and curves over the learning rate."
	@echo "Wrote demo/units.html: formula, curve, derivative, facts and measured error of every unit."
	@echo "Open both files in a browser. They work offline."

# Without the files that `make check` runs.
test: $(DEV) $(DATA) ## run the tests that a change needs: every part, about 6 minutes on two cores
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) $(addprefix --ignore=,$(CHECKS)) $(PYTEST_ARGS)

test-papers: $(DEV) $(DATA) ## run the tests of gatewise_papers alone
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) laboratory/tests $(PYTEST_ARGS)

test-full: export GATEWISE_FULL = 1
test-full: test ## run all tests, the slow ones too (hours)

check: $(DEV) $(DATA) ## formatting, lint, types, architecture, form, docstrings, public names, examples in the docs
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/pyright
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(JOBS) $(CHECKS)

format: $(DEV) ## format the sources, and fix what ruff can fix
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

errors: $(CORE) ## measure every unit and write docs/errors.md again
	@mkdir -p docs
	$(BIN)/python tools/measure_unit_errors.py docs/errors.md

bench: $(CORE) ## measure units against their targets, then the peers that PEERS has (minutes; exit 1 if a target is missed)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/units.py; missed=$$?; \
	for each in orthogonal ntk path_kernel partition reconstruct; do OMP_NUM_THREADS=1 $(PEERS) benchmarks/$$each.py || exit 1; done; \
	if command -v chromium chromium-browser google-chrome >/dev/null; then $(BIN)/python benchmarks/explorer.py || exit 1; fi; \
	exit $$missed


surgery-table: $(DEV) ## try surgery on 72 networks and write docs/surgery_models.md again (minutes)
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m surgery.zoo_rows docs/surgery_models.md

# Weights are fetched once into a cache outside the repository (GATEWISE_REAL, else the user's cache folder).
# MODELS names rows, in quotes: make real MODELS='"CREPE tiny" MiniLM-L6'.
MODELS ?=
REAL := OMP_NUM_THREADS=1 PYTHONPATH=tools $(BIN)/python -m real_models

real: $(DEV) ## run the library on real models and write docs/real_models.md again (an hour; 0.6 GB are fetched once)
	$(REAL) run $(MODELS)
	$(REAL) calls

real-smallest: $(DEV) ## fetch the three smallest real models, which tests read (90 MB, once)
	$(REAL) fetch smallest

docs: $(DOCS) ## build the documentation site in site/: strict, every link checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

notebooks: $(DEV) ## run the tutorials and write their outputs again (a minute)
	OMP_NUM_THREADS=1 $(BIN)/python tools/docs_notebooks.py docs/tutorials/*.ipynb

dist: $(DEV) ## build wheel and sdist in dist/, and try both from an empty folder
	sh tools/make-dist $(BIN)/python dist

data: $(DATA) ## lay the real data sets out under GATEWISE_DATA
	@test -n "$(GATEWISE_DATA)" || { echo "Say where: make data GATEWISE_DATA=folder"; exit 2; }
	@test -n "$(DATA_TOOL)" || { echo "Say with what: make data DATA_TOOL=program (see CONTRIBUTING.md)"; exit 2; }

clean: ## remove what the commands above wrote, but not .venv
	rm -rf demo build dist site src/*.egg-info laboratory/*.egg-info .pytest_cache .ruff_cache .hypothesis
	find src tests laboratory -name __pycache__ -type d -prune -exec rm -rf {} +

$(CORE): pyproject.toml laboratory/pyproject.toml constraints.txt
	@tools/set-up core "$(VENV)" "$(PYTHON)" "$(TORCH)"
	@touch $@

$(DEV): $(CORE)
	@tools/set-up dev "$(VENV)" "$(PYTHON)" "$(TORCH)"
	@touch $@

$(DOCS): $(DEV)
	@tools/set-up docs "$(VENV)" "$(PYTHON)" "$(TORCH)"
	@touch $@

ifneq ($(DATA),)
$(DATA): $(DATA_TOOL)
	@mkdir -p $(@D)
	$(DATA_TOOL) $(@D)
	@touch $@
endif
