# Everything starts from a bare checkout: a target makes what it needs and nothing more. `make help` lists them.
.DEFAULT_GOAL := help

# PYTHON: the interpreter that makes .venv, 3.11 or newer. ARGS: more arguments for pytest, or for the demo.
PYTHON ?= $(shell for python in python3.11 python3; do \
  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
ARGS ?=

python = $(or $(PYTHON),$(error Python 3.11 or newer is needed, and neither python3.11 nor python3 on PATH is it. \
  Install it, or name it: make PYTHON=/path/to/python3.11))

VENV := .venv
BIN := $(VENV)/bin
# Named by what the environment is made from, so that it is there exactly when there is nothing to do.
STAMP := $(VENV)/.setup-$(shell cat requirements.lock pyproject.toml | sha256sum | cut -c 1-16)
PIP_COMPILE := $(BIN)/pip-compile --quiet --allow-unsafe --generate-hashes --no-emit-find-links --no-emit-index-url \
  --strip-extras

CRD := crds/sharedtables.deltamirror.io.yaml
HELM = "$$($(python) toolchain/tools.py path helm)"

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z][a-z0-9-]*:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Set-up

.PHONY: setup
setup: $(STAMP) ## Make .venv from requirements.lock, with .venv/bin/deltamirror

$(STAMP):
	@$(python) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: Python 3.11 or newer is needed, and $(PYTHON) is not it: make PYTHON=..." >&2; exit 1; }
	@echo "setup: making $(VENV) from requirements.lock; a minute or two the first time ..."
	@flock requirements.lock sh -eu -c ' \
	  if test -e $(STAMP); then exit; fi; \
	  rm -f $(VENV)/.setup-*; \
	  $(python) -m venv $(VENV); \
	  pip="$(BIN)/python -m pip --disable-pip-version-check --quiet"; \
	  $$pip install --require-hashes -r requirements.lock; \
	  $$pip install --no-deps --no-build-isolation -e .; \
	  touch $(STAMP)'

.PHONY: tools
tools: ## Install the servers and jars of the tests into a cache outside the checkout (needs Java, Maven, Go)
	@$(python) toolchain/tools.py install

.PHONY: lock
lock: setup ## Resolve the dependencies anew: requirements.lock and toolchain/official-client.lock
	$(PIP_COMPILE) --upgrade --all-extras --output-file=requirements.lock pyproject.toml
	cd toolchain && ../$(PIP_COMPILE) --upgrade --output-file=official-client.lock official-client.in

.PHONY: clean
clean: ## Remove .venv and what the tools leave in the checkout; the cache of `make tools` stays
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

##@ Use

.PHONY: demo
demo: setup ## Run the main job on embedded parts: no cluster, no Go, minutes (needs Java, Maven)
	@$(python) toolchain/tools.py install spark-jars
	@$(BIN)/python examples/demo/demo.py $(ARGS)

##@ Generate

.PHONY: crds
crds: setup ## Render the CustomResourceDefinition from the models, and copy it into the chart
	@mkdir -p crds charts/deltamirror/files/crds
	@$(BIN)/python -m deltamirror.api.crd > $(CRD).new && mv $(CRD).new $(CRD)
	@cp $(CRD) charts/deltamirror/files/crds/

.PHONY: chart
chart: crds ## Bring the Helm chart up to date, and check it (needs Go the first time)
	@$(python) toolchain/tools.py install helm
	@$(HELM) lint --strict --quiet charts/deltamirror
	@$(HELM) template deltamirror charts/deltamirror > /dev/null

##@ Check

.PHONY: test
test: setup tools lint ## Everything: lint, types, all tests on real servers
	$(BIN)/pytest $(ARGS)

.PHONY: test-fast
test-fast: setup ## The unit tests: seconds, no servers, no JVM
	$(BIN)/pytest tests/unit $(ARGS)

.PHONY: lint
lint: setup ## Style, types, and who may import whom
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
