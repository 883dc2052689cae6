# The two commands, `make serve` and `make test`, and their friends. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PRESET ?= release
ARGS ?=

.PHONY: help deps test-deps build build-dev models test-models serve test e2e test-clients check-asan check-tsan check-ship sim fuzz bench bench-peers bench-structured-peers bench-served bench-mqtt-peers bench-encoder-peers package image wheel docs-site install ranks fmt tidy soak

help:  ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

deps:  ## install the Debian packages the build needs (as root or with sudo; else prints the command)
	@tools/install_deps.sh cmake/packages.txt cmake/packages-parts.txt

test-deps:  ## install those of the tests and comparisons too; the servers among them are not started
	@tools/install_deps.sh cmake/packages.txt cmake/packages-parts.txt cmake/packages-test.txt

build: deps  ## build build/release/tutti and the library
	@tools/build.sh $(PRESET) tutti tutti_shared
	@echo "built build/$(PRESET)/tutti"

build-dev: deps  ## the same in build/dev from small files, for work on single ones; TARGETS="tutti base_test"
	@tools/build.sh dev $(or $(TARGETS),tutti)
	@echo "built build/dev"

models: deps  ## fetch the default model once (98 MB), or NAME=all-minilm-l6-v2 (91 MB), or NAME=gemma3-270m (253 MB, its terms are shown first); by SHA-256
	@tools/fetch_model.sh $(NAME)

test-models: deps  # those that the suite needs
	@tools/fetch_model.sh
	@tools/fetch_model.sh all-minilm-l6-v2

# The whole program if `make build` has made it or PRESET is given; else one with HTTP and the page only.
SERVED := $(if $(filter-out file,$(origin PRESET))$(wildcard build/$(PRESET)/tutti),$(PRESET),serve)

serve:  ## build, fetch the default model and serve it on 127.0.0.1:8080; ARGS="--port 9000 ..."; for gRPC, MQTT and bench: make build first
	@tools/install_deps.sh cmake/packages.txt $(if $(filter serve,$(SERVED)),,cmake/packages-parts.txt)
	@tools/fetch_model.sh
	@tools/build.sh $(SERVED) tutti
	@exec build/$(SERVED)/tutti serve $(ARGS)

test: test-deps test-models  ## install, build and run the whole test suite
	@tools/test.sh
	@echo "make test: all passed"

e2e: test-deps test-models build  ## the program driven from outside: stock `openai` client, load, hostile input (also part of `make test`)
	@python3 tests/e2e/run.py --tutti build/$(PRESET)/tutti --venv build/e2e-venv

test-clients: test-deps test-models build  ## the stock clients of docs/clients.md against the server, and that page written anew; 20 environments from PyPI (9 GB) the first time
	@tools/install_deps.sh cmake/packages-clients.txt
	@python3 tests/clients/run.py --tutti build/$(PRESET)/tutti --venvs build/client-venvs --write docs/clients.md $(ARGS)

soak: test-deps build test-models  ## what hostile grammars take, full amounts of the models' references, full load rounds, idle and stopped clients, the page left open for 60 minutes, then canaries among hostile clients; DURATION=600 seconds
	@tools/build.sh $(PRESET) parity_test grpc_host grammar_test
	@TUTTI_TEST_FULL=1 TUTTI_SOURCE_DIR=$(CURDIR) build/$(PRESET)/src/grammar/grammar_test --gtest_filter='HostileSources.*'
	@TUTTI_TEST_FULL=1 build/$(PRESET)/tests/parity/parity_test --gtest_filter='Scores.*:GoldenTest.*:LongContext.*:InvarianceTest.*:MiniLm.*:EveryIsa/*'
	@TUTTI_TEST_FULL=1 python3 tests/grpc/run.py --host build/$(PRESET)/tests/grpc/grpc_host --venv build/grpc-venv test_hostile
	@python3 tests/e2e/run.py --tutti build/$(PRESET)/tutti --venv build/e2e-venv --soak $(or $(DURATION),600)

check-asan: test-deps test-models  ## the whole suite under AddressSanitizer and UndefinedBehaviorSanitizer
	@tools/build.sh asan-ubsan
	@tools/run_tests.py build/asan-ubsan --shorten

# Not under ThreadSanitizer: programs of protobuf's messages. Debian's library is built without it, and has other layouts
# of them than its own headers give a program that is (PROTOBUF_TSAN in port_def.inc). Of cluster_test and
# bench_test, the streams of gRPC: the library hands their data from thread to thread by atomics of its own, which are not
# seen; the rest runs.
UNSANITIZED_THREADS := server_grpc_test|client_grpc_test|grpc_clients_test|grpc_hostile_test|cluster_test|bench_test

check-tsan: test-deps test-models  ## the suite under ThreadSanitizer, but for gRPC's messages and streams
	@tools/build.sh tsan
	@TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.supp halt_on_error=1" build/tsan/src/cluster/cluster_test --gtest_filter='-WorkerPoolTest.*'
	@TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.supp halt_on_error=1" build/tsan/src/bench/bench_test --gtest_filter='-GrpcLoadModelTest.*'
	@TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.supp halt_on_error=1" tools/run_tests.py build/tsan --shorten --but '$(UNSANITIZED_THREADS)'

check-ship: test-deps test-models  ## before a release, at most 60 minutes: packages, image, wheel and site, then all of tests/ship/; ARGS="--only packages,site"
	@tools/install_deps.sh cmake/packages.txt cmake/packages-package.txt cmake/packages-ship.txt
	@tests/ship/run.py --build build/$(PRESET) $(ARGS)

sim: test-deps  ## a million simulated schedules of the engine (about ten minutes on two cores)
	@tools/build.sh $(PRESET) engine_sim
	@build/$(PRESET)/tests/sim/engine_sim --schedules 1000000 --threads $$(nproc)

fuzz: test-deps  ## every fuzz target for 30 s
	@tools/install_deps.sh cmake/packages-clang.txt
	@tools/fuzz.sh

tidy: test-deps  ## clang 14: thread-safety analysis of the whole tree
	@tools/install_deps.sh cmake/packages-clang.txt
	@tools/build.sh analysis

bench: models build  ## the strategy and concurrency benchmarks
	@build/$(PRESET)/tutti bench strategies
	@build/$(PRESET)/tutti bench concurrency

bench-peers: test-deps models build  ## llama.cpp, OpenVINO GenAI and Tutti side by side, then answers under JSON schemas, in a throw-away folder
	@status=0; tools/bench_peers.py $(ARGS) || status=1; tools/bench_structured_peers.py || status=1; exit $$status

bench-structured-peers: test-deps models build  ## answers under JSON schemas: Tutti beside llama.cpp's server
	@tools/bench_structured_peers.py $(ARGS)

bench-served: test-deps models build  ## 32 clients over HTTP beside the engine alone, in turns
	@tools/bench_served.py $(ARGS)

bench-mqtt-peers: test-deps models build  ## ten chats over one MQTT broker: Tutti beside llama-server behind a bridge
	@tools/bench_mqtt_peers.py $(ARGS)

bench-encoder-peers: test-deps models build  ## sentence-transformers, ONNX Runtime, OpenVINO and Tutti on two encoders
	@tools/fetch_model.sh all-minilm-l6-v2
	@tools/bench_encoder_peers.py --http $(ARGS)

package: build  ## build/release/package/: tutti_*.deb for this Debian, with a service for systemd, and tutti-*.tar.gz for any Linux with glibc 2.36
	@tools/install_deps.sh cmake/packages-package.txt
	@tools/make_packages.py --build build/$(PRESET)

image: build  ## build/release/package/tutti-*.oci.tar: an OCI image of the program, without a daemon; for podman load, docker load, skopeo
	@tools/install_deps.sh cmake/packages-package.txt
	@tools/make_image.py --build build/$(PRESET)

wheel: build  ## build/wheel/tutti-*.whl for pip: the Python package with the program and its libraries inside
	@tools/install_deps.sh cmake/packages-package.txt
	@tools/build.sh $(PRESET) tutti_wheel_program
	@tools/make_wheel.py --build build/$(PRESET) $(ARGS)

docs-site:  ## build/site: README.md and docs/ as a site with a search, which needs no network when it is read
	@tools/install_deps.sh cmake/packages-package.txt
	@tools/make_site.py $(ARGS)

install: build  ## install program, library and headers; PREFIX=/usr/local
	@cmake --install build/$(PRESET) --prefix $(or $(PREFIX),/usr/local)

ranks: deps  ## write the ranks table of ARCHITECTURE.md from the build
	@cmake --preset $(PRESET) > /dev/null
	@python3 tests/ranks_test.py --source . --ranks build/$(PRESET)/ranks.json --write

fmt:  ## clang-format every source file
	@tools/install_deps.sh cmake/packages-clang.txt
	@tests/format_test.py --source . --write
