# Each target is what a person could type; `make demo VENV=elsewhere` uses another virtual environment.
VENV ?= .venv
PYTHON ?= python3
INSTALLED = $(VENV)/.installed
# LOCKED=1 installs what lock.txt and lock-cuda.txt name, each file checked by its hash (Linux on x86-64, Python 3.11);
# LOCKED=cpu leaves the libraries for GPUs out, for torch's build for processors alone. `.ci/lock` writes both anew.
LOCKED ?=
# Processes that share the tests, a file each at a time.
PROCESSES ?= 2
TESTS = $(VENV)/bin/python -m pytest -q -n $(PROCESSES) --dist loadfile --no-loadscope-reorder --durations 40

.PHONY: demo smoke test slow simulations long lint docs wheel bench soak calibrate

demo: $(INSTALLED)
	$(VENV)/bin/empathy-transfer run demo

# The full grid of muddy-waters in small, from raw files to a comparison, before jobs are submitted.
smoke: $(INSTALLED)
	$(VENV)/bin/python -m benchmarks.drills.grid_smoke

test: $(INSTALLED)
	$(TESTS) -m 'not slow and not simulation and not gpu and not cluster and not browser'

slow: $(INSTALLED)
	$(TESTS) -m 'slow and not simulation and not gpu and not cluster and not browser'

simulations: $(INSTALLED)
	$(VENV)/bin/python -m pytest -q -n $(PROCESSES) -m simulation

# What the two above run, in one go: no process waits for the last file of each. CI runs ten minutes of it.
long: $(INSTALLED)
	$(TESTS) -rs -m '(slow or simulation) and not gpu and not cluster and not browser'

lint: $(INSTALLED)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check --quiet .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/python -m tests.project.weight

docs: $(INSTALLED)
	$(VENV)/bin/python -c 'import mkdocs, mkdocstrings' 2>/dev/null || \
		$(VENV)/bin/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	$(VENV)/bin/mkdocs build --quiet --strict

bench: $(INSTALLED)
	$(VENV)/bin/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(VENV)/bin/python -m benchmarks.steps.engines --memory
	$(VENV)/bin/python -m benchmarks.steps.engines --lanes 9 --mean 120 --ways trainer-dynamic bare bare-sorted lanes

soak: $(INSTALLED)
	$(VENV)/bin/python -m benchmarks.drills.soak --kills 100

calibrate: $(INSTALLED)
	$(VENV)/bin/python -m benchmarks.calibrations.mixed docs/calibration.csv
	$(VENV)/bin/python -m benchmarks.calibrations.mixed docs/overlaps_calibration.csv --overlaps
	$(VENV)/bin/python -m benchmarks.calibrations.paper docs/paper_calibration.csv
	$(VENV)/bin/python -m benchmarks.calibrations.gains docs/gains_calibration.csv
	$(VENV)/bin/python -m benchmarks.calibrations.themes docs/themes_calibration.csv --grids 1000
	$(VENV)/bin/python -m benchmarks.calibrations.less_data docs/less_data_calibration.csv
	$(VENV)/bin/python -m benchmarks.calibrations.two_studies docs/compare_calibration.csv
	$(VENV)/bin/python -m benchmarks.calibrations.repeats docs/repeats_calibration.csv
	$(VENV)/bin/python -m benchmarks.grids.learned docs/learned_calibration.csv
	$(VENV)/bin/python -m benchmarks.calibrations.forecasts docs/power_forecast.csv
	$(VENV)/bin/python -m benchmarks.grids.alternatives docs/tried_calibration.csv
	$(VENV)/bin/python -m benchmarks.calibrations.suggestions docs/suggest_calibration.csv
	$(VENV)/bin/python -m benchmarks.calibrations.questions docs/questions_calibration.csv

wheel: $(INSTALLED)
	rm -rf build dist
	$(VENV)/bin/python -m build --wheel --outdir dist .

LOCKS = $(if $(LOCKED),lock.txt $(if $(filter cpu,$(LOCKED)),,lock-cuda.txt))

$(INSTALLED): pyproject.toml constraints.txt $(LOCKS)
	$(PYTHON) -m venv $(VENV)
ifeq ($(LOCKED),)
	$(VENV)/bin/python -m pip install --quiet -c constraints.txt -e '.[offline,dev]'
else
	$(VENV)/bin/python -m pip install --quiet --no-deps --require-hashes $(LOCKS:%=-r %)
	$(VENV)/bin/python -m pip install --quiet --no-deps --no-build-isolation -e .
endif
	touch $@
