#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# finish.sh ROOT: turns freshly installed packages into the read-only root of a sandbox. Every path is
# below ROOT, which nobody else writes to.
set -eu
umask 022
root=$1
[ -d "$root/usr/bin" ]

# Who and where one is inside. The tenant is uid 1000; /tmp is the only home that it can write to.
cat >"$root/etc/passwd" <<'EOF'
root:x:0:0:root:/root:/usr/sbin/nologin
sandbox:x:1000:1000:sandbox:/tmp:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
EOF
cat >"$root/etc/group" <<'EOF'
root:x:0:
tty:x:5:
sandbox:x:1000:
nogroup:x:65534:
EOF
rm -f "$root/etc/shadow" "$root/etc/gshadow" "$root"/etc/passwd- "$root"/etc/group- \
	"$root"/etc/shadow- "$root"/etc/gshadow- "$root/etc/subuid" "$root/etc/subgid"
rm -f "$root/etc/hostname" "$root/etc/hosts" "$root/etc/resolv.conf" "$root/etc/localtime"
printf 'sandbox\n' >"$root/etc/hostname"
printf '127.0.0.1 localhost sandbox\n::1 localhost\n' >"$root/etc/hosts"
# Without egress nothing listens there, and a look-up fails at once instead of waiting.
printf 'nameserver 127.0.0.1\noptions timeout:2 attempts:1\n' >"$root/etc/resolv.conf"
printf 'hosts: files dns\npasswd: files\ngroup: files\n' >"$root/etc/nsswitch.conf"
ln -sf /proc/self/mounts "$root/etc/mtab"
ln -sf /usr/share/zoneinfo/Etc/UTC "$root/etc/localtime"
: >"$root/etc/machine-id"

ln -sf python3 "$root/usr/bin/python"

# A start of Python that finds no compiled file costs three times as much, and the root is read-only.
chroot "$root" /usr/bin/python3 -m compileall -q -j 2 /usr/lib/python3.11 /usr/lib/python3 \
	>/dev/null 2>&1 || true
[ -n "$(find "$root/usr/lib/python3.11/__pycache__" -name 'os.cpython-311.pyc')" ]

# Caches and logs of the installation, and what only a machine that boots needs.
for path in var/cache var/lib/apt var/lib/systemd var/lib/pam var/log var/backups var/tmp var/mail \
	var/spool tmp run dev proc sys boot media mnt srv home opt root etc/apt etc/systemd etc/init.d \
	etc/cron.daily etc/cron.d etc/rc0.d etc/rcS.d etc/logrotate.d etc/pam.d etc/security \
	etc/kernel etc/fstab etc/.pwd.lock lib/systemd lib/udev lib/init \
	usr/share/doc-base usr/share/gitweb usr/share/git-core/contrib \
	'usr/lib/*-linux-gnu/perl/*/CORE'; do
	# shellcheck disable=SC2086 # the one pattern in the list is meant to be one
	rm -rf "${root:?}"/$path
done
find "$root/usr/share/doc" -mindepth 1 -type d -empty -delete

# Mount points and folders that programs expect.
mkdir -p "$root/dev" "$root/proc" "$root/sys" "$root/run" "$root/tmp" "$root/workspace" \
	"$root/snapshot" "$root/root" "$root/home" "$root/opt" "$root/mnt" "$root/var/cache" \
	"$root/var/log" "$root/var/lib" "$root/usr/local/bin"
chmod 1777 "$root/tmp"
ln -s /tmp "$root/var/tmp"

# Nothing in here gives anybody a right: no set-id bit, no file capability, no device, no FIFO, no
# socket, nothing writable for others but the mount point /tmp.
find "$root" -xdev ! -type l -perm /6000 -exec chmod u-s,g-s {} +
find "$root" -xdev \( -type b -o -type c -o -type p -o -type s \) -delete
find "$root" -xdev ! -type l -perm /022 ! -path "$root/tmp" -exec chmod go-w {} +
