# Every target creates the environment it needs in .venv, from the locked requirements.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CLASSES := $(VENV)/spark-classes.jsa

# make test-faults: which seeds, and the file that holds their outcomes.
SEED := 0
SCHEDULES := 300
FAULTS := faults-$(SEED)-$(SCHEDULES).json

.DEFAULT_GOAL := help
.PHONY: help demo test test-long lint test-unit test-spark test-browser test-old-spark test-kafka test-wheel test-faults bench-micro bench-spark bench-groups bench-controller bench-times bench-hot-key bench-joins bench-writing bench-remember bench-facts bench-watch newcomer \
	bench-emission bench-word-count bench-outbox bench-dataflow bench-flows bench-examples bench-shuffle bench-cost bench-keys bench-stage bench-streaming bench-state bench-drift bench-diagnosis bench-plan papers figures docs docs-serve recorded lock format clean

help: ## Explain every target
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ## Run a skewed Spark job twice, as Spark does it and with Evenly, and show who was busy
	@$(BIN)/evenly demo

test: $(READY) $(CLASSES) ## Check style, types and layers, then run all tests but the longest
	@$(BIN)/python tests/compile_kernels.py & $(MAKE) --no-print-directory lint && wait
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test-long: $(READY) $(CLASSES) ## Run the tests that take a minute or more: killed drivers, a disturbed cluster
	$(BIN)/python -m pytest -m long

lint: $(READY) ## Check style, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test-unit: $(READY) ## Run the tests that need no Spark
	$(BIN)/python -m pytest tests/unit tests/property tests/processes

test-spark: $(READY) $(CLASSES) ## Run the tests on a real Spark session
	$(BIN)/python -m pytest tests/spark

test-browser: $(READY) ## Run the tests that look at pages in a browser
	$(BIN)/python -m pytest tests/browser

test-old-spark: $(READY) ## Run a short test on PySpark 3.5 and 4.0, each in an environment of its own (downloads 600 MB)
	sh scripts/old_spark.sh $(BIN)/python

test-kafka: $(READY) $(CLASSES) ## Run dataflows from and to a real Kafka on loopback (its jars, 60 MB, are fetched once by mvn)
	$(BIN)/python -m pytest tests/kafka

test-wheel: $(READY) ## Install the wheel on each of Python 3.11 to 3.14 that there is and run the demo from it (downloads 500 MB)
	sh scripts/wheel.sh $(BIN)/python

test-faults: $(READY) $(CLASSES) ## Run SCHEDULES=300 seeded schedules of faults from SEED=0 on a cluster on loopback; goes on where it was stopped
	PYTHONPATH=tests $(BIN)/python -m faults --seed $(SEED) --schedules $(SCHEDULES) --processes 3 --out $(FAULTS)

bench-micro: $(READY) ## Measure the kernels on one core, beside numpy and DataSketches
	$(BIN)/python benchmarks/micro.py

bench-spark: $(READY) ## Measure learning and placement on Spark, beside plain Spark
	$(BIN)/python benchmarks/spark_placement.py

bench-groups: $(READY) ## Measure a grouped function over 100,000 small groups, beside applyInPandas and applyInArrow
	$(BIN)/python benchmarks/many_groups.py

bench-times: $(READY) ## Measure groups whose time is not their rows: by time, by rows, by Spark's hash and adaptive execution
	$(BIN)/python benchmarks/group_times.py

bench-hot-key: $(READY) ## Measure a key with half of the rows: grouped by Spark, salted by hand, split by Evenly
	$(BIN)/python benchmarks/hot_key.py

bench-joins: $(READY) ## Measure joins of recorded keys (EVENLY_DATA=folder): plain, adaptive, salted, broadcast, by Evenly
	$(BIN)/python benchmarks/joins.py $(EVENLY_DATA)

bench-writing: $(READY) ## Measure writing by key: time and sizes of files, beside repartition and the rebalance hint
	$(BIN)/python benchmarks/writing.py

bench-remember: $(READY) ## Measure jobs with a remembered mapping beside a given and a learnt one, and λ after a drift (EVENLY_DATA=folder: recorded)
	$(BIN)/python benchmarks/remember.py $(EVENLY_DATA)

bench-facts: $(READY) ## Measure what records and the live page of a streaming query cost: of its cpu time, and with over without them
	$(BIN)/python benchmarks/facts.py

bench-watch: $(READY) ## Measure the memory of the live page's process over an hour of records, with a reader (three minutes)
	$(BIN)/python benchmarks/watch.py

newcomer: $(READY) ## Time a newcomer's path: clone, set up, first picture of the live page; an own job diagnosed and mended
	$(BIN)/python benchmarks/newcomer.py

bench-emission: $(READY) ## Measure what emission scheduling costs, and how fast a dead leader is replaced
	$(BIN)/python benchmarks/emission.py

bench-word-count: $(READY) ## Measure the word-count testbed: 10 Spark tasks share a limited link, with and without a policy
	$(BIN)/python benchmarks/word_count.py $(EVENLY_DATA)

bench-outbox: $(READY) ## Measure stream_send with and without its outbox, whole jobs
	$(BIN)/python benchmarks/outbox.py

bench-dataflow: $(READY) ## Measure a dataflow of operators that do nothing, beside mapInArrow by hand
	$(BIN)/python benchmarks/dataflow.py

bench-flows: $(READY) ## Predict the highest rates of ten dataflows on Spark, then observe them (12 minutes; CASES="--cases linear")
	$(BIN)/python benchmarks/flow_peaks.py $(CASES)

bench-examples: $(READY) ## Measure word count, enriched tweets and reach end to end, beside the same with Spark's defaults (EVENLY_DATA=folder: recorded)
	$(BIN)/python benchmarks/flow_examples.py $(EVENLY_DATA)

bench-shuffle: $(READY) ## Measure shuffle grouping on 100 streams, beside its bars and an independent reproduction
	$(BIN)/python benchmarks/shuffle.py
	$(BIN)/python benchmarks/shuffle_limits.py

bench-cost: $(READY) ## Measure rows of unequal cost on Spark: whole jobs (4 hours; JOBS="--costs tweets --sizes 2000"; goes on), overhead, memory
	$(BIN)/python benchmarks/cost_stage.py --out cost-jobs.jsonl $(JOBS)

bench-keys: $(READY) recorded ## Measure balance and drift on recorded keys in the folder EVENLY_DATA
	$(BIN)/python benchmarks/key_streams.py "$(EVENLY_DATA)"

bench-stage: $(READY) recorded ## Measure a grouped function on recorded keys in the folder EVENLY_DATA: hash, adaptive, salting, Evenly
	$(BIN)/python benchmarks/keyed_stage.py "$(EVENLY_DATA)"

bench-streaming: $(READY) recorded ## Measure stateful streaming queries on recorded keys in the folder EVENLY_DATA
	$(BIN)/python benchmarks/streaming_keys.py "$(EVENLY_DATA)"

bench-state: $(READY) ## Measure a Python state for each of 10,000, 30,000 and 100,000 keys a batch, and empty batches, beside transformWithState and applyInPandasWithState (STATE="--keys 10000 --rows 1 5 20")
	$(BIN)/python benchmarks/stream_state.py $(STATE)

bench-drift: $(READY) recorded ## Measure the drift controller on recorded keys in the folder EVENLY_DATA
	$(BIN)/python benchmarks/streaming_drift.py "$(EVENLY_DATA)"

bench-controller: $(READY) recorded ## Replay recorded keys in the folder EVENLY_DATA, and generated ones, through the drift controller, without Spark (2 minutes)
	$(BIN)/python benchmarks/controller.py "$(EVENLY_DATA)"

bench-diagnosis: $(READY) ## Run jobs with a known cause on Spark and ask evenly diagnose log what it was: precision and recall
	$(BIN)/python benchmarks/diagnosis.py --docs docs/diagnose.md

bench-plan: $(READY) ## Profile five operators for real, plan a dataflow of them and run it: does it hold its rate
	$(BIN)/python benchmarks/real_plan.py

papers: $(READY) recorded ## Rerun all papers and write the table of verdicts to docs/papers.md (some minutes; recorded streams in EVENLY_DATA)
	EVENLY_DATA="$(EVENLY_DATA)" $(BIN)/evenly paper all $(RUNS) --out papers && mv papers/papers.md docs/papers.md

figures: $(READY) ## Write the measured tables and the picture from docs/figures into the documents (TAKE="printed.json": what benchmarks printed with --json)
	$(BIN)/python scripts/figures/write.py --take $(TAKE)

docs: $(READY) ## Build the documentation into site/: any warning or broken link is an error
	$(BIN)/python scripts/site/build.py site

docs-serve: docs ## Build it and show it on http://127.0.0.1:8000
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory site 8000

recorded:
	@test -d "$(EVENLY_DATA)" || { echo "Name the folder of recorded streams: make $(MAKECMDGOALS) EVENLY_DATA=folder" >&2; exit 1; }

format: $(READY) ## Format the code
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: $(READY) ## Resolve the dependencies anew into requirements.lock
	$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header --upgrade --quiet --output-file requirements.lock

clean: ## Remove the environment and what tools leave behind
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache evenly-demo.html faults-*.json cost-jobs.jsonl site
	find src tests benchmarks scripts examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml scripts/environment.sh
	@sh scripts/environment.sh $(VENV)
	@touch $(READY)

$(CLASSES): $(READY) tests/quick_java.py
	@$(BIN)/python tests/quick_java.py $(CLASSES) 2>/dev/null || echo "no archive of Spark's classes: the tests take longer"
