/* SPDX-License-Identifier: Apache-2.0 */
/* Generated from the tables in abi/ by `make abi`; edit those, not this file. */

/** @file
 * System trace.
 */
#ifndef OPENNRT_NRT_SYS_TRACE_H
#define OPENNRT_NRT_SYS_TRACE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nrt/nrt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nrt_sys_trace_fetch_options nrt_sys_trace_fetch_options_t;
typedef struct nrt_sys_trace_config nrt_sys_trace_config_t;

/**
 * Frees the text nrt_sys_trace_fetch_events gave; free() is not for it. Not implemented yet: logs
 * an error and fails; callable in every state. Version node NRT_2.0.0.
 */
void nrt_sys_trace_buffer_free(char *buffer);

/**
 * Makes an options object with every field at its default. Works on every backend; callable in
 * every state. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_sys_trace_config_allocate(nrt_sys_trace_config_t **options);

/**
 * Frees an options object. Works on every backend; callable in every state. Version node
 * NRT_2.0.0.
 */
void nrt_sys_trace_config_free(nrt_sys_trace_config_t *options);

/**
 * Names of the event types that are on, in memory from malloc; the caller frees strings and array.
 * Works on every backend; callable in every state. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_sys_trace_config_get_enabled_event_types(nrt_sys_trace_config_t *options, const char ***event_types, size_t *count);

/**
 * Switches one event type by name. Works on every backend; callable in every state. Version node
 * NRT_2.0.0.
 */
NRT_STATUS nrt_sys_trace_config_set_capture_enabled_for_event_type(nrt_sys_trace_config_t *options, const char *event_type, bool enabled);

/**
 * Switches the capture of one core, 0 to 255. Works on every backend; callable in every state.
 * Version node NRT_2.0.0.
 */
void nrt_sys_trace_config_set_capture_enabled_for_nc(nrt_sys_trace_config_t *options, uint32_t nc_idx, bool enabled);

/**
 * Puts every field back: all cores and event types on, one million events per core. Works on every
 * backend; callable in every state. Version node NRT_2.0.0.
 */
void nrt_sys_trace_config_set_defaults(nrt_sys_trace_config_t *options);

/**
 * Ring length of a core in events, held between 1024 and 1048576. Works on every backend; callable
 * in every state. Version node NRT_2.0.0.
 */
void nrt_sys_trace_config_set_max_events_per_nc(nrt_sys_trace_config_t *options, uint64_t max_events_per_nc);

/**
 * Takes the gathered events as JSON text with a final NUL that written_size leaves out; options
 * may be NULL; free with nrt_sys_trace_buffer_free. The gate is our choice. Not implemented yet:
 * logs an error and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_sys_trace_fetch_events(char **buffer, size_t *written_size, const nrt_sys_trace_fetch_options_t *options);

/**
 * Makes an options object with every field at its default. Works on every backend; callable in
 * every state. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_sys_trace_fetch_options_allocate(nrt_sys_trace_fetch_options_t **options);

/**
 * Frees an options object. Works on every backend; callable in every state. Version node
 * NRT_2.0.0.
 */
void nrt_sys_trace_fetch_options_free(nrt_sys_trace_fetch_options_t *options);

/**
 * Puts every field back: all cores, no limit. Works on every backend; callable in every state.
 * Version node NRT_2.0.0.
 */
void nrt_sys_trace_fetch_options_set_defaults(nrt_sys_trace_fetch_options_t *options);

/**
 * Most events to take of one core. Works on every backend; callable in every state. Version node
 * NRT_2.0.0.
 */
void nrt_sys_trace_fetch_options_set_max_events_per_nc(nrt_sys_trace_fetch_options_t *options, uint64_t max_events_per_nc);

/**
 * Core to take from, 0 to 255; all bits set means every core. Works on every backend; callable in
 * every state. Version node NRT_2.0.0.
 */
void nrt_sys_trace_fetch_options_set_nc_idx(nrt_sys_trace_fetch_options_t *options, uint64_t nc_idx);

/**
 * Frees a list of event type names. Works on every backend; callable in every state. Version node
 * NRT_2.0.0.
 */
void nrt_sys_trace_free_event_types(const char **event_types, size_t count);

/**
 * The 46 event type names in memory from malloc; free the list in one call or piece by piece. The
 * spellings are ours: the internal names in lower case. Works on every backend; callable in every
 * state. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_sys_trace_get_event_types(const char ***event_types, size_t *count);

/**
 * Starts the system trace. The gate is our choice. Not implemented yet: logs an error and fails;
 * needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_sys_trace_start(nrt_sys_trace_config_t *options);

/**
 * Ends the system trace. The gate is our choice. Not implemented yet: logs an error and fails;
 * needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_sys_trace_stop(void);

#ifdef __cplusplus
}
#endif

#endif
