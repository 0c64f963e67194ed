#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The part of `make install` that Meson does not do: the unit, /etc/airlock, the manual page, the recipe
# of the base image, and, when installing into the running system (no DESTDIR), the users and that image.
set -eu
cd "$(dirname "$0")/.."
prefix=${PREFIX:-/usr/local}
dest=${DESTDIR-}

install -d -m 0755 "$dest/etc/airlock" "$dest/etc/systemd/system" "$dest$prefix/share/man/man1"
rm -rf "$dest$prefix/share/airlock"
install -d -m 0755 "$dest$prefix/share/airlock/image"
install -m 0755 -t "$dest$prefix/share/airlock/image" image/*.sh
install -m 0644 -t "$dest$prefix/share/airlock/image" image/packages.*
sed "s|@bindir@|$prefix/bin|" deploy/airlock.service >"$dest/etc/systemd/system/airlock.service"
chmod 0644 "$dest/etc/systemd/system/airlock.service"
install -m 0644 deploy/airlock.1 "$dest$prefix/share/man/man1/airlock.1"
# An operator's configuration is never overwritten; it holds keys.
[ -e "$dest/etc/airlock/airlock.conf" ] ||
	install -m 0600 deploy/airlock.conf "$dest/etc/airlock/airlock.conf"

[ -z "$dest" ] || exit 0
deploy/deps.sh run
deploy/image.sh "${CACHE:-/var/cache/airlock}"
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	if systemctl --quiet is-active airlock; then
		echo "To change over to it: systemctl restart airlock"
	else
		echo "Put a key into /etc/airlock/airlock.conf, then: systemctl enable --now airlock"
	fi
fi
