# Everything runs in an environment of its own, made on first use from pyproject.toml, with the exact
# versions of requirements.lock.
# Needs make, Python 3.11 or newer, and a package index that pip can reach.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.installed-demo
BENCH_STAMP := $(VENV)/.installed-bench
NAME ?= cpu-xeon-2-cores
LOCK := requirements.lock
# The lock file restrains versions; what is installed is asked for by extras.
INSTALL := -m pip install --disable-pip-version-check --constraint $(LOCK)
# Tests start hundreds of processes, which would each compile all modules of the package again.
unexport PYTHONDONTWRITEBYTECODE
STEP = @printf '\n== %s\n'

.DEFAULT_GOAL := help
.PHONY: help environment demo test lint types lit unit test-slow bench results onnx-suite bench-gpu check-gpu gpu-kit papers experiments exports frontends packaged-models offload-evaluation fuzz coverage docs references dist lock clean

help:
	@echo "make demo       compile a network for the CPU, run it, compare it with ONNX Runtime"
	@echo "make test       lint, types, lit tests, unit tests"
	@echo "make test-slow  whole models at full size"
	@echo "make bench      latency beside other compilers, compile time; MODELS=\"lstm_tc light_*\" for some"
	@echo "make results    all of it, kept in the repository and shown in the README; NAME=machine"
	@echo "make onnx-suite  ONNX's backend test suite, beside ONNX Runtime"
	@echo "make bench-gpu  latency on this machine's GPU, beside what else is installed"
	@echo "make check-gpu  tests on this machine's GPU, then the benchmark"
	@echo "make papers     figures and tables of RAMMER and IOS made again, docs/papers.md; PAPERS=--quick"
	@echo "make experiments  policies on random modules and large graphs, on the simulator"
	@echo "make gpu-kit    programs for a machine with a GPU and no compiler, in KIT=build/gpu-kit; MODELS=\"lstm encoder\" for some"
	@echo "make exports    models exported by PyTorch, Keras and JAX, compared; EXPORTS=\"bert.* gpt2.*\" for some"
	@echo "make frontends  models of PyTorch and JAX, compiled from within and compared, in environments of their own"
	@echo "make packaged-models  models that ship inside packages, compared; MODELS=\"'silero*'\" for some"
	@echo "make offload-evaluation  code generators on the paper's models; MODELS=\"resnet* vgg19\" for some"
	@echo "make fuzz       search for faults with random models and damaged files; MODELS=5000 FILES=5000 MINUTES=30"
	@echo "make coverage   unit tests with the share of covered lines, at least 90%; TESTS=\"tests/scheduling\" for some"
	@echo "make docs       the documentation as a site, in build/site"
	@echo "make references  the generated pages of the documentation, written again"
	@echo "make dist       a wheel and a source distribution, in dist"
	@echo "make lock       requirements.lock, written again; UPGRADE=--upgrade for newer versions"
	@echo "make clean      remove the environment and everything built"

environment: $(STAMP)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else \
	  f"error: Python 3.11 or newer is needed, {v[0]}.{v[1]} was found; run make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml $(LOCK) | $(BIN)/python
	$(STEP) "environment in $(VENV) (a few minutes the first time)"
	$(BIN)/python $(INSTALL) --editable ".[dev]"
	@touch $@ $(DEMO_STAMP)

# The demo needs a fraction of what the tests need, and a linker; both use one environment.
$(DEMO_STAMP): pyproject.toml $(LOCK) | $(BIN)/python
	$(STEP) "environment in $(VENV) (a minute the first time)"
	extras=demo; command -v ld.lld >/dev/null || command -v ld >/dev/null || extras=demo,link; \
	$(BIN)/python $(INSTALL) --editable ".[$$extras]"
	@touch $@

demo: $(DEMO_STAMP)
	$(STEP) "demo"
	$(BIN)/python -m rammer_mlir.benchmarks.demo

# One after the other also under -j: the first failure should be the last thing on the screen.
test: $(STAMP)
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory types
	@$(MAKE) --no-print-directory lit
	@$(MAKE) --no-print-directory unit

lint: $(STAMP)
	$(STEP) "ruff"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(STEP) "pyright"
	$(BIN)/pyright --pythonpath $(BIN)/python

lit: $(STAMP)
	$(STEP) "lit"
	$(BIN)/lit --order=smart -v lit_tests

# A process for each core: most tests compile small models, which is one thread's work.
unit: $(STAMP)
	$(STEP) "pytest"
	$(BIN)/python -m pytest -m "not slow" --numprocesses auto --dist worksteal --durations 50 --durations-min 3

test-slow: $(STAMP)
	$(STEP) "pytest, whole models"
	$(BIN)/python -m pytest -m slow -v

# Benchmarks and frameworks have no part in it; slow tests cover no line that these do not. Interrupts
# of tests could leave the tracer's lock taken.
coverage: $(STAMP)
	$(STEP) "pytest with coverage, lines in build/coverage"
	$(BIN)/python -m pytest -m "not slow and not interrupts" --numprocesses auto --dist worksteal --cov --cov-report=term \
	  --cov-report=html:build/coverage $(TESTS)

# Static analysis: neither the package nor the bindings are imported. Themes come with their fonts.
docs: $(STAMP)
	$(STEP) "documentation in build/site"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file docs/site/mkdocs.yml

references: $(STAMP)
	$(STEP) "generated pages in docs"
	$(BIN)/rammer-opt --print-reference > docs/dialect.md
	$(BIN)/rammer-opt --print-pass-reference > docs/passes.md
	$(BIN)/python -m rammer_mlir.cli.option_reference > docs/options.md
	$(BIN)/python -m rammer_mlir.frontends.onnx.operators docs/operators.md

dist: $(STAMP)
	$(STEP) "wheel and source distribution in dist"
	rm -rf dist build/lib build/bdist.*
	$(BIN)/python -m build --outdir dist

build/venv-lock/bin/uv: | $(BIN)/python
	$(BIN)/python -m venv build/venv-lock
	build/venv-lock/bin/python -m pip install --disable-pip-version-check "uv>=0.13,<0.14"

lock: build/venv-lock/bin/uv
	$(STEP) "exact versions in $(LOCK)"
	build/venv-lock/bin/uv pip compile --universal --python-version 3.11 --extra dev --extra bench \
	  --no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command "make lock" \
	  $(UPGRADE) pyproject.toml --output-file $(LOCK)

# What it is measured against comes on top, and only here: OpenVINO, IREE, and a plotting library.
$(BENCH_STAMP): $(STAMP)
	$(STEP) "other compilers in $(VENV)"
	$(BIN)/python $(INSTALL) --editable ".[dev,bench]"
	@touch $@

bench: $(BENCH_STAMP)
	$(STEP) "benchmark, results in build/bench"
	$(BIN)/python -m rammer_mlir.benchmarks $(BENCH) $(MODELS)

# A model that fails is part of the results: they are kept all the same.
results: $(BENCH_STAMP)
	$(STEP) "benchmark, results in rammer_mlir/benchmarks/results and in the README"
	-$(BIN)/python -m rammer_mlir.benchmarks --parts models launch nodes $(BENCH)
	$(BIN)/python -m rammer_mlir.benchmarks.publish $(NAME)

onnx-suite: $(STAMP)
	$(STEP) "ONNX's backend test suite, reasons in build/onnx-suite, table among the results"
	$(BIN)/python -m rammer_mlir.benchmarks.onnx_suite --keep

bench-gpu: $(STAMP)
	$(STEP) "benchmark on a GPU, results in build/bench-gpu"
	$(BIN)/python -m rammer_mlir.benchmarks.gpu $(MODELS)

check-gpu: $(STAMP)
	$(STEP) "tests on a GPU"
	$(BIN)/python -m pytest tests/gpu -rs
	@$(MAKE) --no-print-directory bench-gpu

# Matplotlib, which draws the plots, comes with what the benchmark needs.
papers: $(BENCH_STAMP)
	$(STEP) "figures and tables of RAMMER and IOS, page in docs/papers.md"
	$(BIN)/python -m rammer_mlir.benchmarks.papers $(PAPERS)

# A new kit takes the place of an old one: it is one of these programs or none.
KIT ?= build/gpu-kit
GPU ?= nvvm:sm_90

gpu-kit: $(STAMP)
	$(STEP) "programs for $(GPU) in $(KIT)"
	rm -rf $(KIT)
	$(BIN)/python -m rammer_mlir.benchmarks.gpu.kit pack $(KIT) --target $(GPU) --jobs 2 $(if $(MODELS),--models $(MODELS))
	@echo "copy $(KIT) there, and run 'python gpu-kit' until no case is left; then 'python gpu-kit report'"

experiments: $(STAMP)
	$(STEP) "experiments, results in build/experiments"
	$(BIN)/python -m rammer_mlir.benchmarks.experiments --proofs 20
	$(BIN)/python -m rammer_mlir.benchmarks.experiments.scale

# Each framework has an environment of its own: they do not agree on what they depend on.
TORCH := torch==2.13.0 torchvision==0.28.0 timm==1.0.31 transformers==5.23.0 onnxscript==0.7.2
KERAS := tensorflow-cpu==2.21.0 keras==3.15.1 tf2onnx==1.17.0
JAX := jax==0.10.2 flax==0.12.8 jax2onnx==0.17.1
ZOO := -m rammer_mlir.benchmarks.exports.zoo -o build/exports

build/venv-%/.installed: Makefile
	$(STEP) "environment of $* in build/venv-$*"
	$(PYTHON) -m venv build/venv-$*
	build/venv-$*/bin/python -m pip install --disable-pip-version-check numpy $(PACKAGES)
	@touch $@

build/venv-torch/.installed: PACKAGES = $(TORCH)
build/venv-keras/.installed: PACKAGES = $(KERAS)
build/venv-jax/.installed: PACKAGES = $(JAX)

exports: $(STAMP) build/venv-torch/.installed build/venv-keras/.installed build/venv-jax/.installed
	$(STEP) "exports, results in build/exports.md"
	set -e; for room in text vision audio modules functions torchvision_models detectors timm_models; do \
	  HF_HUB_OFFLINE=1 build/venv-torch/bin/python $(ZOO) $$room; done
	CUDA_VISIBLE_DEVICES=-1 build/venv-keras/bin/python $(ZOO) keras_models
	build/venv-jax/bin/python $(ZOO) jax_models
	$(BIN)/python -m rammer_mlir.benchmarks.exports build/exports $(EXPORTS) -o build/exports.md

# Tests with a framework run in an environment that has it beside this package.
build/venv-with-%/.installed: pyproject.toml
	$(STEP) "environment with $* in build/venv-with-$*"
	$(PYTHON) -m venv build/venv-with-$*
	build/venv-with-$*/bin/python -m pip install --disable-pip-version-check --editable ".[$*]" pytest==9.2.0
	@touch $@

frontends: build/venv-with-torch/.installed build/venv-with-jax/.installed
	$(STEP) "PyTorch and JAX as front ends"
	build/venv-with-torch/bin/python -m pytest -v tests/frameworks
	build/venv-with-jax/bin/python -m pytest -v tests/frameworks

packaged-models: $(STAMP)
	$(STEP) "models of packages, results in build/packages.md"
	$(BIN)/python -m rammer_mlir.benchmarks.packages build/packages
	$(BIN)/python -m rammer_mlir.benchmarks.exports build/packages $(MODELS) --threads 1 --source package \
	  -o build/packages.md

offload-evaluation: $(BENCH_STAMP)
	$(STEP) "code generators, results in rammer_mlir/benchmarks/results/offload.md"
	$(BIN)/python -m rammer_mlir.benchmarks.offload $(OFFLOAD) $(MODELS)

# Without any count or time limit, a hundred of each kind.
FUZZ = $(if $(MODELS),--models $(MODELS)) $(if $(FILES),--files $(FILES)) \
  $(if $(ARTIFACTS),--artifacts $(ARTIFACTS)) $(if $(EQUIVALENTS),--equivalents $(EQUIVALENTS)) \
  $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED))

fuzz: $(STAMP)
	$(STEP) "random cases, findings in build/fuzz"
	$(BIN)/python -m tests.fuzz $(FUZZ)

clean:
	rm -rf $(VENV) build dist *.egg-info .coverage* .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
