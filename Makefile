# make lab    opens JupyterLab on the first notebook     make test    runs every check
# Both need only Python and make: what they install goes into .venv.

PYTHON ?= python3
LAB_ARGS ?=
PYTEST_ARGS ?=

VENV := .venv
PY := $(VENV)/bin/python
LAB_STAMP := $(VENV)/.installed-lab
TEST_STAMP := $(VENV)/.installed-test
FIRST_NOTEBOOK := notebooks/01_first_placement.ipynb
STAGES := lint types unit integration notebooks browser
# JupyterLab refuses to start as root unless told.
ROOT_ARGS := $(if $(filter 0,$(shell id -u)),--allow-root)
# The notebooks' kernels see this IPython profile, not the user's.
NBVAL_IPYTHONDIR := $(CURDIR)/$(VENV)/ipython

.PHONY: help lab test install install-browser $(STAGES) bench format clean

help:
	@echo "make lab          open JupyterLab on the first notebook (LAB_ARGS='--no-browser' and so on)"
	@echo "make test         run every check; one of them alone: $(addprefix make ,$(STAGES))"
	@echo "make bench        run the benchmarks"
	@echo "make format       let ruff rewrite the code's form"
	@echo "make clean        remove .venv and everything that was built"

lab: $(LAB_STAMP)
	$(PY) -m jupyterlab $(ROOT_ARGS) $(LAB_ARGS) $(FIRST_NOTEBOOK)

# All stages run, also after one that failed: one run tells everything that is wrong.
test: install install-browser
	@failed=""; \
	for stage in $(STAGES); do \
		echo; echo "===== $$stage ====="; \
		$(MAKE) --no-print-directory $$stage || failed="$$failed $$stage"; \
	done; \
	echo; \
	if [ -n "$$failed" ]; then echo "make test: FAILED in:$$failed"; exit 1; fi; \
	echo "make test: all stages passed: $(STAGES)"

install: $(TEST_STAMP)

install-browser: $(TEST_STAMP)
	@sh tests/browser/install.sh $(PY)

lint: $(TEST_STAMP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(TEST_STAMP)
	$(PY) -m mypy

unit: $(TEST_STAMP)
	$(PY) -m pytest $(PYTEST_ARGS) tests/unit jupyter_placement

integration: $(TEST_STAMP)
	$(PY) -m pytest $(PYTEST_ARGS) tests/integration

notebooks: $(TEST_STAMP)
	@mkdir -p $(NBVAL_IPYTHONDIR)/profile_default
	@cp tests/ipython_kernel_config.py $(NBVAL_IPYTHONDIR)/profile_default/
	IPYTHONDIR=$(NBVAL_IPYTHONDIR) $(PY) -m pytest $(PYTEST_ARGS) --nbval --nbval-current-env \
		--nbval-cell-timeout=600 --nbval-sanitize-with notebooks/sanitize.cfg notebooks

browser: $(TEST_STAMP)
	$(PY) -m pytest $(PYTEST_ARGS) tests/browser

bench: $(TEST_STAMP)
	@for benchmark in benchmarks/*.py; do echo; echo "===== $$benchmark ====="; $(PY) $$benchmark || exit 1; done

format: $(TEST_STAMP)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

clean:
	rm -rf $(VENV) artifacts build dist .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache

# One rule for both stamps: .installed-lab has the extra `lab`, .installed-test the extra `test`. A virtual
# environment without pip is one that was not finished (Debian's python3 without python3-venv leaves such a one).
$(VENV)/.installed-%: pyproject.toml
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) || { \
		echo "$(PYTHON) could not make a virtual environment: on Debian or Ubuntu install python3-venv," \
		"or name another Python 3.10 to 3.13 with make PYTHON=..."; exit 1; }
	@echo "installing jupyter-placement[$*] into $(VENV)"
	$(PY) -m pip install --quiet --editable '.[$*]'
	@touch $@
