#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# mkimage.sh CACHE: makes the guest of `make test-vm`, once: CACHE/vm-<hash>/vmlinuz and root.img (ext4),
# a small Debian 12 with Debian's cloud kernel and its cgroup v2. Prints that directory. Needs root and
# the package sources of this machine. No initramfs: that kernel has NVMe and ext4 built in, so the root
# is an NVMe disk; the job's disk is another kind, so that their names cannot change places.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${1:?usage: mkimage.sh CACHE}
# Another kernel of Debian, to try what newer ones can do: linux-image-6.12-cloud-amd64.
meta=${VM_KERNEL:-linux-image-cloud-amd64}

packages=systemd,systemd-sysv,dbus,udev,kmod,procps,iproute2,e2fsprogs,btrfs-progs,strace,git,curl
packages+=,python3,python3-pytest,ca-certificates
packages+=,libuv1,libjansson4,libsqlite3-0,libc-ares2,libcurl4,libssl3,libseccomp2,libcmocka0
# For what an operator does, without a network.
packages+=,make,meson,mmdebstrap,caddy

out=$cache/vm-$({ echo "$meta"; cat "$here"/mkimage.sh "$here"/guest/*; } | sha256sum | cut -c1-16)
if [ -e "$out/root.img" ]; then
	echo "$out"
	exit
fi
[ "$(id -u)" = 0 ] || { echo "mkimage.sh: making the guest's disk needs root" >&2; exit 1; }

mkdir -p "$cache"
work=$(mktemp -d "$cache/vm-making.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

kernel=$(apt-cache depends "$meta" | awk '/Depends: linux-image-/ { print $2; exit }')
[ -n "$kernel" ] || { echo "mkimage.sh: apt knows no $meta" >&2; exit 1; }
version=${kernel#linux-image-}
apt-get -o APT::Sandbox::User=root download -qq "$kernel" >&2
dpkg-deb -x "$kernel"_*.deb kernel
cp "kernel/boot/vmlinuz-$version" vmlinuz
modules=kernel/lib/modules/$version/kernel
rm -rf "$modules"/sound "$modules"/drivers/{gpu,infiniband,scsi,target,ata}

cat >customize <<SCRIPT
#!/bin/sh
set -e
cp -a "$work/kernel/lib/modules" "\$1/lib/"
chroot "\$1" depmod "$version"
install -m 755 "$here/guest/vm-init" "\$1/sbin/vm-init"
install -m 644 "$here"/guest/*.service "$here"/guest/*.target "\$1/etc/systemd/system/"
rm "\$1/etc/systemd/system/multi-user.target.wants/caddy.service"
echo 00000000000000000000000000000001 >"\$1/etc/machine-id"
: >"\$1/etc/fstab"
echo 127.0.0.1 localhost >"\$1/etc/hosts"
mkdir -p "\$1/job"
SCRIPT
chmod 755 customize
mmdebstrap --quiet --variant=minbase --mode=root --aptopt='APT::Install-Recommends "false"' \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
	--include="$packages" --customize-hook="$work/customize" bookworm root >&2

mke2fs -q -t ext4 -O ^has_journal -m 0 -d root root.img 900M >/dev/null
mkdir -p made
mv vmlinuz root.img made/
mv -T made "$out" 2>/dev/null || [ -e "$out/root.img" ]
echo "$out"
