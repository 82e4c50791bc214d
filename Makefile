# make demo   train four memories on real text and carry one to another process
# make test   the tests, but for a few that wait for Ray clusters most of the time
# make slow   these
# make lint   style and types
# Everything is installed into .venv first, if it is not yet.

PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
READY := $(VENV)/ready

.PHONY: demo test slow lint install clean

demo: $(READY)
	$(VENV)/bin/fourfold demo

test: $(READY)
	$(VENV)/bin/pytest -n $(WORKERS) -m 'not slow'

slow: $(READY)
	$(VENV)/bin/pytest -m slow

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

install: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "fourfold needs Python 3.10 or newer; say which with make PYTHON=python3.x"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
