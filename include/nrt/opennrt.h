/* SPDX-License-Identifier: Apache-2.0 */
/* Generated from the tables in abi/ by `make abi`; edit those, not this file. */

/** @file
 * What OpenNRT adds to the vendor's surface.
 */
#ifndef OPENNRT_OPENNRT_H
#define OPENNRT_OPENNRT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nrt/nrt_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Which backend is up: fake, kernel or none; static text. Works on every backend; callable in
 * every state. Version node OPENNRT_1.0.
 */
const char *opennrt_backend(void);

/**
 * The two configuration records for conformance tests, owned by the library; the second is NULL
 * while the runtime is not up. Works on every backend; callable in every state. Version node
 * OPENNRT_1.0.
 */
NRT_STATUS opennrt_config_raw(const void **cfg, size_t *cfg_len, const void **gcfg, size_t *gcfg_len);

/**
 * Version of OpenNRT itself; static text. Works on every backend; callable in every state. Version
 * node OPENNRT_1.0.
 */
const char *opennrt_version(void);

#ifdef __cplusplus
}
#endif

#endif
