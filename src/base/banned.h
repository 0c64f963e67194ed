// SPDX-License-Identifier: Apache-2.0
/*
 * banned: calls that have no safe use here. Force-included into every file of ours, so that using
 * one breaks the build. What to use instead: buf and snprintf, num_parse, posix_spawn with a fixed
 * argv, sigaction, strerrordesc_np.
 */
#pragma once

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Macros in some headers, and a macro cannot be poisoned. */
#undef alloca
#undef sprintf
#undef vsprintf

#pragma GCC poison strcpy strcat stpcpy strncpy strncat sprintf vsprintf strtok strtok_r gets
#pragma GCC poison atoi atol atoll atof system popen alloca tmpnam mktemp tempnam
#pragma GCC poison asctime gmtime localtime strerror readdir_r vfork

/* A kernel header has a member of this name, so the word can't be poisoned; the call can, by gcc. */
#ifndef __clang__
char *ctime(const time_t *when) __attribute__((error("ctime is banned")));
#endif
