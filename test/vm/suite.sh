#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `make test-vm`: the reduced suite in a guest with Debian 12's own kernel and cgroup v2, first plain,
# then as a service under systemd with Delegate=yes. BUILD names the build (build unless set), CACHE the
# folder with the base image. Arguments name the ways: plain, systemd. Ends with one line for each.
#
# What runs there is what can differ there: unit tests, posture, limits, life and death of servers and
# commands, the file quota, the kernel's surface, kills while volumes are made with
# full quota groups; under systemd what depends on the cgroup delegated to us.
# Speed is no subject: the guest is 20 to 50 times slower.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$(cd "$root" && cd "${BUILD:-build}" && pwd)
cache=${CACHE:-/var/cache/airlock}
key=$("$root/image/key.sh")
[ -e "$cache/$key/rootfs.tar" ] || { echo "test-vm: no base image yet (make image)" >&2; exit 1; }

work=$(mktemp -d "${TMPDIR:-/tmp}/airlock-vm-suite.XXXXXX")
trap 'rm -rf "$work"' EXIT
tree=$work/tree
mkdir -p "$tree/build" "$tree/cache/$key"
cp -a "$root"/{src,test,image,sdk,deploy} "$tree"/
cp -al "$cache/$key/rootfs.tar" "$tree/cache/$key/" 2>/dev/null ||
	cp -a "$cache/$key/rootfs.tar" "$tree/cache/$key/"
[ ! -d "$cache/wheels" ] || cp -a "$cache/wheels" "$tree/cache/"
# Programs and unit tests, without what only the linker needs.
(cd "$build" && find . -type f -perm -u+x ! -name '*.so*' -print0 |
	tar --null -T - -cf - | tar -C "$tree/build" -xf -)
find "$tree/build" -type f -exec strip --strip-debug {} +
# The unit tests know the source folder by the path that they were built with.
cat >"$work/job" <<JOB
set -u
mkdir -p "$root" && mount --bind /job/tree "$root" && cd "$root" || exit 1
mkdir -p /var/cache/airlock && mount --bind "\$PWD/cache" /var/cache/airlock || exit 1
mkdir -m 1777 /job/tmp
export TMPDIR=/job/tmp AIRLOCK_BUILD=\$PWD/build PYTHONDONTWRITEBYTECODE=1
for user in airlock airlock-gw; do
	useradd --system --user-group --no-create-home --home-dir /nonexistent \
		--shell /usr/sbin/nologin "\$user"
done
exec sh test/vm/job.sh WAY
JOB

ways=("$@")
[ $# -gt 0 ] || ways=(plain systemd)
failed=0
summary=
for way in "${ways[@]}"; do
	option=()
	[ "$way" = plain ] || option=(--systemd)
	began=$SECONDS
	out=$work/out-$way
	if "$here/run.sh" "${option[@]}" "$tree" "$out" "$(sed "s/ WAY\$/ $way/" "$work/job")"; then
		result=passed
	else
		result="failed ($?)"
		failed=1
	fi
	counts=$(cat "$out/counts" 2>/dev/null || echo "no counts came back")
	summary+="test-vm $way: $result; $counts; $((SECONDS - began)) s"$'\n'
done
printf '%s' "$summary"
exit $failed
