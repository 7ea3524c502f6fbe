# Needs only make and Python 3.11 or newer. Everything else goes into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --no-input --disable-pip-version-check

# Options for the command that runs: make test ARGS="-k lease", make demo ARGS=--once
ARGS ?=

.DELETE_ON_ERROR:
.PHONY: demo test lint bench clean

demo: $(VENV)/.demo
	@$(BIN)/python -m django_example demo $(ARGS)

test: $(VENV)/.test
	@$(BIN)/python -m pytest $(ARGS)

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict celery_lease

bench: $(VENV)/.test
	@set -e; for script in $(filter-out %__init__.py %_app.py,$(wildcard benchmarks/*.py)); do \
		echo "$$script"; PYTHONPATH=. $(BIN)/python "$$script" $(ARGS); done

clean:
	rm -rf $(VENV) .tox build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

# A stamp per extra: repeated runs install nothing until pyproject.toml changes.
$(VENV)/.demo $(VENV)/.test $(VENV)/.lint: $(VENV)/.%: pyproject.toml $(VENV)/.created
	@echo "Installing celery-lease[$*] into $(VENV) (a minute or two, once) ..."
	@$(INSTALL) --editable '.[$*]'
	@touch $@

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "celery-lease needs Python 3.11 or newer, found: $$($(PYTHON) --version 2>&1)." \
			"Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "Creating $(VENV) with $$($(PYTHON) --version) ..."
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@
