# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
#
# make demo   installs what is missing, builds, and plans a model with its drafter
# make test   the same, and runs all tests
# make speculate   runs the speculative engine of the examples on the host
# make gpu-bundle   leaves build/gpu-bundle, which runs all GPU tests on a machine with a driver
# make bench | tidy | format | clean | install-packages
.POSIX:
.PHONY: demo test speculate build bench gpu-bundle tidy format clean install-packages install-check-packages

PRESET = release
BUILD = build/$(PRESET)
KVPLAN = $(BUILD)/bin/kvplan
JOBS = $$(nproc)

# Kimi-K3 with a DSpark drafter of 96 query and 16 KV heads, as it is served.
DEMO = $(KVPLAN) plan examples/configs/kimi-k3.json \
	--drafter examples/configs/kimi-k3-dspark-96x16.json --tp 16 --gpu gb200 --page-size 64

demo: build
	@echo "== A 64-token target page: the draft pool keeps it"
	@echo '$$ $(DEMO)'
	@$(DEMO)
	@echo
	@echo "== What a 32-token draft page would lose"
	@echo '$$ $(DEMO) --draft-page-size 32'
	@$(DEMO) --draft-page-size 32

test: build
	ctest --preset $(PRESET) -j $(JOBS)

speculate: build
	@$(BUILD)/bin/example_speculative_engine

build: install-packages
	@cmake --preset $(PRESET) >$(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@cmake --build --preset $(PRESET) -j $(JOBS)

bench: build
	@for program in $(BUILD)/bin/*_bench; do \
		echo "== $$program"; "$$program" || [ $$? -eq 77 ] || exit 1; \
	done

gpu-bundle: install-packages
	@cmake --preset gpu-bundle >build/gpu-bundle.log 2>&1 || { cat build/gpu-bundle.log; exit 1; }
	@cmake --build --preset gpu-bundle -j $(JOBS)

install-packages:
	@.ci/install_packages.sh build
	@mkdir -p build

install-check-packages:
	@.ci/install_packages.sh checks

tidy: install-check-packages
	@.ci/check_tidy.sh --all

format: install-check-packages
	@.ci/check_format.sh --fix

clean:
	rm -rf build
