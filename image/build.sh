#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds the root file system of sandbox-base:latest from Debian's packages.
#
#   build.sh OUTDIR           makes OUTDIR/rootfs.tar and OUTDIR/packages.lock (as root)
#   build.sh --check OUTDIR   tells whether OUTDIR holds what packages.lock in this folder says
#   build.sh --lock OUTDIR    takes OUTDIR's list of versions over into packages.lock here
#
# Packages come from wherever this machine's apt takes bookworm from. OUTDIR appears complete or not
# at all: everything is made in OUTDIR.tmp, which an interrupted run may leave and the next one removes.
set -eu
umask 022
export LC_ALL=C

suite=bookworm
here=$(cd "$(dirname "$0")" && pwd)

say()
{
	printf 'image: %s\n' "$*"
}

die()
{
	printf 'image: %s\n' "$*" >&2
	exit 1
}

# The lines of packages.lock that differ from $1, "-" wanted and "+" found.
differences()
{
	diff -U 0 "$here/packages.lock" "$1" | grep '^[-+][^-+]' || true
}

check()
{
	[ -f "$here/packages.lock" ] || die "there is no $here/packages.lock to compare with"
	[ -f "$1/rootfs.tar" ] || die "there is no image in $1"
	changed=$(differences "$1/packages.lock")
	if [ -n "$changed" ]; then
		printf '%s\n' "$changed"
		die "$1 does not hold what packages.lock says"
	fi
	say "$1 holds exactly the $(grep -c . "$here/packages.lock") packages of packages.lock"
}

# One-line apt sources for the suite, from what apt itself says it is configured with (the format of
# the files, /etc/apt/sources.list or deb822, does not matter then).
sources()
{
	apt-get indextargets --no-release-info \
		--format 'deb $(SITE) $(RELEASE) $(COMPONENT)|$(RELEASE)|$(COMPONENT)|$(ORIGIN)' \
		'Created-By: Packages' |
		awk -F'|' -v suite="$suite" '
			($2 == suite || index($2, suite "-") == 1) && $3 == "main" &&
			($4 == "Debian" || index($4, "$(") == 1) { print $1 }' | sort -u
}

build()
{
	out=$1
	tmp=$out.tmp
	[ "$(id -u)" = 0 ] || die "building the base image needs root"
	command -v mmdebstrap >/dev/null || die "mmdebstrap is missing: apt-get install mmdebstrap"
	started=$(date +%s)
	mkdir -p "$(dirname "$out")"
	exec 9<"$(dirname "$out")"
	flock 9 # one build at a time in that folder

	say "1/5 asking apt where this machine takes $suite from"
	list=$(sources)
	[ -n "$list" ] ||
		die "apt has no lists of Debian's $suite: configure it in /etc/apt and run apt-get update"

	packages=$(sed -e 's/#.*//' "$here/packages.txt" | tr -s ' \t\n' ',' | sed 's/^,//; s/,$//')
	say "2/5 installing $(printf '%s' "$packages" | tr ',' '\n' | grep -c .) packages and what they need"
	rm -rf "$tmp"
	mkdir -p "$tmp"
	trap 'rm -rf "$tmp"' EXIT
	trap 'exit 130' INT TERM HUP
	printf '%s\n' "$list" | mmdebstrap --quiet --mode=root --variant=essential --format=directory \
		--include="$packages" \
		--aptopt='APT::Install-Recommends "false"' \
		--aptopt='Acquire::Languages "none"' \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-include=/usr/share/doc/*/copyright' \
		--dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/info/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt='path-exclude=/usr/share/lintian/*' \
		--dpkgopt='path-exclude=/usr/share/bash-completion/*' \
		"$suite" "$tmp/root" - >"$tmp/log" 2>&1 || {
		tail -n 20 "$tmp/log" >&2
		die "installing the packages failed"
	}

	say "3/5 writing the list of versions"
	dpkg-query --admindir="$tmp/root/var/lib/dpkg" -W \
		-f='${Package} ${Version} ${Architecture}\n' | sort >"$tmp/packages.lock"
	if [ -f "$here/packages.lock" ]; then
		n=$(differences "$tmp/packages.lock" | grep -c '^+' || true)
		[ "$n" = 0 ] || say "    $n packages are in another version than packages.lock has"
	fi

	say "4/5 users, names, mount points; removing caches, set-id bits and device nodes"
	sh "$here/finish.sh" "$tmp/root"

	say "5/5 packing"
	tar --create --file="$tmp/rootfs.tar" --directory="$tmp/root" --sort=name --numeric-owner \
		--format=pax --pax-option=delete=atime,delete=ctime --one-file-system .
	rm -rf "$tmp/root" "$tmp/log"
	rm -rf "$out"
	mv -T "$tmp" "$out"
	trap - EXIT
	say "$out/rootfs.tar: $(($(stat -c %s "$out/rootfs.tar") / 1048576)) MiB," \
		"$(grep -c . "$out/packages.lock") packages, $(($(date +%s) - started)) s"
}

case ${1-} in
--check)
	check "${2:?the folder of an image}"
	;;
--lock)
	cp "${2:?the folder of an image}/packages.lock" "$here/packages.lock"
	;;
'' | -*)
	die "use: build.sh [--check|--lock] OUTDIR"
	;;
*)
	build "${1%/}"
	;;
esac
