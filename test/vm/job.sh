# SPDX-License-Identifier: Apache-2.0
# job.sh plain|systemd: runs inside the guest, in the source folder: unit tests, then the reduced system
# suite. Exit status 0 when nothing failed; /job/out/counts says how many.
way=$1
python=/usr/bin/python3
out=/job/out
units=0 failed_units=
only='test-*'
[ "$way" = plain ] || only=test-cgroup
for unit in $(find build/src -name "$only" -type f -perm -u+x | sort); do
	units=$((units + 1))
	timeout 300 "$unit" >"$out/unit.log" 2>&1 || {
		failed_units="$failed_units ${unit##*/}"
		echo "unit ${unit##*/} failed:"
		grep -v '^\[ *\(RUN\|OK\) *\]' "$out/unit.log" | tail -30
	}
done
echo "units: $units programs, failed:${failed_units:- none}"

chosen=$(sed '/^#/d; s/.*/(&)/' "test/vm/tests-$way.txt" | paste -sd'|' | sed 's/|/ or /g')
timeout "${VM_PYTEST_SECONDS:-800}" $python -m pytest -q -p no:cacheprovider -ra --tb=short --durations=15 \
	-k "$chosen" test/system test/conformance/test_m1.py test/hostile >"$out/pytest.log" 2>&1
status=$?
tail -60 "$out/pytest.log"
echo "$units unit programs (failed:${failed_units:- none}); $(tail -1 "$out/pytest.log" | tr -d =)" >"$out/counts"
[ -z "$failed_units" ] && [ $status = 0 ]
