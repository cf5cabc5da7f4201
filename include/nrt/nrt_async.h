/* SPDX-License-Identifier: Apache-2.0 */
/* Generated from the tables in abi/ by `make abi`; edit those, not this file. */

/** @file
 * Explicit asynchronous execution.
 */
#ifndef OPENNRT_NRT_ASYNC_H
#define OPENNRT_NRT_ASYNC_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nrt/nrt.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Largest sequence number. */
#define NRTA_SEQ_NUM_MAX ((UINT64_C(1) << 48) - 1)
#define NRTA_SEQ_NUM_MASK NRTA_SEQ_NUM_MAX
/** Sequence number of a sequence. */
#define NRTA_SEQ_GET_SEQ_NUM(seq_id) ((uint64_t)(seq_id) & NRTA_SEQ_NUM_MASK)
/** Execution unit of a sequence. */
#define NRTA_SEQ_GET_XU_ID(seq_id) ((nrta_xu_id_t)((uint64_t)(seq_id) >> 48))

typedef enum nrta_xu_t {
    /** Tensor read, write, copy; 2 queues. */
    NRTA_XU_TENSOR_OP = 0,
    /** Model execution; 1 queue. */
    NRTA_XU_COMPUTE = 1,
    /** Standalone collectives; 3 queues. */
    NRTA_XU_COLLECTIVES = 2,
    /** Count. */
    NRTA_XU_TYPE_NUM = 3,
} nrta_xu_t;

typedef uint64_t nrta_seq_t;
typedef uint16_t nrta_xu_id_t;

/**
 * Makes the context of one collective; the schedule worker frees it after the operation. Not
 * implemented yet: logs an error and fails; needs nrt_init. Version node NRT_3.0.0.
 */
NRT_STATUS nrta_cc_prepare(nrt_cc_comm_t *comm, nrt_tensor_list_t *input, nrt_tensor_list_t *output, nrt_dtype_t dtype, nrt_op_type_t op, nrt_cc_op_type_t cc_op, nrt_cc_context_t **cc_ctx);

/**
 * Queues a collective; takes the context over and clears *cc_ctx on success. Queues 0 to 2. Not
 * implemented yet: logs an error and fails; needs nrt_init. Version node NRT_3.0.0.
 */
NRT_STATUS nrta_cc_schedule(nrt_cc_context_t **cc_ctx, int queue, NRT_STATUS *exec_ret, nrta_seq_t *req_sequence);

/**
 * Queues a run of a model on queue 0; exec_ret must live until completion. Not implemented yet:
 * logs an error and fails; needs nrt_init. Version node NRT_3.0.0.
 */
NRT_STATUS nrta_execute_schedule(nrt_model_t *model, const nrt_tensor_set_t *input, nrt_tensor_set_t *output, int queue, NRT_STATUS *exec_ret, nrta_seq_t *req_sequence);

/**
 * Last completed sequence of a unit and queue, with number 0 when there is none. The numbers of
 * nrta_xu_t differ from the header of 2.30. Works on every backend; needs nrt_init. Version node
 * NRT_3.0.0.
 */
NRT_STATUS nrta_get_sequence(uint32_t lnc_idx, nrta_xu_t xu_type, int queue, nrta_seq_t *seq);

/**
 * Whether a sequence is finished; NRT_INVALID when there never was one. Works on every backend;
 * needs nrt_init. Version node NRT_3.0.0.
 */
NRT_STATUS nrta_is_completed(nrta_seq_t seq, bool *is_completed);

/**
 * Queues a copy on one logical core, queues 0 and 1; tensors and exec_ret must live until
 * completion. Works on every backend; needs nrt_init. Version node NRT_3.0.0.
 */
NRT_STATUS nrta_tensor_copy(nrt_tensor_t *src, uint64_t src_offset, nrt_tensor_t *dst, uint64_t dst_offset, uint64_t size, int lnc_idx, int queue, NRT_STATUS *exec_ret, nrta_seq_t *req_sequence);

/**
 * Queues a read, queues 0 and 1; buffer, tensor and exec_ret must live until completion. Works on
 * every backend; needs nrt_init. Version node NRT_3.0.0.
 */
NRT_STATUS nrta_tensor_read(void *buf, nrt_tensor_t *tensor, uint64_t offset, uint64_t size, int lnc_idx, int queue, NRT_STATUS *exec_ret, nrta_seq_t *req_sequence);

/**
 * Queues a write, queues 0 and 1; buffer, tensor and exec_ret must live until completion. Works on
 * every backend; needs nrt_init. Version node NRT_3.0.0.
 */
NRT_STATUS nrta_tensor_write(nrt_tensor_t *tensor, const void *buf, uint64_t offset, uint64_t size, int lnc_idx, int queue, NRT_STATUS *exec_ret, nrta_seq_t *req_sequence);

#ifdef __cplusplus
}
#endif

#endif
