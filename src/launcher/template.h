// SPDX-License-Identifier: Apache-2.0
/*
 * template: a mount namespace whose root is what every sandbox of one tenant and image starts from:
 * a small read-only tmpfs, on it the top folders of the tenant's copy of the image (read-only,
 * nosuid, nodev), a read-only /dev with six nodes, and a procfs of a pid namespace in which nobody
 * lives (the kernel lets a user namespace mount /proc only where one is visible already). A sandbox
 * is cloned from inside it, so all of this costs nothing per sandbox, and arrives locked: no mount
 * of it can be removed or made writable from a lesser user namespace.
 *
 * The mount points are ours; the image's own proc, sys, dev, tmp, run, workspace are never used.
 * Used by the builder. No heap.
 */
#pragma once

#include "base/err.h"

/* image: descriptor of the image's root in the caller's mount namespace. */
int template_make(int image, int *ret_namespace, struct err *err);
