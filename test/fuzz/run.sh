#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Fuzzes every target for FUZZ_SECONDS (60 unless set), or the ones named as arguments. New inputs are
# kept in build-fuzz/corpus/; a finding is written to build-fuzz/findings/ and ends in status 1.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=build-fuzz
seconds=${FUZZ_SECONDS:-60}

# gcc's warnings are the ones that are errors.
[ -e "$build/build.ninja" ] || CC=clang meson setup "$build" -Dfuzz=true -Dwerror=false >/dev/null
ninja -C "$build" fuzz

targets=("$@")
[ ${#targets[@]} -gt 0 ] || for seeds in test/corpus/*/; do
	targets+=("$(basename "$seeds")")
done

mkdir -p "$build/findings"
failed=0
for target in "${targets[@]}"; do
	kept="$build/corpus/$target"
	mkdir -p "$kept"
	printf 'fuzz %s, %s s: ' "$target" "$seconds"
	if "$build/test/fuzz/fuzz-$target" -max_total_time="$seconds" -print_final_stats=1 \
		-artifact_prefix="$build/findings/$target-" "$kept" "test/corpus/$target" \
		>"$build/$target.log" 2>&1; then
		awk '/stat::number_of_executed_units/ { print $2 " inputs, no finding" }' "$build/$target.log"
	else
		printf 'finding, see %s\n' "$build/$target.log"
		failed=1
	fi
done
exit "$failed"
