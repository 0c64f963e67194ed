// SPDX-License-Identifier: Apache-2.0
/*
 * paths: where the rest of Airlock is, seen from this program: in the build tree everything lies
 * beside it, installed the other programs are in ../libexec/airlock and the image's recipe in
 * ../share/airlock/image. Also the cache of images:
 *
 *   <cache>/<key of image/>/rootfs.tar   the base image, made by image/build.sh
 *   <cache>/images/<name>.tar            imported ones
 *
 * <cache> is AIRLOCK_IMAGE_CACHE, CACHE (what make hands on) or /var/cache/airlock. Strings that
 * are returned are the caller's.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

#define PATHS_BASE_IMAGE "sandbox-base:latest"

/* The first of the places where the program or file exists; NULL: nowhere. */
char *paths_program(const char *name);
char *paths_image_recipe(void);

char *paths_cache(void);
char *paths_base_tar(void);
char *paths_imported_tar(const char *name);
bool paths_image_name_ok(const char *name);
/* The place of an image's archive, whether it is there or not. */
char *paths_tar(const char *name);
/* NULL: no image of that name in the cache. */
char *paths_find_tar(const char *name);
