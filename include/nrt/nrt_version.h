/* SPDX-License-Identifier: Apache-2.0 */
/* Generated from the tables in abi/ by `make abi`; edit those, not this file. */

/** @file
 * Version of the runtime.
 */
#ifndef OPENNRT_NRT_VERSION_H
#define OPENNRT_NRT_VERSION_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nrt/nrt_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Length of the version text with its NUL. */
#define RT_VERSION_DETAIL_LEN 128
/** Length of the commit hash field. */
#define GIT_HASH_LEN 64

typedef struct nrt_version {
    uint64_t rt_major;
    uint64_t rt_minor;
    uint64_t rt_patch;
    uint64_t rt_maintenance;
    char rt_detail[128];
    char git_hash[64];
} nrt_version_t;

#if defined(__x86_64__) && defined(__LP64__) && (defined(static_assert) || defined(__cplusplus))
static_assert(sizeof(nrt_version_t) == 224, "nrt_version_t is 224 bytes");
#endif

/**
 * Fills a version record of 224 bytes. A size below 160 is NRT_FAILURE; the commit hash is written
 * only above 200; never more than size bytes are. Works on every backend; callable in every state.
 * Version node NRT_2.0.0.
 */
NRT_STATUS nrt_get_version(nrt_version_t *ver, size_t size);

#ifdef __cplusplus
}
#endif

#endif
