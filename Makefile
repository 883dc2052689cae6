# The two commands and their friends. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PRESET ?= release
ARGS ?=

.PHONY: help deps build models serve test ranks fmt
help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

deps:  ## install the Debian packages the build needs
	@tools/install_deps.sh cmake/packages.txt

build/%/build.ninja: CMakeLists.txt CMakePresets.json | deps
	@cmake --preset $*

build: deps  ## build build/release/tutti
	@cmake --preset $(PRESET) > build-$(PRESET).log 2>&1 || { cat build-$(PRESET).log; rm -f build-$(PRESET).log; exit 1; }; rm -f build-$(PRESET).log
	@cmake --build --preset $(PRESET)

test: build  ## install, build and run the whole test suite
	@ctest --preset $(PRESET)

ranks: build  ## write the ranks table of ARCHITECTURE.md from the build
	@python3 tests/ranks_test.py --source . --ranks build/$(PRESET)/ranks.json --write

fmt:  ## clang-format every source file
	@git ls-files '*.cc' '*.h' | xargs clang-format-14 -i
