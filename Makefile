# Each target is one line over the CLI; `setup` and `dev` make the environment first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup dev serve test test-long lint bench soak clean

setup: $(VENV)/.base
dev: $(VENV)/.dev

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "liveanchor needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "python3 -m venv failed; on Debian: apt-get install python3-venv"; exit 1; }

$(VENV)/.base: pyproject.toml | $(VENV)/bin/python
	@echo "installing liveanchor into $(VENV) ..."
	@$(BIN)/pip install -q --disable-pip-version-check -e . 2> $(VENV)/pip.log || { cat $(VENV)/pip.log; exit 1; }
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	@echo "installing liveanchor with its test tools into $(VENV) ..."
	@$(BIN)/pip install -q --disable-pip-version-check -e '.[dev,musetalk,liveportrait,pocketsphinx]' 2> $(VENV)/pip.log || { cat $(VENV)/pip.log; exit 1; }
	@touch $(VENV)/.base $@

serve: setup
	@$(BIN)/liveanchor serve $(ARGS)

# What only computes runs two at a time. What talks over WebRTC has the machine to itself, and a second try (shown as R)
# where something else on the machine got in its way.
test: dev
ifdef ARGS
	@$(BIN)/pytest $(ARGS)
else
	@$(BIN)/pytest -n 2 tests/unit tests/contract; pure=$$?; $(BIN)/pytest --reruns 1 --ignore tests/unit --ignore tests/contract && exit $$pure
endif

test-long: dev
	@$(BIN)/pytest -m "long or bench" --timeout 1200 $(ARGS)
	@LIVEANCHOR_HYPOTHESIS=search $(BIN)/pytest tests/unit -k "geometry or machine or ingest" --timeout 1200

lint: dev
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy && $(BIN)/lint-imports && $(BIN)/deptry .

bench: dev
	@$(BIN)/liveanchor bench $(or $(NAME),latency) $(ARGS)

soak: dev
	@$(BIN)/liveanchor soak $(ARGS)

clean:
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
