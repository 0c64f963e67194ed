#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `make uninstall`: stops the service and takes away what `make install` put there. What is the
# operator's stays, with the two users that own it: configuration, sessions and their files, images.
# PURGE=1 takes these too.
set -eu
prefix=${PREFIX:-/usr/local}
dest=${DESTDIR-}
unit=$dest/etc/systemd/system/airlock.service

die()
{
	printf 'uninstall: %s\n' "$*" >&2
	exit 1
}

stop()
{
	[ "$(id -u)" = 0 ] || die "this needs root"
	if [ -d /run/systemd/system ] && [ -e "$unit" ]; then
		systemctl disable --quiet --now airlock
	fi
	for lock in /run/airlock/*; do
		[ ! -e "$lock" ] || flock --nonblock "$lock" true ||
			die "a server that is no service runs on this host (airlock status); stop it first"
	done
}

purge()
{
	# Not ours to guess: it may lie on a disk that others use.
	elsewhere=$(sed -n 's/^[[:space:]]*SANDBOX_STATE_DIR[[:space:]]*=[[:space:]]*//p' \
		"$dest/etc/airlock/airlock.conf" 2>/dev/null || true)
	rm -rf "$dest/etc/airlock" "$unit.d" "$dest/var/lib/airlock" "$dest/var/lib/airlock-run" \
		"$dest/var/cache/airlock"
	[ -n "$dest" ] || for user in airlock airlock-gw; do
		! getent passwd "$user" >/dev/null || userdel "$user"
	done
	if [ -n "$elsewhere" ] && [ -e "$elsewhere" ]; then
		echo "kept: $elsewhere (SANDBOX_STATE_DIR)"
	fi
}

[ -n "$dest" ] || stop
rm -f "$unit" "$dest/etc/systemd/system/multi-user.target.wants/airlock.service" \
	"$dest$prefix/bin/airlock" "$dest$prefix/share/man/man1/airlock.1"
rm -rf "$dest$prefix/libexec/airlock" "$dest$prefix/share/airlock"
for folder in "$dest$prefix/libexec" "$dest$prefix/share/man/man1"; do
	[ ! -d "$folder" ] || rmdir --ignore-fail-on-non-empty "$folder"
done
if [ "${PURGE:-0}" = 1 ]; then
	purge
else
	echo "kept: /etc/airlock, /var/lib/airlock, /var/cache/airlock and their users (PURGE=1 takes them, too)"
fi
[ -z "$dest" ] || exit 0
rm -rf /run/airlock
[ ! -d /run/systemd/system ] || systemctl daemon-reload
