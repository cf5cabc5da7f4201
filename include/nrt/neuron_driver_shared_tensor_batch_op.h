/* SPDX-License-Identifier: Apache-2.0 */
/* Generated from the tables in abi/ by `make abi`; edit those, not this file. */

/** @file
 * One transfer of a batch.
 */
#ifndef OPENNRT_NEURON_DRIVER_SHARED_TENSOR_BATCH_OP_H
#define OPENNRT_NEURON_DRIVER_SHARED_TENSOR_BATCH_OP_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t nrt_tensor_batch_offset_t;
typedef uint64_t nrt_tensor_batch_size_t;

typedef struct nrt_tensor_batch_op {
    nrt_tensor_batch_offset_t offset;
    nrt_tensor_batch_size_t size;
    void *buffer;
} nrt_tensor_batch_op_t;

#if defined(__x86_64__) && defined(__LP64__) && (defined(static_assert) || defined(__cplusplus))
static_assert(sizeof(nrt_tensor_batch_op_t) == 24, "nrt_tensor_batch_op_t is 24 bytes");
#endif

#ifdef __cplusplus
}
#endif

#endif
