/* SPDX-License-Identifier: Apache-2.0 */
/* Generated from the tables in abi/ by `make abi`; edit those, not this file. */

/** @file
 * Records a process publishes through the driver.
 */
#ifndef OPENNRT_NEURON_DS_H
#define OPENNRT_NEURON_DS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OBJECT_TYPE_MODEL_NODE_INFO 0
#define OBJECT_TYPE_PROCESS_INFO 1
#define OBJECT_TYPE_PROCESS_INFO_EXT 2
#define MODEL_MEM_USAGE_LOCATION_COUNT 2

/** NDS memory slot. */
enum {
    NDS_DMA_MEM_USAGE_SLOT_CODE = 0,
    NDS_DMA_MEM_USAGE_SLOT_TENSORS = 1,
    NDS_DMA_MEM_USAGE_SLOT_CONSTANTS = 2,
    NDS_DMA_MEM_USAGE_SLOT_SCRATCHPAD = 3,
    NDS_DMA_MEM_USAGE_SLOT_MISC = 4,
    NDS_DMA_MEM_USAGE_SLOT_COUNT = 12,
};

typedef enum feature_bitmap_bit_index_t {
    BIT_INDEX_TEST_FEATURE = 0,
    BIT_INDEX_MULTICORE_FEATURE = 1,
    BIT_INDEX_COUNT = 2,
} feature_bitmap_bit_index_t;

typedef struct nds_instance nds_instance_t;

typedef void *nds_obj_handle_t;

typedef struct nds_mem_usage_info {
    size_t total_size;
    uint32_t chunk_count;
} nds_mem_usage_info_t;

typedef struct nds_model_node_info {
    uint32_t model_id;
    uint32_t model_node_id;
    char name[256];
    char uuid[16];
    uint8_t nc_index;
    uint8_t sg_index;
} nds_model_node_info_t;

typedef struct nds_model_node_mem_usage_info {
    nds_mem_usage_info_t model_mem_usage[2][12];
} nds_model_node_mem_usage_info_t;

typedef struct nds_version_info {
    uint8_t major;
    uint8_t minor;
    uint32_t build;
} nds_version_info_t;

typedef struct nds_process_info {
    int8_t framework_type;
    char tag[32];
    nds_version_info_t framework_version;
    nds_version_info_t fal_version;
    nds_version_info_t runtime_version;
} nds_process_info_t;

typedef struct nds_process_info_ext {
    char tag[256];
} nds_process_info_ext_t;

#if defined(__x86_64__) && defined(__LP64__) && (defined(static_assert) || defined(__cplusplus))
static_assert(sizeof(nds_mem_usage_info_t) == 16, "nds_mem_usage_info_t is 16 bytes");
static_assert(sizeof(nds_model_node_info_t) == 284, "nds_model_node_info_t is 284 bytes");
static_assert(sizeof(nds_model_node_mem_usage_info_t) == 384, "nds_model_node_mem_usage_info_t is 384 bytes");
static_assert(sizeof(nds_version_info_t) == 8, "nds_version_info_t is 8 bytes");
static_assert(sizeof(nds_process_info_t) == 60, "nds_process_info_t is 60 bytes");
static_assert(sizeof(nds_process_info_ext_t) == 256, "nds_process_info_ext_t is 256 bytes");
#endif

#ifdef __cplusplus
}
#endif

#endif
