#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `make test-vm`: the reduced suite in a guest with Debian 12's own kernel and cgroup v2, first plain,
# then as a service under systemd with Delegate=yes; then the operator's page, from `make install` to
# `make uninstall`, in a guest that boots as usual. BUILD names the build (build unless set), CACHE the
# folder with the base image. Arguments name the ways: plain, systemd, install. Ends with one line for
# each.
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
cp -a "$root"/{src,test,image,sdk,deploy,docs,Makefile,README.md} "$tree"/
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

# What `meson install` reads, and the programs of a later version: a build of its own, outside of any
# repository, so that it is known by that version.
prepare_install()
{
	cp -a "$build/meson-private" "$tree/build/"
	mkdir "$work/next" "$tree/next" "$tree/build/meson-logs"
	cp -a "$root"/{src,test,image,meson.build,meson_options.txt} "$work/next"/
	sed -i "s/^    version: '.*',/    version: '99.0.0',/" "$work/next/meson.build"
	(cd "$work/next" && meson setup build >log && ninja -C build "${programs[@]}" >log) ||
		{ tail "$work/next/log"; exit 1; }
	cp "${programs[@]/#/$work/next/build/}" "$tree/next/"
	strip --strip-debug "$tree"/next/*
}

programs=(airlock airlockd airlock-gateway airlock-launcher airlock-init)
ways=("$@")
[ $# -gt 0 ] || ways=(plain systemd install)
failed=0
summary=
for way in "${ways[@]}"; do
	option=() job=$(sed "s/ WAY\$/ $way/" "$work/job")
	case $way in
	systemd) option=(--systemd) ;;
	install)
		option=(--boots)
		prepare_install
		job="mkdir -p '$root' && mount --bind /job/tree '$root' && cd '$root' && "
		job+="exec /usr/bin/python3 -u test/vm/install.py"
		;;
	esac
	began=$SECONDS
	out=$work/out-$way
	if "$here/run.sh" "${option[@]}" "$tree" "$out" "$job"; then
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
