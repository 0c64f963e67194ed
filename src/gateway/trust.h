// SPDX-License-Identifier: Apache-2.0
/*
 * trust: the certificates that this host trusts, as update-ca-certificates(8) keeps them in one
 * file. They are read when they are first needed, and again when the file has become another one:
 * to parse them for each connection would cost every tunnel some milliseconds each time.
 */
#pragma once

#include <openssl/ossl_typ.h>

#define TRUST_DIR "/etc/ssl/certs"
#define TRUST_FILE TRUST_DIR "/ca-certificates.crt"

/* Borrowed until the next call. NULL: the file cannot be read, or has no certificate in it. */
X509_STORE *trust_store(void);
void trust_fini(void);
