#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Makes the base image once per machine and version of image/: image.sh CACHE
set -eu
cd "$(dirname "$0")/.."
out=$1/$(image/key.sh)
[ -f "$out/rootfs.tar" ] && exit 0
[ "$(id -u)" = 0 ] || {
	echo "image: the base image is not built yet, and building it needs root" >&2
	exit 1
}
mkdir -p "$1"
# Two that want it at the same time build it once.
exec 9>"$1/lock"
flock 9
[ -f "$out/rootfs.tar" ] && exit 0
exec image/build.sh "$out"
