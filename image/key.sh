#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the key under which a built base image is cached: a hash over the names and contents of the
# files in this folder and over the architecture. Needs no version control.
set -eu
cd "$(dirname "$0")"
{
	dpkg --print-architecture
	find . -type f ! -name '.*' | LC_ALL=C sort | while IFS= read -r file; do
		printf '%s ' "$file"
		sha256sum <"$file"
	done
} | sha256sum | cut -c 1-16
