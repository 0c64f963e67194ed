#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints image-key.h for the image/ folder given. Where the key cannot be made (no dpkg), images of
# this build have no key and are never found.
key=$(sh "$1/key.sh" 2>/dev/null) || key=
printf '#pragma once\n\n#define IMAGE_KEY "%s"\n' "${key:-none}"
