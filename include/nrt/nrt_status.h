/* SPDX-License-Identifier: Apache-2.0 */
/* Generated from the tables in abi/ by `make abi`; edit those, not this file. */

/** @file
 * Status of a call.
 */
#ifndef OPENNRT_NRT_STATUS_H
#define OPENNRT_NRT_STATUS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum NRT_STATUS {
    /** Operation succeeded. */
    NRT_SUCCESS = 0,
    /** Unspecific failure. */
    NRT_FAILURE = 1,
    /** Bad argument, NEFF, or tensor binding. */
    NRT_INVALID = 2,
    /** Handle not recognised. */
    NRT_INVALID_HANDLE = 3,
    /** A needed resource, usually device memory, could not be had. */
    NRT_RESOURCE = 4,
    /** Time limit passed. */
    NRT_TIMEOUT = 5,
    /** Unclassified hardware fault. */
    NRT_HW_ERROR = 6,
    /** No room in the request queue. */
    NRT_QUEUE_FULL = 7,
    /** Too few cores for the NEFF. */
    NRT_LOAD_NOT_ENOUGH_NC = 9,
    /** NEFF version not accepted. */
    NRT_UNSUPPORTED_NEFF_VERSION = 10,
    /** Host allocation failed (legacy). */
    NRT_FAIL_HOST_MEM_ALLOC = 11,
    /** Called before init. */
    NRT_UNINITIALIZED = 13,
    /** Called after close. */
    NRT_CLOSED = 14,
    /** Nothing to dequeue. */
    NRT_QUEUE_EMPTY = 15,
    /** Execution unit is dead. */
    NRT_EXEC_UNIT_UNRECOVERABLE = 101,
    /** Bad input given to execute. */
    NRT_EXEC_BAD_INPUT = 1002,
    /** Finished, but numerical error seen (NaN). */
    NRT_EXEC_COMPLETED_WITH_NUM_ERR = 1003,
    /** Finished, but logical or parity error seen. */
    NRT_EXEC_COMPLETED_WITH_ERR = 1004,
    /** Core held by another model or process. */
    NRT_EXEC_NC_BUSY = 1005,
    /** Indirect copy or embedding update went out of range. */
    NRT_EXEC_OOB = 1006,
    /** Collective not finished yet, not an error. */
    NRT_COLL_PENDING = 1100,
    /** Hang inside a collective. */
    NRT_EXEC_HW_ERR_COLLECTIVES = 1200,
    /** HBM error that cannot be corrected or repaired. */
    NRT_EXEC_HW_ERR_HBM_UE = 1201,
    /** Parity error in core memory. */
    NRT_EXEC_HW_ERR_NC_UE = 1202,
    /** DMA engine gave up. */
    NRT_EXEC_HW_ERR_DMA_ABORT = 1203,
    /** Software notification queue overran. */
    NRT_EXEC_SW_NQ_OVERFLOW = 1204,
    /** HBM error, uncorrectable but repairable. */
    NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE = 1205,
    /** EFA proxy failed. */
    NRT_NETWORK_PROXY_FAILURE = 1206,
} NRT_STATUS;

/**
 * Name of a status, UNKNOWN for a number that is none; static text. The vendor header declares it
 * but its library keeps it to itself. Works on every backend; callable in every state. Version
 * node OPENNRT_1.0.
 */
const char *nrt_get_status_as_str(NRT_STATUS status);

#ifdef __cplusplus
}
#endif

#endif
