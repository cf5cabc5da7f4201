/* SPDX-License-Identifier: Apache-2.0 */
/* Generated from the tables in abi/ by `make abi`; edit those, not this file. */

/** @file
 * Profiles and captures.
 */
#ifndef OPENNRT_NRT_PROFILE_H
#define OPENNRT_NRT_PROFILE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nrt/nrt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nrt_inspect_device_profile_mode_t {
    /** No device profile. */
    NRT_INSPECT_DEVICE_PROFILE_MODE_DISABLED = 0,
    /** One profile per model. */
    NRT_INSPECT_DEVICE_PROFILE_MODE_MODEL = 1,
    /** One profile per core and session. */
    NRT_INSPECT_DEVICE_PROFILE_MODE_SESSION = 2,
} nrt_inspect_device_profile_mode_t;

typedef struct nrt_inspect_config nrt_inspect_config_t;
typedef struct nrt_profile_continuous_options nrt_profile_continuous_options_t;

/**
 * Starts a capture configured by the NEURON_RT_INSPECT_* variables. The gate is our choice. Not
 * implemented yet: logs an error and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_inspect_begin(void);

/**
 * Starts a capture configured by an options object instead of the variables. The gate is our
 * choice. Not implemented yet: logs an error and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_inspect_begin_with_options(nrt_inspect_config_t *options);

/**
 * Makes an options object with every field at its default. Works on every backend; callable in
 * every state. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_inspect_config_allocate(nrt_inspect_config_t **options);

/**
 * Frees an options object. Works on every backend; callable in every state. Version node
 * NRT_2.0.0.
 */
NRT_STATUS nrt_inspect_config_free(nrt_inspect_config_t *options);

/**
 * Frees a list of activity names. Works on every backend; callable in every state. Version node
 * NRT_2.0.0.
 */
void nrt_inspect_config_free_activity_types(const char **activity_types, size_t count);

/**
 * Names of all activities, in memory from malloc; free the list in one call or piece by piece.
 * Works on every backend; callable in every state. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_inspect_config_get_all_activity_types(const char ***activity_types, size_t *count);

/**
 * Names of the activities that are on, in memory from malloc; free the list in one call or piece
 * by piece. Works on every backend; callable in every state. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_inspect_config_get_enabled_activity_types(nrt_inspect_config_t *options, const char ***activity_types, size_t *count);

/**
 * Switches one activity, or all of them with the name all. Works on every backend; callable in
 * every state. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_inspect_config_set_activity(nrt_inspect_config_t *options, const char *activity_type, bool enabled);

/**
 * Switches one system-trace event type by name. Works on every backend; callable in every state.
 * Version node NRT_2.0.0.
 */
NRT_STATUS nrt_inspect_config_set_capture_enabled_for_event_type_string(nrt_inspect_config_t *options, const char *event_type, bool enabled);

/**
 * Switches the capture of one core, 0 to 255. Works on every backend; callable in every state.
 * Version node NRT_2.0.0.
 */
NRT_STATUS nrt_inspect_config_set_capture_enabled_for_nc(nrt_inspect_config_t *options, uint32_t nc_idx, bool enabled);

/**
 * Puts every field back: session 1, empty output folder, all activities, cores and event types on.
 * Whether the activities start on is disputed; on is our choice. Works on every backend; callable
 * in every state. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_inspect_config_set_defaults(nrt_inspect_config_t *options);

/**
 * Switches the capture as a whole. Works on every backend; callable in every state. Version node
 * NRT_2.0.0.
 */
NRT_STATUS nrt_inspect_config_set_enable_inspect(nrt_inspect_config_t *options, bool enable_inspect);

/**
 * Switches the capture of failed runs. Works on every backend; callable in every state. Version
 * node NRT_2.0.0.
 */
NRT_STATUS nrt_inspect_config_set_enable_inspect_on_fail(nrt_inspect_config_t *options, bool enable_inspect_on_fail);

/**
 * Device profiles: none, one per model, or one per core and session. Works on every backend;
 * callable in every state. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_inspect_config_set_inspect_device_profile_mode(nrt_inspect_config_t *options, nrt_inspect_device_profile_mode_t device_profile_mode);

/**
 * Output folder; the text is copied. Works on every backend; callable in every state. Version node
 * NRT_2.0.0.
 */
NRT_STATUS nrt_inspect_config_set_output_dir(nrt_inspect_config_t *options, const char *output_dir);

/**
 * Number that names the session. Works on every backend; callable in every state. Version node
 * NRT_2.0.0.
 */
NRT_STATUS nrt_inspect_config_set_session_id(nrt_inspect_config_t *options, int session_id);

/**
 * Ring length of a core in events, held between 1024 and 1048576. Works on every backend; callable
 * in every state. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_inspect_config_set_sys_trace_max_events_per_nc(nrt_inspect_config_t *options, uint64_t sys_trace_max_events_per_nc);

/**
 * Folder of this instance below an output folder. The gate is our choice. Not implemented yet:
 * logs an error and fails; callable in every state. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_inspect_get_instance_output_dir(const char *output_dir, char *instance_dir_buf, size_t buf_size);

/**
 * Ends the capture and writes it. The gate is our choice. Not implemented yet: logs an error and
 * fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_inspect_stop(void);

/**
 * Makes an options object. Works on every backend; callable in every state. Version node
 * NRT_2.0.0.
 */
NRT_STATUS nrt_profile_continuous_options_allocate(nrt_profile_continuous_options_t **options);

/**
 * Frees an options object. Works on every backend; callable in every state. Version node
 * NRT_2.0.0.
 */
NRT_STATUS nrt_profile_continuous_options_free(nrt_profile_continuous_options_t *options);

/**
 * Output folder; the text is copied. Works on every backend; callable in every state. Version node
 * NRT_2.0.0.
 */
NRT_STATUS nrt_profile_continuous_options_set_output_dir(nrt_profile_continuous_options_t *options, const char *output_dir);

/**
 * Writes what continuous profiling of a core holds. The gate is our choice. Not implemented yet:
 * logs an error and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_profile_continuous_save(uint32_t vnc, nrt_profile_continuous_options_t *options);

/**
 * Starts continuous profiling; refused next to device profiles or implicit asynchronous mode. The
 * gate is our choice. Not implemented yet: logs an error and fails; needs nrt_init. Version node
 * NRT_2.0.0.
 */
NRT_STATUS nrt_profile_continuous_start(nrt_profile_continuous_options_t *options);

/**
 * Ends continuous profiling. The gate is our choice. Not implemented yet: logs an error and fails;
 * needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_profile_continuous_stop(void);

/**
 * Forgets one stopped session. The gate is our choice. Not implemented yet: logs an error and
 * fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_profile_session_drop(uint64_t session_id);

/**
 * Forgets all stopped sessions of a core. The gate is our choice. Not implemented yet: logs an
 * error and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_profile_session_drop_all(int32_t vnc);

/**
 * Writes one stopped session to a file. The gate is our choice. Not implemented yet: logs an error
 * and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_profile_session_serialize(uint64_t session_id, const char *filename);

/**
 * Starts a session on a core. The gate is our choice. Not implemented yet: logs an error and
 * fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_profile_session_start(int32_t vnc);

/**
 * Ends the session of a core; the id is for serialize and drop. The gate is our choice. Not
 * implemented yet: logs an error and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_profile_session_stop(int32_t vnc, uint64_t *session_id);

/**
 * Starts the profile of one model. The gate is our choice. Not implemented yet: logs an error and
 * fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_profile_start(nrt_model_t *model, const char *filename);

/**
 * Ends the profile that nrt_profile_start began for a file. The gate is our choice. Not
 * implemented yet: logs an error and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_profile_stop(const char *filename);

#ifdef __cplusplus
}
#endif

#endif
