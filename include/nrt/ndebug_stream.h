/* SPDX-License-Identifier: Apache-2.0 */
/* Generated from the tables in abi/ by `make abi`; edit those, not this file. */

/** @file
 * Debug event stream of a core.
 */
#ifndef OPENNRT_NDEBUG_STREAM_H
#define OPENNRT_NDEBUG_STREAM_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nrt/nrt_status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ndebug_stream_event_type_t {
    /** No event. */
    NDEBUG_STREAM_EVENT_TYPE_INVALID = 0,
    /** Tensor dump from device code. */
    NDEBUG_STREAM_EVENT_TYPE_DEBUG_TENSOR_READ = 1,
} ndebug_stream_event_type_t;

typedef struct ndebug_stream_event_header {
    uint64_t data_size;
    uint32_t type;
    char reserved[52];
} ndebug_stream_event_header_t;

/**
 * 2.31.24.0 also carries a physical core id and a global rank id at unknown places in the reserved
 * area.
 */
typedef struct ndebug_stream_payload_debug_tensor_read {
    char prefix[512];
    uint32_t logical_nc_id;
    uint32_t pipe;
    char tensor_dtype[16];
    uint64_t tensor_shape[8];
    uint64_t tensor_data_size;
    char reserved0[416];
    __extension__ char tensor_data[];
} ndebug_stream_payload_debug_tensor_read_t;

#if defined(__x86_64__) && defined(__LP64__) && (defined(static_assert) || defined(__cplusplus))
static_assert(sizeof(ndebug_stream_event_header_t) == 64, "ndebug_stream_event_header_t is 64 bytes");
static_assert(sizeof(ndebug_stream_payload_debug_tensor_read_t) == 1024, "ndebug_stream_payload_debug_tensor_read_t is 1024 bytes");
#endif

/**
 * Opens the debug event stream of a core. One client per core, a second gets NRT_INVALID; the
 * descriptor is for poll and the nrt_debug_client calls only. The gate is our choice. Not
 * implemented yet: logs an error and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_debug_client_connect(int logical_nc_idx, int *stream_fd);

/**
 * Closes a debug event stream. The gate is our choice. Not implemented yet: logs an error and
 * fails; callable in every state. Version node NRT_2.0.0.
 */
void nrt_debug_client_connect_close(int stream_fd);

/**
 * Takes one event; the caller frees the payload with free(). NRT_QUEUE_EMPTY when there is none.
 * One thread per stream. The gate is our choice. Not implemented yet: logs an error and fails;
 * needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_debug_client_read_one_event(int stream_fd, ndebug_stream_event_header_t *header, void **payload);

#ifdef __cplusplus
}
#endif

#endif
