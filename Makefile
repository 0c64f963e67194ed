# SPDX-License-Identifier: Apache-2.0
# The two commands (`make run`, `make test`) and their friends. Meson does the building.

BUILD   ?= build
CACHE   ?= /var/cache/airlock
PREFIX  ?= /usr/local
DESTDIR ?=
PYTHON  ?= /usr/bin/python3
JOBS    ?= $(shell nproc)

# Every variable of the configuration reaches the server as the caller set it.
export CACHE PYTHON

.PHONY: help deps deps-run build image run test bench fuzz soak test-vm install uninstall clean

help:
	@echo 'make run      install what is missing, build, start a server on this machine (as root)'
	@echo 'make test     everything that CI checks'
	@echo 'make build    build only'
	@echo 'make bench    measure, and compare with the bars'
	@echo 'make fuzz     fuzz the parsers (FUZZ_SECONDS per target, 60 unless set)'
	@echo 'make soak     three tenants, one hostile, while all is killed again and again (SOAK_SECONDS, 1800 unless set)'
	@echo 'make test-vm  the reduced system suite in a guest with cgroup v2'
	@echo 'make deps     install everything that any of these needs'
	@echo 'make install  programs, unit, users, /etc/airlock, manual page (as root)'
	@echo 'make uninstall  the opposite; PURGE=1: with configuration, sessions, images'

deps:
	@deploy/deps.sh build run test bench vm

deps-run:
	@deploy/deps.sh build run

build: $(BUILD)/build.ninja
	@ninja -C $(BUILD) -j $(JOBS)

$(BUILD)/build.ninja:
	meson setup $(BUILD) --prefix=$(PREFIX) --libexecdir=libexec --sysconfdir=/etc

image:
	@deploy/image.sh "$(CACHE)"

run: deps-run build image
	@BUILD="$(BUILD)" deploy/run.sh

test: deps
	@$(PYTHON) test/run.py --build "$(BUILD)"

bench: deps build image
	@$(PYTHON) test/bench/bench.py --build "$(BUILD)"

fuzz:
	@deploy/deps.sh build fuzz
	@test/fuzz/run.sh

soak: deps build image
	@AIRLOCK_BUILD="$(BUILD)" $(PYTHON) test/soak/soak.py --seconds $(or $(SOAK_SECONDS),1800)

test-vm: deps build image
	@BUILD="$(BUILD)" test/vm/run.sh

install: build
	DESTDIR="$(DESTDIR)" meson install -C $(BUILD) --no-rebuild
	@DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" BUILD="$(BUILD)" deploy/install.sh

uninstall:
	@DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" PURGE="$(PURGE)" deploy/uninstall.sh

clean:
	rm -rf $(BUILD) build-asan build-knobs build-fuzz
