# Every target creates the environment it needs in .venv, from the locked requirements.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test lint test-unit test-spark test-browser bench-micro bench-spark bench-keys lock format clean

help: ## Explain every target
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ## Run a skewed Spark job twice, as Spark does it and with Evenly, and show who was busy
	@$(BIN)/evenly demo

test: $(READY) lint ## Check style, types and layers, then run all tests
	$(BIN)/python -m pytest

lint: $(READY) ## Check style, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test-unit: $(READY) ## Run the tests that need no Spark
	$(BIN)/python -m pytest tests/unit tests/property

test-spark: $(READY) ## Run the tests on a real Spark session
	$(BIN)/python -m pytest tests/spark

test-browser: $(READY) ## Run the tests that look at pages in a browser
	$(BIN)/python -m pytest tests/browser

bench-micro: $(READY) ## Measure the kernels on one core, beside numpy and DataSketches
	$(BIN)/python benchmarks/micro.py

bench-spark: $(READY) ## Measure learning and placement on Spark, beside plain Spark
	$(BIN)/python benchmarks/spark_placement.py

bench-keys: $(READY) ## Measure balance and drift on recorded keys in the folder EVENLY_DATA
	@test -d "$(EVENLY_DATA)" || { echo "Name the folder of recorded streams: make bench-keys EVENLY_DATA=folder" >&2; exit 1; }
	$(BIN)/python benchmarks/key_streams.py "$(EVENLY_DATA)"

format: $(READY) ## Format the code
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: $(READY) ## Resolve the dependencies anew into requirements.lock
	$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header --upgrade --quiet --output-file requirements.lock

clean: ## Remove the environment and what tools leave behind
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache evenly-demo.html
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml scripts/environment.sh
	@sh scripts/environment.sh $(VENV)
	@touch $(READY)
