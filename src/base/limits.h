// SPDX-License-Identifier: Apache-2.0
/*
 * limits: every length that an outsider controls, by name. Sizes in bytes unless the name says
 * otherwise. Sources: the contract in docs/api.md, and kernel limits where noted.
 */
#pragma once

#define KIB 1024u
#define MIB (1024u * 1024u)

/* HTTP framing */
#define LIMIT_TARGET 16384u
#define LIMIT_HEAD 16384u
#define LIMIT_METHOD 32u
#define LIMIT_HEADER_FIELDS 100u
#define LIMIT_OUTER_ID 64u
#define LIMIT_HEAD_MS 10000
#define LIMIT_CHUNK_EXTENSIONS 1024u
#define LIMIT_BODY_PAUSE_MS 30000
/* From then on a body must have come at this rate on average. */
#define LIMIT_BODY_SLOW_MS 300000
#define LIMIT_BODY_BYTES_PER_S 1024
/* Queued bytes of which the client takes none. A receiving kernel opens a closed window only when a
 * sixteenth of its buffer (6 MiB at most) is free: at 10 kB/s that is 40 s of standing still. */
#define LIMIT_WRITE_STALL_MS 60000
/* Waiting for the client to close after an ordinary last answer. */
#define LIMIT_LINGER_MS 2000
#define LIMIT_KEEPALIVE_MS 75000
#define LIMIT_JSON_BODY (1u * MIB)
#define LIMIT_DRAIN (128u * MIB)
/* More than an upload may have where nothing else is configured: a client that is cut off while it
 * sends one with a wrong key would see a lost connection and not its 401, and send it again. */
#define LIMIT_DRAIN_REFUSED (64u * MIB)
#define LIMIT_DRAIN_MS 30000
#define LIMIT_BODIES_ALL (256u * MIB)
#define LIMIT_BODIES_TENANT (96u * MIB)

/* JSON */
#define LIMIT_JSON_DEPTH 32u
#define LIMIT_JSON_VALUES 10000u

/* Keys and ids */
#define LIMIT_KEY 512u
#define LIMIT_TENANT_NAME 63u
#define LIMIT_TEMPLATE_NAME 200u

/* Commands: MAX_ARG_STRLEN (include/uapi/linux/binfmts.h) is 131,072 with the NUL. */
#define LIMIT_COMMAND 131071u
#define LIMIT_STDIN (1u * MIB)
#define LIMIT_ENV_VARS 32u
#define LIMIT_ENV_VALUE 8192u
#define LIMIT_ENV_TOTAL (64u * KIB)
#define LIMIT_PARTIAL_OUTPUT (64u * KIB)

/* Paths: PATH_MAX and NAME_MAX without the NUL (include/uapi/linux/limits.h). */
#define LIMIT_PATH 4096u
#define LIMIT_PATH_PART 255u
