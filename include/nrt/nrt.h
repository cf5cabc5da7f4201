/* SPDX-License-Identifier: Apache-2.0 */
/* Generated from the tables in abi/ by `make abi`; edit those, not this file. */

/** @file
 * Lifecycle, models, tensors, counting and identity.
 */
#ifndef OPENNRT_NRT_H
#define OPENNRT_NRT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nrt/nrt_status.h"
#include "nrt/neuron_driver_shared_tensor_batch_op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NRT_MAJOR_VERSION 2
#define NRT_MINOR_VERSION 0

typedef enum nrt_tensor_placement_t {
    /** Device memory. */
    NRT_TENSOR_PLACEMENT_DEVICE = 0,
    /** Host memory. */
    NRT_TENSOR_PLACEMENT_HOST = 1,
    /** Virtual; support dropped in SDK 2.30. */
    NRT_TENSOR_PLACEMENT_VIRTUAL = 2,
} nrt_tensor_placement_t;

typedef enum nrt_framework_type_t {
    /** Not a framework. */
    NRT_FRAMEWORK_TYPE_INVALID = 0,
    /** No framework. */
    NRT_FRAMEWORK_TYPE_NO_FW = 1,
    /** TensorFlow. */
    NRT_FRAMEWORK_TYPE_TENSORFLOW = 2,
    /** PyTorch. */
    NRT_FRAMEWORK_TYPE_PYTORCH = 3,
    /** MXNet. */
    NRT_FRAMEWORK_TYPE_MXNET = 4,
    /** Node precheck tool. */
    NRT_FRAMEWORK_TYPE_PRECHECK = 5,
} nrt_framework_type_t;

/** Instance family. */
enum {
    NRT_INSTANCE_UNKNOWN = 0,
    NRT_INSTANCE_INF1 = 1,
    NRT_INSTANCE_TRN1 = 2,
    NRT_INSTANCE_TRN1N = 3,
    NRT_INSTANCE_INF2 = 4,
    NRT_INSTANCE_TRN2 = 5,
    NRT_INSTANCE_TRN2N = 6,
    NRT_INSTANCE_INF2E = 7,
    NRT_INSTANCE_TRN2P = 8,
    NRT_INSTANCE_TRN2U = 9,
    NRT_INSTANCE_TRN2E = 10,
    NRT_INSTANCE_TRN2EU = 11,
    NRT_INSTANCE_TRN2AC = 12,
    NRT_INSTANCE_TRN2UAC = 13,
    NRT_INSTANCE_TRN3 = 14,
    NRT_INSTANCE_TRN3PDS98 = 15,
};

/** Instance size. */
enum {
    NRT_INSTANCE_SIZE_1XL = 0,
    NRT_INSTANCE_SIZE_2XL = 1,
    NRT_INSTANCE_SIZE_4XL = 2,
    NRT_INSTANCE_SIZE_6XL = 3,
    NRT_INSTANCE_SIZE_8XL = 4,
    NRT_INSTANCE_SIZE_24XL = 5,
    NRT_INSTANCE_SIZE_32XL = 6,
    NRT_INSTANCE_SIZE_48XL = 7,
    NRT_INSTANCE_SIZE_3XL = 8,
    /** Size not known; moves up when sizes are appended. */
    NRT_INSTANCE_SIZE_UNKNOWN = 9,
    /** Same value as UNKNOWN. */
    NRT_INSTANCE_SIZE_NUM = 9,
};

typedef enum nrt_op_type_t {
    NRT_OP_ADD = 0,
    NRT_OP_FMA = 1,
    NRT_OP_MAX = 2,
    NRT_OP_MIN = 3,
    NRT_OP_INVALID = 15,
} nrt_op_type_t;

typedef enum nrt_dtype_t {
    NRT_DTYPE_UNKNOWN = 0,
    /** Same value as UNKNOWN. */
    NRT_DTYPE_INVALID = 0,
    NRT_DTYPE_FP8_E3 = 13,
    NRT_DTYPE_FP8_E4 = 14,
    NRT_DTYPE_FP8_E5 = 15,
    NRT_DTYPE_FLOAT16 = 7,
    NRT_DTYPE_BFLOAT16 = 6,
    NRT_DTYPE_FLOAT32 = 10,
    NRT_DTYPE_FP32R = 11,
    NRT_DTYPE_UINT8 = 3,
    NRT_DTYPE_UINT16 = 5,
    NRT_DTYPE_UINT32 = 9,
    NRT_DTYPE_UINT64 = 1,
    NRT_DTYPE_INT8 = 2,
    NRT_DTYPE_INT16 = 4,
    NRT_DTYPE_INT32 = 8,
    NRT_DTYPE_INT64 = 12,
} nrt_dtype_t;

typedef enum nrt_cc_op_type_t {
    /** All-gather. */
    NRT_CC_ALLGATHER = 0,
    /** All-reduce. */
    NRT_CC_ALLREDUCE = 1,
    /** Reduce-scatter. */
    NRT_CC_REDUCESCATTER = 2,
} nrt_cc_op_type_t;

typedef struct nrt_tensor nrt_tensor_t;
typedef struct nrt_cc_context nrt_cc_context_t;
typedef struct nrt_model nrt_model_t;

typedef void nrt_tensor_set_t;

typedef struct nrt_instance_info {
    uint32_t family;
    uint32_t size;
    char arch_name[16];
    char device_revision[8];
} nrt_instance_info_t;

typedef struct nrt_tensor_batch {
    const nrt_tensor_t *tensor;
    const nrt_tensor_batch_op_t *ops;
    uint32_t num_ops;
} nrt_tensor_batch_t;

typedef struct nrt_tensor_device_allocation_info {
    uint64_t physical_address;
    size_t size;
    int hbm_index;
} nrt_tensor_device_allocation_info_t;

typedef struct nrt_vnc_memory_stats {
    size_t bytes_used;
    size_t bytes_limit;
} nrt_vnc_memory_stats_t;

typedef struct nrt_cc_comm {
    uint32_t *replica_group;
    uint32_t rank;
    uint32_t rank_n;
    uint32_t ctx_device_id;
    uint32_t ctx_device_count;
    uint32_t vnc;
} nrt_cc_comm_t;

typedef struct nrt_tensor_list {
    nrt_tensor_t **tensors;
    size_t num_tensors;
} nrt_tensor_list_t;

#if defined(__x86_64__) && defined(__LP64__) && (defined(static_assert) || defined(__cplusplus))
static_assert(sizeof(nrt_instance_info_t) == 32, "nrt_instance_info_t is 32 bytes");
static_assert(sizeof(nrt_tensor_batch_t) == 24, "nrt_tensor_batch_t is 24 bytes");
static_assert(sizeof(nrt_tensor_device_allocation_info_t) == 24, "nrt_tensor_device_allocation_info_t is 24 bytes");
static_assert(sizeof(nrt_vnc_memory_stats_t) == 16, "nrt_vnc_memory_stats_t is 16 bytes");
static_assert(sizeof(nrt_cc_comm_t) == 32, "nrt_cc_comm_t is 32 bytes");
static_assert(sizeof(nrt_tensor_list_t) == 16, "nrt_tensor_list_t is 16 bytes");
#endif

/**
 * Enters a tensor under a name; an entry of that name is replaced, and the tensor must outlive the
 * set. Works on every backend; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_add_tensor_to_tensor_set(nrt_tensor_set_t *tensor_set, const char *tensor_name, nrt_tensor_t *tensor);

/** Makes an empty tensor set. Works on every backend; needs nrt_init. Version node NRT_2.0.0. */
NRT_STATUS nrt_allocate_tensor_set(nrt_tensor_set_t **result);

/**
 * Builds the communicator over all participants for one core. The gate is our choice. Not
 * implemented yet: logs an error and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_build_global_comm(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count);

/**
 * Creates a stream for collectives driven from the host; new in 2.31.24.0, in no published header.
 * The gate is our choice. Not implemented yet: logs an error and fails; needs nrt_init. Version
 * node NRT_2.0.0.
 */
NRT_STATUS nrt_cc_create_stream(uint32_t stream_id);

/**
 * Builds the communicator for collectives driven from the host. The gate is our choice. Not
 * implemented yet: logs an error and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_cc_global_comm_init(uint32_t vnc, uint32_t g_device_id, uint32_t g_device_count);

/**
 * Takes the runtime down and back to its start state; does nothing unless it is up. nrt_init may
 * follow. Works on every backend; callable in every state, with an effect that depends on it.
 * Version node NRT_2.0.0.
 */
void nrt_close(void);

/**
 * Frees a set through the address of its handle and clears the handle; the tensors in it stay, and
 * NULL is no error. Works on every backend; callable in every state, with an effect that depends
 * on it. Version node NRT_2.0.0.
 */
void nrt_destroy_tensor_set(nrt_tensor_set_t **tensor_set);

/**
 * Runs a model once on an input and an output set. Not implemented yet: logs an error and fails;
 * needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_execute(nrt_model_t *model, const nrt_tensor_set_t *input, nrt_tensor_set_t *output);

/**
 * As nrt_execute; the original refuses a repeat_count above 1. Not implemented yet: logs an error
 * and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_execute_repeat(nrt_model_t *model, const nrt_tensor_set_t *input, nrt_tensor_set_t *output, int repeat_count);

/**
 * PCI address of the network adapter attached to the device of an address; len is the buffer size
 * with NUL on entry and the text length on return. Always NRT_FAILURE here: simulated and emulated
 * instances have no adapter, and which adapter of a real host is near a device is not known. The
 * gate is our choice. Works on every backend; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_get_attached_efa_bdf(const void *va, char *efa_bdf, size_t *len);

/**
 * Exports a range of mapped device memory as a dma-buf; the caller closes the descriptor. Refused
 * with NRT_INVALID on simulated instances, and neuron-emu cannot do it. Works on devices only;
 * needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_get_dmabuf_fd(uint64_t va, uint64_t size, int *fd);

/**
 * Where an HBM of a device is mapped and how large it is; NRT_INVALID_HANDLE ends the enumeration.
 * The gate is our choice. Works on every backend; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_get_hbm_mmap_va(int device_id, int hbm_idx, void **addr, size_t *size);

/**
 * Family, size, architecture name and device revision; copies at most 32 bytes, and a larger size
 * only warns. Works on every backend; callable in every state. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_get_instance_info(nrt_instance_info_t *info, size_t instance_info_len);

/**
 * Deprecated spelling; the same function as nrt_get_model_vnc_count. That both are one is
 * inferred. The gate is our choice. Not implemented yet: logs an error and fails; needs nrt_init.
 * Version node NRT_2.0.0.
 */
NRT_STATUS nrt_get_model_nc_count(const nrt_model_t *model, uint32_t *vnc_count);

/**
 * Deprecated: logical cores of a model. The gate is our choice. Not implemented yet: logs an error
 * and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_get_model_vnc_count(const nrt_model_t *model, uint32_t *vnc_count);

/**
 * Looks a tensor up by its name; NRT_FAILURE when it is not there. Works on every backend; needs
 * nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_get_tensor_from_tensor_set(nrt_tensor_set_t *tensor_set, const char *tensor_name, nrt_tensor_t **tensor);

/**
 * Deprecated spelling; the same function as nrt_get_total_vnc_count. Works on every backend;
 * callable in every state. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_get_total_nc_count(uint32_t *nc_count);

/**
 * Logical cores of the whole instance: physical cores divided by the LNC size. Works on every
 * backend; callable in every state. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_get_total_vnc_count(uint32_t *nc_count);

/**
 * Deprecated spelling; the same function as nrt_get_visible_vnc_count. Works on every backend;
 * callable in every state. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_get_visible_nc_count(uint32_t *nc_count);

/**
 * Logical cores of this process: before nrt_init from NEURON_RT_VISIBLE_CORES, then
 * NEURON_RT_NUM_CORES, then the total; afterwards, and in a forked child, the list that was
 * allocated. Works on every backend; callable in every state. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_get_visible_vnc_count(uint32_t *nc_count);

/**
 * Bytes used and the limit of a core; the caller gives its structure size and learns how much was
 * written. The gate is our choice. Works on every backend; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_get_vnc_memory_stats(uint32_t vnc, nrt_vnc_memory_stats_t *stats, size_t stats_size_in, size_t *stats_size_out);

/**
 * Host-wide id of a device. Sources disagree about the gate; none is our choice. Works on every
 * backend; callable in every state. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_host_device_id_get(int neuron_dev, uint32_t *host_device_id);

/**
 * Routing id of every device by host-wide id; count is capacity on entry and entries on return,
 * and a map that is too small is NRT_INVALID. Sources disagree about the gate; none is our choice.
 * Works on every backend; callable in every state. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_host_device_id_rid_map_get(uint32_t *count, uint32_t *host_did_to_rid_map);

/**
 * Brings the runtime up. Success at once when it is up already, NRT_FAILURE in a forked child,
 * legal again after nrt_close. Works on every backend; callable in every state, with an effect
 * that depends on it. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_init(nrt_framework_type_t framework, const char *fw_version, const char *fal_version);

/**
 * Loads a model; vnc -1 lets the runtime choose a core, and vnc_count is deprecated and must be
 * -1. Not implemented yet: logs an error and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_load(const void *neff_bytes, size_t size, int32_t vnc, int32_t vnc_count, nrt_model_t **model);

/**
 * Loads a model with collectives; builds the global communicator itself when there is none. Not
 * implemented yet: logs an error and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_load_collectives(const void *neff_bytes, size_t size, int32_t vnc, int32_t vnc_count, uint32_t ctx_device_id, uint32_t ctx_device_count, nrt_model_t **model);

/**
 * Makes a tensor; vnc is -1 for host placement, name may be NULL. Works on every backend; needs
 * nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_tensor_allocate(nrt_tensor_placement_t tensor_placement, int vnc, size_t size, const char *name, nrt_tensor_t **tensor);

/**
 * Makes a tensor without memory, for nrt_tensor_attach_buffer. Works on every backend; needs
 * nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_tensor_allocate_empty(const char *name, nrt_tensor_t **tensor);

/**
 * Makes a tensor that shares part of another one. Works on every backend; needs nrt_init. Version
 * node NRT_2.0.0.
 */
NRT_STATUS nrt_tensor_allocate_slice(const nrt_tensor_t *tensor_source, size_t offset, size_t size, const char *name, nrt_tensor_t **tensor_slice);

/**
 * Puts a caller buffer behind a tensor; the buffer must outlive it, and memory the tensor had is
 * released. Works on every backend; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_tensor_attach_buffer(nrt_tensor_t *tensor, void *buffer, size_t size);

/**
 * Waits for an output; timeout in microseconds, negative waits for ever, NRT_TIMEOUT when it
 * passes. Works on every backend; callable in every state. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_tensor_check_output_completion(const nrt_tensor_t *output_tensor, int64_t timeout, uint64_t expected_completion_count);

/**
 * Copies between tensors; two device tensors must share an HBM. Works on every backend; needs
 * nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_tensor_copy(const nrt_tensor_t *src, size_t src_offset, nrt_tensor_t *dst, size_t dst_offset, size_t size);

/**
 * Frees a tensor through the address of its handle and clears the handle; safe in every state.
 * Works on every backend; callable in every state, with an effect that depends on it. Version node
 * NRT_2.0.0.
 */
void nrt_tensor_free(nrt_tensor_t **tensor);

/**
 * Physical address, size and HBM of a device tensor. Works on every backend; needs nrt_init.
 * Version node NRT_2.0.0.
 */
NRT_STATUS nrt_tensor_get_device_allocation_info(const nrt_tensor_t *tensor, nrt_tensor_device_allocation_info_t *alloc_info);

/**
 * Size in bytes; 0 for NULL, where the original asserts. Works on every backend; callable in every
 * state. Version node NRT_2.0.0.
 */
size_t nrt_tensor_get_size(const nrt_tensor_t *tensor);

/**
 * Address in this process; NULL on failure and when the runtime is not up. Works on every backend;
 * without effect unless the runtime is up. Version node NRT_2.0.0.
 */
void *nrt_tensor_get_va(const nrt_tensor_t *tensor);

/**
 * Fills part of a tensor with one byte. Works on every backend; needs nrt_init. Version node
 * NRT_2.0.0.
 */
NRT_STATUS nrt_tensor_memset(nrt_tensor_t *tensor, uint64_t offset, int value, size_t size);

/** Copies out of a tensor. Works on every backend; needs nrt_init. Version node NRT_2.0.0. */
NRT_STATUS nrt_tensor_read(const nrt_tensor_t *tensor, void *buf, size_t offset, size_t size);

/** Many reads in one call. Works on every backend; needs nrt_init. Version node NRT_2.0.0. */
NRT_STATUS nrt_tensor_read_batch(const nrt_tensor_batch_t *batches, uint64_t num_batches, bool unsafe);

/**
 * Sets the completion count of an output back to 0. Works on every backend; callable in every
 * state. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_tensor_reset_output_completion(nrt_tensor_t *output_tensor);

/** Copies into a tensor. Works on every backend; needs nrt_init. Version node NRT_2.0.0. */
NRT_STATUS nrt_tensor_write(nrt_tensor_t *tensor, const void *buf, size_t offset, size_t size);

/** Many writes in one call. Works on every backend; needs nrt_init. Version node NRT_2.0.0. */
NRT_STATUS nrt_tensor_write_batch(const nrt_tensor_batch_t *batches, uint64_t num_batches, bool unsafe);

/**
 * Unloads a model. Not implemented yet: logs an error and fails; needs nrt_init. Version node
 * NRT_2.0.0.
 */
NRT_STATUS nrt_unload(nrt_model_t *model);

#ifdef __cplusplus
}
#endif

#endif
