/* SPDX-License-Identifier: Apache-2.0 */
/* Generated from the tables in abi/ by `make abi`; edit those, not this file. */

/** @file
 * Calls that may still change.
 */
#ifndef OPENNRT_NRT_EXPERIMENTAL_H
#define OPENNRT_NRT_EXPERIMENTAL_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nrt/nrt.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Length of a tensor name with its NUL. */
#define NRT_TENSOR_NAME_MAX 256

typedef enum nrt_tensor_usage_t {
    /** Model input. */
    NRT_TENSOR_USAGE_INPUT = 0,
    /** Model output. */
    NRT_TENSOR_USAGE_OUTPUT = 1,
} nrt_tensor_usage_t;

typedef void (*NRT_ASYNC_EXEC_STATUS_CALLBACK)(void *params, uint32_t model_id, uint32_t vnc, uint64_t job_id, NRT_STATUS status);

typedef struct nrt_tensor_info {
    char name[256];
    nrt_tensor_usage_t usage;
    size_t size;
    nrt_dtype_t dtype;
    uint32_t *shape;
    uint32_t ndim;
} nrt_tensor_info_t;

typedef struct nrt_tensor_info_array {
    uint64_t tensor_count;
    __extension__ nrt_tensor_info_t tensor_array[];
} nrt_tensor_info_array_t;

typedef struct nrt_ucode_img {
    uint8_t *bin;
    size_t size;
} nrt_ucode_img;

typedef struct nrt_ucode_info {
    nrt_ucode_img iram;
    nrt_ucode_img dram;
} nrt_ucode_info;

typedef struct nrt_model_info {
    uint32_t vnc;
} nrt_model_info_t;

#if defined(__x86_64__) && defined(__LP64__) && (defined(static_assert) || defined(__cplusplus))
static_assert(sizeof(nrt_tensor_info_t) == 296, "nrt_tensor_info_t is 296 bytes");
static_assert(sizeof(nrt_tensor_info_array_t) == 8, "nrt_tensor_info_array_t is 8 bytes");
static_assert(sizeof(nrt_ucode_img) == 16, "nrt_ucode_img is 16 bytes");
static_assert(sizeof(nrt_ucode_info) == 32, "nrt_ucode_info is 32 bytes");
static_assert(sizeof(nrt_model_info_t) == 4, "nrt_model_info_t is 4 bytes");
#endif

/**
 * Gathers rank_input_size bytes of every participant; output needs g_device_count times that. Not
 * implemented yet: logs an error and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_all_gather(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count, uint32_t rank_input_size, void *input, void *output);

/**
 * Waits until the implicit asynchronous queue of a core is empty. The gate is our choice. Works on
 * every backend; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_async_drain_queued_execs(int32_t vnc_idx);

/**
 * Waits for all participants; the small model behind it is built at first use, and a failed build
 * stays failed. Not implemented yet: logs an error and fails; needs nrt_init. Version node
 * NRT_2.0.0.
 */
NRT_STATUS nrt_barrier(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count);

/**
 * Frees what nrt_get_model_tensor_info gave; NULL is no error. Sources disagree whether the call
 * is gated or only probes; it probes here. Not implemented yet: logs an error and fails; without
 * effect unless the runtime is up. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_free_model_tensor_info(nrt_tensor_info_array_t *tensor_info);

/**
 * Handle of the loaded network plugin; temporary by its own description. The gate is our choice.
 * Not implemented yet: logs an error and fails; callable in every state. Version node NRT_2.0.0.
 */
void *nrt_get_libnccl_net(int *err, char *err_msg, size_t err_msg_size);

/**
 * Facts of a loaded model; the caller gives its structure size and learns how much was written.
 * The gate is our choice. Not implemented yet: logs an error and fails; needs nrt_init. Version
 * node NRT_2.0.0.
 */
NRT_STATUS nrt_get_model_info(const nrt_model_t *model, nrt_model_info_t *info, size_t info_size_in, size_t *info_size_out);

/**
 * Deprecated: instance count of a model. The gate is our choice. Not implemented yet: logs an
 * error and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_get_model_instance_count(nrt_model_t *model, uint32_t *instance_count);

/**
 * Names, sizes and shapes of a model, inputs first; free with nrt_free_model_tensor_info. Not
 * implemented yet: logs an error and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_get_model_tensor_info(nrt_model_t *model, nrt_tensor_info_array_t **tensor_info);

/**
 * Copies to a mapped device address and orders the stores. NULL with a size is NRT_INVALID, where
 * the original checks nothing. Works on every backend; callable in every state. Version node
 * NRT_2.0.0.
 */
NRT_STATUS nrt_memcpy_to_device(void *dest, const void *src, size_t size);

/**
 * Function the implicit asynchronous mode calls after each run, on a thread of the library; a
 * later one replaces it, NULL brings the default back, and params may be NULL. The gate is our
 * choice. Works on every backend; callable in every state. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_register_async_exec_callback(NRT_ASYNC_EXEC_STATUS_CALLBACK callback, void *params);

/**
 * Replaces the microcode of the pooling engine; before nrt_init only. Not implemented yet: logs an
 * error and fails; only before nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_set_pool_eng_ucode(const nrt_ucode_info *ucode_info);

/**
 * Starts the trace that nrt_trace_stop writes. The gate is our choice. Not implemented yet: logs
 * an error and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_trace_start(bool trace_mem);

/**
 * Ends the trace and writes it to a file. The gate is our choice. Not implemented yet: logs an
 * error and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_trace_stop(const char *filename);

#ifdef __cplusplus
}
#endif

#endif
