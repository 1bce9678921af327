# `make` lists the targets. Every target sets itself up: a fresh clone needs Python, pip and make.

SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c '$(SUPPORTED)' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
BROWSER := $(VENV)/.browser
CLUSTER := $(VENV)/.cluster
DOCS := $(VENV)/.docs

# A shell variable with the command that installs into .venv: uv if it is there, or else pip, which takes longer.
PIP = if $(BIN)/python -c 'import uv' 2>/dev/null; then pip="$(BIN)/python -m uv pip install --python $(BIN)/python"; \
	else pip="$(PYTHON) -m pip --python $(BIN)/python install"; fi

# Without bytecode `import jax` costs 2.0 s instead of 0.7 s in every process.
export UV_COMPILE_BYTECODE := 1
# Importing edl and the tests costs 10 s more without bytecode, in every worker of `make test`.
export PYTHONDONTWRITEBYTECODE :=
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help install demo test test-slow test-cluster lint bench reproduce results docs browser lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Create .venv with the package, its pinned dependencies and the development tools

$(INSTALLED): pyproject.toml requirements/dev.txt
	@"$(PYTHON)" -c '$(SUPPORTED)' 2>/dev/null \
		|| { echo "edl needs Python 3.11 to 3.13 (got '$(PYTHON)'). Try: make install PYTHON=/path/to/python3.12" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || $(PYTHON) -m venv --clear --without-pip $(VENV)
	@$(BIN)/python -c 'import uv' 2>/dev/null || $(PYTHON) -m pip --python $(BIN)/python install --quiet uv \
		|| echo "uv cannot be installed; pip is used instead, which takes longer."
	@$(PIP); $$pip --quiet --require-hashes -r requirements/dev.txt && $$pip --quiet --no-deps -e .
	@touch $@

demo: install ## Learn ten skills in a maze and write a report, in about a minute
	@rm -rf runs/demo
	$(BIN)/edl run --env square --num-skills 10 --out runs/demo

test: install $(BROWSER) ## Run the tests, except the slow ones
	$(BIN)/pytest -n 2 --dist worksteal

test-slow: install $(BROWSER) ## Run the slow tests, which take minutes each
	XLA_FLAGS= $(BIN)/pytest -m slow

test-cluster: $(CLUSTER) ## Run the tests that kill workers, nodes and drivers (about half an hour on two cores)
	$(BIN)/pytest -m cluster -s tests/cluster

# Ray and Optuna, beside the development tools.
$(CLUSTER): requirements/cluster.txt | $(INSTALLED)
	@$(PIP); $$pip --quiet --require-hashes -r $<
	@touch $@

lint: install ## Check style, types, and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports --cache-dir .cache/import_linter

bench: install ## Measure speed, next to other libraries if they are installed
	$(BIN)/edl bench

reproduce: install ## Reproduce every figure of the paper (hours on two cores, minutes on a large GPU)
	$(BIN)/edl reproduce all

results: install ## Measure every table and paper figure again, and draw the pictures of tables (hours on a large GPU; finished rows are kept)
	$(BIN)/edl tables all --num-seeds 10
	$(BIN)/edl tables robots robot_tasks robot_envs --num-seeds 4
	$(BIN)/edl reproduce all --num-seeds 10
	$(BIN)/edl reproduce all --num-seeds 10 --preset paper
	$(BIN)/python benchmarks/methods.py
	$(BIN)/python benchmarks/robots.py --env ant
	$(BIN)/python benchmarks/explorers.py
	$(BIN)/python benchmarks/downstream.py

docs: install $(DOCS) ## Write docs/settings.md, and the documentation site to build/site; links are checked
	$(BIN)/python docs/generate_settings.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html"

$(DOCS): requirements/docs.txt | $(INSTALLED)
	@$(PIP); $$pip --quiet --require-hashes -r $<
	@touch $@

browser: install ## Find or install a Chromium for the tests of report.html
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
		command -v $$name >/dev/null && exit 0; done; \
	echo "No Chromium found. Installing one for the tests of report.html."; \
	{ test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq \
		&& DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium >/dev/null; } \
	|| $(BIN)/playwright install chromium >/dev/null 2>&1 \
	|| echo "Chromium cannot be installed. The tests of report.html will be skipped."

# The installation is tried once, not before every test run.
$(BROWSER): | $(INSTALLED)
	@$(MAKE) --no-print-directory browser
	@touch $@

COMPILE := $(BIN)/python -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(UPGRADE) pyproject.toml

lock: install ## Pin the dependencies again (UPGRADE=--upgrade for the newest versions)
	$(COMPILE) -o requirements/core.txt
	$(COMPILE) --extra dev --constraints requirements/core.txt -o requirements/dev.txt
	$(COMPILE) --extra dev --extra ray --extra tune --constraints requirements/dev.txt -o requirements/cluster.txt
	$(COMPILE) --extra docs --constraints requirements/dev.txt -o requirements/docs.txt

clean: ## Delete everything that make created, except runs
	rm -rf $(VENV) .cache build dist .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
