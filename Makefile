# Needs Python 3.11 with venv, and nothing else: each target makes its environment in .venv from a lock file.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
# Budgets are in tests/budgets.toml; HOLD=--hold fails above them.
HOLD ?=
PARTS := $(BIN)/python tools/run_parts.py --workers $(WORKERS) $(HOLD)
export TF_CPP_MIN_LOG_LEVEL ?= 3

# python3.13, or one of pyenv's that is not switched on.
PYTHONS := python3.13 $(wildcard $(HOME)/.pyenv/versions/3.13.*/bin/python)
NEWEST := $(firstword $(foreach p,$(PYTHONS),$(shell $(p) -c "import sys; print(sys.executable)" 2>/dev/null)))

CHROMIUM := $(firstword $(foreach p,chromium google-chrome chromium-browser chrome,$(shell command -v $(p))))

NPM := $(shell command -v npm)

SITE := build/site

.PHONY: demo check row test test-ci test-all part docs browser smoke backends adapters dist zoo-wheel notebooks stale release-check lint bench gpu studies lock

demo: .venv/installed
	$(BIN)/python recipes/glyphs.py

# What to run while you edit: lint, and every fast test once, on the first row of its tables; pages are left out.
check: lint
	$(PARTS) check

# All tests that name a class, such as make row ROW=NTXentLoss.
row: .venv/installed
	$(PYTEST) -k "$(ROW)"

# Every room on TensorFlow, its core on JAX and PyTorch, the first example of every page: five minutes on two cores.
test: .venv/installed
	$(PARTS) test

# What .ci/run tests beyond it: tests that take more than a second of a core, whole pages, examples of docstrings.
test-ci: .venv/installed
	$(PARTS) ci

# All tests: also recipes, benchmarks, notebooks, the rest on JAX and PyTorch, and every room on the newest Python.
test-all: .venv/installed
	$(PARTS) test ci all smoke

# Any group of tests/budgets.toml, such as make part PART=smoke, or one part of it.
part: .venv/installed
	$(PARTS) $(PART)

# The site, in build/site, without a network. A broken link, an unknown name and any other warning is an error.
docs: .venv/installed
	$(BIN)/python -m sphinx --quiet --jobs $(WORKERS) --fail-on-warning --keep-going --conf-dir docs . $(SITE)
	@echo "python -m http.server --directory $(SITE) shows it."

# Pages as Chromium shows them, where it is installed; the page of an export needs npm for its scripts, and the site
# needs make docs before, and npm for its audit.
browser: .venv/installed $(if $(NPM),.npm/installed)
ifeq ($(CHROMIUM),)
	@echo "Chromium is not installed: no browser looks at the pages."
else
	$(if $(wildcard $(SITE)/index.html),SITE=$(SITE)) \
	$(if $(NPM),ONNXRUNTIME_WEB=.npm/node_modules/onnxruntime-web/dist AXE_CORE=.npm/node_modules/axe-core/axe.min.js) \
	$(BIN)/python -m pytest -m browser tests/cleaning tests/cli tests/evaluation tests/serving tests/export/runtimes tests/site tests/test_tables.py
endif

# Every room on the newest Python and TensorFlow, where that Python is installed.
smoke:
ifeq ($(NEWEST),)
	@echo "python3.13 is not installed: the rooms are not tried on Python 3.13 and TensorFlow 2.21."
else
	$(MAKE) .venv-newest/installed
	.venv-newest/bin/python -m pytest tests/test_rooms.py
endif

# JAX and PyTorch where TensorFlow is not installed: the training of the README, the first programs of their pages, and
# tfdml train.
backends: .venv-jax/installed .venv-torch/installed
	KERAS_BACKEND=jax .venv-jax/bin/python -m tests.programs.real_environment
	KERAS_BACKEND=torch .venv-torch/bin/python -m tests.programs.real_environment

# The programs of docs/adapters.md, in the tools that they are for.
adapters: .venv-adapters/installed
	.venv-adapters/bin/python -m tests.programs.adapters lancedb lightly_studio

# The wheel and the source archive in dist/, checked; tools/check_release.py --install PYTHON... also installs the wheel.
dist: .venv/installed
	rm -rf build dist/tfdml-*
	$(BIN)/python -m build --no-isolation
	$(BIN)/python tools/check_release.py

# The places where users look for the project, what goes to each, and which addresses are missing.
release-check: .venv/installed
	$(BIN)/python tools/release_places.py

# The models of savedmodels as a wheel in dist/, without a network.
zoo-wheel: .venv/installed
	$(BIN)/python tools/zoo_wheel.py

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ruff format --check --line-length 88 $$(git ls-files '*.md')
	$(BIN)/mypy

# The notebooks of the tutorials that have changed, run with their pictures.
notebooks: .venv/installed
	$(BIN)/python tools/notebooks.py

# Measured numbers whose code has changed since.
stale: .venv/installed
	$(BIN)/python tools/stale.py

# Losses of one pass over the pairs, of numbers of the whole batch, and of rankings.
LARGE := contrastive margin multi-similarity "lifted structure" NT-Xent SupCon histogram FastAP
bench: .venv/installed-peers
	$(BIN)/python benchmarks/losses.py
	$(BIN)/python benchmarks/losses.py --no-peers --sizes 16384x512 --losses $(LARGE)
	KERAS_BACKEND=torch $(BIN)/python benchmarks/torch_losses.py --compiled
	$(BIN)/python benchmarks/proxies.py
	$(BIN)/python benchmarks/miners.py
	$(BIN)/python benchmarks/robust.py --picture docs/images/mining-time.png
	$(BIN)/python benchmarks/samplers.py
	$(BIN)/python benchmarks/loading.py
	$(BIN)/python benchmarks/jpeg_pixels.py
	$(BIN)/python benchmarks/caches.py
	$(BIN)/python benchmarks/retrieval.py
	$(BIN)/python benchmarks/compare.py --no-peers
	$(BIN)/python benchmarks/ranks.py
	$(BIN)/python benchmarks/search_on_disk.py
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/filters.py
	$(BIN)/python benchmarks/stored_small.py
	$(BIN)/python benchmarks/distributed.py
	$(BIN)/python benchmarks/index.py
	$(BIN)/python benchmarks/upgrade.py
	$(BIN)/python benchmarks/export.py
	$(BIN)/python benchmarks/runtimes.py
	$(BIN)/python benchmarks/quantized_weights.py
	$(BIN)/python benchmarks/serving.py
	$(BIN)/python benchmarks/recall_check.py
	$(BIN)/python benchmarks/clustering.py
	$(BIN)/python benchmarks/fit.py
	$(BIN)/python benchmarks/steps_per_execution.py
	$(BIN)/python benchmarks/train.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/micro_batches.py
	$(BIN)/python benchmarks/fit.py --backbone ResNet50
	if nvidia-smi >/dev/null 2>&1; then $(MAKE) gpu; fi
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python -m studies.tables

# Six minutes on a GPU, with a JAX and a PyTorch that see it; PYTHON is the one that has them.
gpu:
	PYTHON=$(PYTHON) bash tools/gpu.sh --minutes 6

# Four hours on two cores; resumes where it was stopped.
studies: .venv/installed
	$(BIN)/python -m studies mining
	$(BIN)/python -m studies importance_sampling
	$(BIN)/python -m studies leaderboard
	$(BIN)/python -m studies.glyphs
	$(BIN)/python -m studies.photo_patches
	$(BIN)/python -m studies.things
	KERAS_BACKEND=jax $(BIN)/python -m studies.precision

# Torch for CPUs comes from where pip looks already, or from its own index.
TORCH_INDEX := https://download.pytorch.org/whl/cpu
.venv/installed: requirements/dev.lock requirements/torch.lock setup.cfg pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.lock
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/torch.lock || \
	$(BIN)/python -m pip install --quiet --require-hashes --extra-index-url $(TORCH_INDEX) -r requirements/torch.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

.npm/installed: Makefile
	npm install --silent --no-save --no-audit --no-fund --prefix .npm onnxruntime-web@1.30.0 axe-core@4.11.0
	touch $@

.venv-newest/installed: requirements/newest.lock setup.cfg pyproject.toml
	$(NEWEST) -m venv .venv-newest
	.venv-newest/bin/python -m pip install --quiet --require-hashes -r requirements/newest.lock
	.venv-newest/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

# The versions of the lock files, without their hashes: they are those of more packages than an extra brings.
.venv-jax/installed .venv-torch/installed: .venv-%/installed: requirements/dev.lock requirements/torch.lock setup.cfg pyproject.toml
	$(PYTHON) -m venv .venv-$*
	grep -hE '^[a-z0-9].*==' requirements/dev.lock requirements/torch.lock | tr -d '\\' > .venv-$*/versions
	.venv-$*/bin/python -m pip install --quiet --constraint .venv-$*/versions --editable ".[$*,evaluation,plots,tables,onnx]" || \
	.venv-$*/bin/python -m pip install --quiet --constraint .venv-$*/versions --extra-index-url $(TORCH_INDEX) --editable ".[$*,evaluation,plots,tables,onnx]"
	touch $@

.venv-adapters/installed: requirements/dev.lock setup.cfg pyproject.toml
	$(PYTHON) -m venv .venv-adapters
	grep -hE '^[a-z0-9].*==' requirements/dev.lock | tr -d '\\' > .venv-adapters/versions
	.venv-adapters/bin/python -m pip install --quiet --constraint .venv-adapters/versions --editable ".[photos,test]" lancedb lightly-studio-serve
	touch $@

.venv/installed-peers: .venv/installed requirements/peers.lock
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/peers.lock || \
	$(BIN)/python -m pip install --quiet --require-hashes --extra-index-url $(TORCH_INDEX) -r requirements/peers.lock
	touch $@

# Pins what setup.cfg allows, with the hashes of all files; run it after changing a range. Torch for CPUs is looked for
# where UV_FIND_LINKS says, if that is set; see requirements/peers.in.
PINNED := --universal --generate-hashes --no-header --quiet --output-file
lock: .venv/installed
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile setup.cfg --extra dev --python-version 3.11 $(PINNED) requirements/dev.lock
	$(BIN)/uv pip compile setup.cfg requirements/newest.in --extra tensorflow --extra plots --extra serving --extra tables --python-version 3.13 $(PINNED) requirements/newest.lock
	$(BIN)/uv pip compile requirements/torch.in --constraint requirements/dev.lock --python-version 3.11 $(PINNED) requirements/torch.lock
	$(BIN)/uv pip compile requirements/peers.in --constraint requirements/dev.lock --python-version 3.11 $(PINNED) requirements/peers.lock
