#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The only step that downloads: deps.sh GROUP... says what this machine lacks and installs it, from
# Debian's packages and, for the tests, published wheels at pinned versions. Also makes the
# unprivileged users that the daemons run as. Quiet when nothing is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${CACHE:-/var/cache/airlock}

declare -A packages=(
	[build]="gcc meson ninja-build pkg-config python3 libuv1-dev libjansson-dev libsqlite3-dev
		libssl-dev libcurl4-openssl-dev libseccomp-dev libc-ares-dev node-llhttp libcmocka-dev git
		libarchive-dev zlib1g-dev"
	[run]="mmdebstrap btrfs-progs ca-certificates"
	[test]="python3-pytest python3-pip clang-format cppcheck strace caddy libclang-rt-14-dev clang
		dnsmasq-base iproute2 openssl"
	[fuzz]="clang libclang-rt-14-dev"
	[bench]="bubblewrap runc tinyproxy-bin dnsmasq-base iproute2 openssl nginx-light nghttp2-client"
	[vm]="qemu-system-x86 mmdebstrap e2fsprogs"
)

say()
{
	printf 'deps: %s\n' "$*"
}

die()
{
	printf 'deps: %s\n' "$*" >&2
	exit 1
}

installed()
{
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

install_packages()
{
	local group package missing=()
	for group; do
		[ -n "${packages[$group]-}" ] || die "no group '$group': ${!packages[*]}"
		for package in ${packages[$group]}; do
			installed "$package" || missing+=("$package")
		done
	done
	[ ${#missing[@]} = 0 ] && return
	say "missing: ${missing[*]}"
	[ "$(id -u)" = 0 ] || die "install them as root: apt-get install ${missing[*]}"
	command -v apt-get >/dev/null || die "this machine has no apt-get; install their equivalents"
	export DEBIAN_FRONTEND=noninteractive
	apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null 2>&1 ||
		{ apt-get update -qq &&
			apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null; } ||
		die "apt-get could not install them"
	# A package may bring a service of its own that would take ports; nothing here needs it running.
	if [ -d /run/systemd/system ]; then
		for package in "${missing[@]}"; do
			case $package in
			caddy | nginx-light) systemctl disable --now "${package%-light}" >/dev/null 2>&1 || true ;;
			esac
		done
	fi
	say "installed"
}

make_users()
{
	local user
	for user in airlock airlock-gw; do
		getent passwd "$user" >/dev/null && continue
		[ "$(id -u)" = 0 ] || {
			say "the user '$user' is missing: run this as root once"
			continue
		}
		useradd --system --user-group --no-create-home --home-dir /nonexistent \
			--shell /usr/sbin/nologin "$user"
		say "made the user $user"
	done
}

# A wheel that cannot be had is not the end: its tests are then skipped, and counted.
fetch_wheels()
{
	local wheels=$cache/wheels line name version log
	[ -w "$cache" ] || mkdir -p "$cache" 2>/dev/null || return 0
	mkdir -p "$wheels"
	while read -r line; do
		[[ $line =~ ^([a-z0-9-]+)==([0-9.]+)\ --hash= ]] || continue
		name=${BASH_REMATCH[1]//-/_} version=${BASH_REMATCH[2]}
		compgen -G "$wheels/$name-$version-*.whl" >/dev/null && continue
		say "fetching $name $version"
		log=$(printf '%s\n' "$line" | /usr/bin/python3 -m pip download --quiet --no-deps \
			--require-hashes --only-binary :all: --no-cache-dir --disable-pip-version-check \
			-d "$wheels" -r /dev/stdin 2>&1) || say "not available: ${log##*$'\n'}"
	done <test/requirements.txt
}

install_packages "$@"
for group; do
	case $group in
	run) make_users ;;
	test) fetch_wheels ;;
	esac
done
