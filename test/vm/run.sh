#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh [--systemd|--boots] TREE OUT COMMAND
#
# Copies TREE onto a disk, starts a guest (Debian 12's cloud kernel, cgroup v2, QEMU without hardware
# support) and runs COMMAND in that tree as root: from a 20-line PID 1, with --systemd as a service with
# Delegate=yes, or with --boots in a system that boots as usual and has a root disk of its own: the
# command may reboot it and is run again then. What the command leaves in /job/out comes back to OUT.
# Exit status is the command's; 125 when the guest did not get that far (VM_TIMEOUT, 1100 seconds unless
# set, for each boot).
#
# run.sh without arguments is `make test-vm`: see suite.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || exec "$here/suite.sh"

init="init=/sbin/vm-init" boots=1
case $1 in
--systemd)
	init="init=/lib/systemd/systemd systemd.unit=job.target systemd.show_status=0"
	shift
	;;
--boots)
	init="init=/lib/systemd/systemd systemd.unit=boots.target systemd.show_status=0"
	init+=" systemd.mask=serial-getty@ttyS0.service"
	boots=4
	shift
	;;
esac
[ $# = 3 ] || { sed -n '4,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }
tree=$1 out=$2 command=$3

guest=$("$here/mkimage.sh" "${CACHE:-/var/cache/airlock}")
work=$(mktemp -d "${TMPDIR:-/tmp}/airlock-vm.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/job/out" "$out"
cp -a "$tree" "$work/job/tree"
printf 'cd /job/tree\n%s\n' "$command" >"$work/job/cmd"
mke2fs -q -t ext4 -O ^has_journal -m 0 -d "$work/job" "$work/job.img" "${VM_DISK:-12G}" >/dev/null
rm -rf "$work/job"

root=$guest/root.img snapshot=on
if [ $boots -gt 1 ]; then
	root=$work/root.img snapshot=off
	cp --sparse=always "$guest/root.img" "$root"
	truncate -s 8G "$root"
	resize2fs -f "$root" >/dev/null 2>&1
fi

boot()
{
	timeout "${VM_TIMEOUT:-1100}" qemu-system-x86_64 -accel tcg,thread=multi -machine q35 -cpu max -smp 2 \
		-m "${VM_MEMORY:-2048}" -nodefaults -no-user-config -display none -no-reboot -serial stdio \
		-drive if=none,id=root,file="$root",format=raw,snapshot=$snapshot,cache=unsafe \
		-device nvme,drive=root,serial=root \
		-drive if=none,id=job,file="$work/job.img",format=raw,cache=unsafe \
		-device virtio-blk-pci,drive=job \
		-kernel "$guest/vmlinuz" \
		-append "root=/dev/nvme0n1 rw $init console=ttyS0 quiet panic=-1" </dev/null | tr -d '\r' ||
		[ "${PIPESTATUS[0]}" != 124 ] || boots=0
	status=$(debugfs -R 'cat /rc' "$work/job.img" 2>/dev/null || true)
}

# A guest that reboots ends its QEMU.
status=
for ((i = 0; i < boots; i++)); do
	boot
	[ -z "$status" ] || break
done
debugfs -R "rdump /out $work" "$work/job.img" >/dev/null 2>&1 || true
cp -a "$work/out/." "$out/" 2>/dev/null || true
exit "${status:-125}"
