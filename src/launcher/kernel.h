// SPDX-License-Identifier: Apache-2.0
/*
 * kernel: constants of newer kernels that the headers of the build machine may lack, each with the
 * kernel file that defines it. Using one on an older kernel gives an error that the caller expects.
 */
#pragma once

/* include/uapi/linux/btrfs.h, since 6.7: owner-based accounting that costs nothing per snapshot.
 * Older kernels answer EINVAL. */
#ifndef BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA
#define BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA 4
#endif
