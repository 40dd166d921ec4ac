# `make demo` and `make test` need Python 3.11 or newer and make, nothing else.

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
PROCESSES ?= auto
SEEDS ?= 1000
DEEP_SEEDS ?= 10000
FIRST ?= 0

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST := $(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist worksteal
RUN := $(VENV)/.installed-run
DEV := $(VENV)/.installed-dev
INSTALL_FROM := pyproject.toml constraints.txt Makefile

ifeq ($(STORE),postgres)
SERVER := $(BIN)/python -m eventjobs.testing.with_postgres$(EMPTY) $(EMPTY)
endif

.PHONY: help demo test deep lint simulate spec bench openapi constraints clean

help: ## Say what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST)

demo: $(if $(STORE),$(DEV),$(RUN)) ## Run real jobs with faults, and audit the log; with STORE=postgres on two coordinators
	$(SERVER)$(BIN)/eventjobs demo$(if $(STORE), --store '$(if $(SERVER),{},$(STORE))')

# Tests start hundreds of processes: what one has compiled the others find, wherever bytecode is usually unwanted.
test deep: export PYTHONDONTWRITEBYTECODE :=
test: $(DEV) ## Run the whole test suite; PROCESSES=0 in one process, for a debugger
	$(PYTEST) $(PYTEST_ARGS)

deep: export EVENTJOBS_PROFILE := deep
deep: $(DEV) ## Try hardest to break every guarantee, for hours: the model, all tests in the profile deep, many seeds
	@failed=; \
	$(PYTHON) specs/model/run.py || failed="$$failed model"; \
	$(PYTEST) $(PYTEST_ARGS) || failed="$$failed tests"; \
	$(BIN)/python -m eventjobs.testing.simulation --seeds $(DEEP_SEEDS) --first $(FIRST) || failed="$$failed simulation"; \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

lint: $(DEV) ## Check the code's form
	$(BIN)/python -m ruff check .

simulate: $(RUN) ## Run many seeds of the simulation: make simulate SEEDS=10000 FIRST=0
	$(BIN)/python -m eventjobs.testing.simulation --seeds $(SEEDS) --first $(FIRST)

spec: ## Check the formal model with spin, where it is installed
	$(PYTHON) specs/model/run.py

bench: $(RUN) ## Measure speed on this machine
	$(BIN)/eventjobs bench

openapi: $(DEV) ## Write eventjobs/api/openapi.json anew from specs/openapi.yaml
	$(BIN)/python specs/openapi_json.py

constraints: ## Write constraints.txt anew with the newest versions that pyproject.toml allows
	rm -rf build/constraints
	$(PYTHON) -m venv build/constraints
	build/constraints/bin/python -m pip --disable-pip-version-check --quiet install '.[test,dev]'
	{ echo '# What development and continuous integration use, exactly. Written by `make constraints`.'; \
	  build/constraints/bin/python -m pip freeze --all --exclude eventjobs --exclude pip | LC_ALL=C sort -f; } > constraints.txt

clean: ## Remove what was made
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .eventjobs-demo
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The build backend is installed first, pinned like the rest, and used as it is.
$(RUN): $(INSTALL_FROM)
	@command -v $(PYTHON) >/dev/null || { \
	  echo "make: there is no '$(PYTHON)'; name a Python 3.11 or newer: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: $$($(PYTHON) --version) is too old; name a Python 3.11 or newer: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "make: $(PYTHON) cannot create environments; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt setuptools
	$(PIP) install -c constraints.txt --no-build-isolation -e .
	@touch $@

$(DEV): $(RUN)
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[test,dev]'
	@touch $@
