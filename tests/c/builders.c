/* The calls that need neither a device nor nrt_init, used as a program would and as it should not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nrt/nrt_experimental.h>
#include <nrt/nrt_profile.h>
#include <nrt/nrt_sys_trace.h>
#include <nrt/nrt_version.h>
#include <nrt/opennrt.h>

static int failures;

#define EXPECT(condition)                                                  \
    do {                                                                   \
        if (!(condition)) {                                                \
            printf("line %d: %s is not so\n", __LINE__, #condition);       \
            failures++;                                                    \
        }                                                                  \
    } while (0)

static void version(void) {
    struct {
        nrt_version_t ver;
        unsigned char canary[16];
    } v;
    static const size_t sizes[] = {0, 159, 160, 200, 201, 223, 224, 225, 4096};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t size = sizes[i];
        memset(&v, 0xa5, sizeof v);
        NRT_STATUS status = nrt_get_version(&v.ver, size);
        EXPECT(status == (size < 160 ? NRT_FAILURE : NRT_SUCCESS));
        size_t written = size < 160 ? 0 : size <= 200 ? 160 : size > 224 ? 224 : size;
        for (size_t at = written; at < sizeof v; at++) {
            EXPECT(((unsigned char *)&v)[at] == 0xa5);
        }
        if (status == NRT_SUCCESS) {
            EXPECT(v.ver.rt_major == 2 && v.ver.rt_minor == 31);
            EXPECT(v.ver.rt_patch == 24 && v.ver.rt_maintenance == 0);
            char detail[128];
            snprintf(detail, sizeof detail, "libnrt version 2.31.24.0 (OpenNRT %s)", opennrt_version());
            EXPECT(strcmp(v.ver.rt_detail, detail) == 0);
        }
        if (written > 200) {
            EXPECT(strlen(v.ver.git_hash) == 40);
            EXPECT(strspn(v.ver.git_hash, "0123456789abcdef") == 40);
        }
    }
    EXPECT(nrt_get_version(NULL, sizeof(nrt_version_t)) == NRT_INVALID);
}

static void status_names(void) {
    EXPECT(strcmp(nrt_get_status_as_str(NRT_SUCCESS), "NRT_SUCCESS") == 0);
    EXPECT(strcmp(nrt_get_status_as_str(NRT_NETWORK_PROXY_FAILURE), "NRT_NETWORK_PROXY_FAILURE") == 0);
    EXPECT(strcmp(nrt_get_status_as_str((NRT_STATUS)8), "UNKNOWN") == 0);
    EXPECT(strcmp(nrt_get_status_as_str((NRT_STATUS)0xffffffffu), "UNKNOWN") == 0);
}

static void memcpy_to_device(void) {
    char from[5] = "abcd", to[5] = "....";
    EXPECT(nrt_memcpy_to_device(to, from, 3) == NRT_SUCCESS);
    EXPECT(memcmp(to, "abc.", 5) == 0);
    EXPECT(nrt_memcpy_to_device(NULL, NULL, 0) == NRT_SUCCESS);
    EXPECT(nrt_memcpy_to_device(NULL, from, 1) == NRT_INVALID);
    EXPECT(nrt_memcpy_to_device(to, NULL, 1) == NRT_INVALID);
}

/* Callers free the lists in one call or piece by piece. */
static void free_pieces(const char **list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free((void *)list[i]);
    }
    free(list);
}

static void inspect(void) {
    nrt_inspect_config_t *config = NULL;
    EXPECT(nrt_inspect_config_allocate(&config) == NRT_SUCCESS && config != NULL);
    EXPECT(nrt_inspect_config_set_defaults(config) == NRT_SUCCESS);
    EXPECT(nrt_inspect_config_set_session_id(config, 7) == NRT_SUCCESS);
    EXPECT(nrt_inspect_config_set_output_dir(config, "/tmp/somewhere") == NRT_SUCCESS);
    EXPECT(nrt_inspect_config_set_enable_inspect(config, true) == NRT_SUCCESS);
    EXPECT(nrt_inspect_config_set_enable_inspect_on_fail(config, true) == NRT_SUCCESS);
    EXPECT(nrt_inspect_config_set_sys_trace_max_events_per_nc(config, 0) == NRT_SUCCESS);
    EXPECT(nrt_inspect_config_set_capture_enabled_for_nc(config, 255, false) == NRT_SUCCESS);
    EXPECT(nrt_inspect_config_set_inspect_device_profile_mode(
               config, NRT_INSPECT_DEVICE_PROFILE_MODE_SESSION) == NRT_SUCCESS);
    EXPECT(nrt_inspect_config_set_capture_enabled_for_event_type_string(config, "cc_exec", false) == NRT_SUCCESS);

    const char **names = NULL;
    size_t count = 0;
    EXPECT(nrt_inspect_config_get_all_activity_types(&names, &count) == NRT_SUCCESS && count == 4);
    nrt_inspect_config_free_activity_types(names, count);
    EXPECT(nrt_inspect_config_set_activity(config, "all", false) == NRT_SUCCESS);
    EXPECT(nrt_inspect_config_set_activity(config, "cpu_util", true) == NRT_SUCCESS);
    EXPECT(nrt_inspect_config_get_enabled_activity_types(config, &names, &count) == NRT_SUCCESS && count == 1);
    EXPECT(strcmp(names[0], "cpu_util") == 0);
    free_pieces(names, count);

    /* The fields a reader with the vendor's layout would look at. */
    const unsigned char *raw = (const unsigned char *)config;
    int session, mode;
    uint32_t activities;
    const char *folder;
    memcpy(&session, raw + 0, sizeof session);
    memcpy(&folder, raw + 8, sizeof folder);
    memcpy(&activities, raw + 40, sizeof activities);
    memcpy(&mode, raw + 364, sizeof mode);
    EXPECT(session == 7 && activities == 8 && mode == 2);
    EXPECT(strcmp(folder, "/tmp/somewhere") == 0);
    EXPECT(raw[360] == 1 && raw[361] == 1 && raw[368 + 254] == 1 && raw[368 + 255] == 0);

    EXPECT(nrt_inspect_config_set_output_dir(config, NULL) == NRT_INVALID);
    static char endless[1 << 16];
    memset(endless, 'x', sizeof endless - 1);
    EXPECT(nrt_inspect_config_set_output_dir(config, endless) == NRT_INVALID);
    EXPECT(nrt_inspect_config_set_capture_enabled_for_nc(config, 256, true) == NRT_INVALID);
    EXPECT(nrt_inspect_config_set_inspect_device_profile_mode(
               config, (nrt_inspect_device_profile_mode_t)3) == NRT_INVALID);
    EXPECT(nrt_inspect_config_set_activity(config, "\xff\xfe", true) == NRT_INVALID);
    EXPECT(nrt_inspect_config_set_capture_enabled_for_event_type_string(config, "", true) == NRT_INVALID);
    EXPECT(nrt_inspect_config_set_session_id(NULL, 1) == NRT_INVALID);
    EXPECT(nrt_inspect_config_set_session_id((nrt_inspect_config_t *)(uintptr_t)0xdead, 1) == NRT_INVALID_HANDLE);
    EXPECT(nrt_inspect_config_allocate(NULL) == NRT_INVALID);
    EXPECT(nrt_inspect_config_get_all_activity_types(NULL, &count) == NRT_INVALID);
    EXPECT(nrt_inspect_config_free(config) == NRT_SUCCESS);
    EXPECT(nrt_inspect_config_free(config) == NRT_INVALID_HANDLE);
    EXPECT(nrt_inspect_config_set_session_id(config, 1) == NRT_INVALID_HANDLE);
    EXPECT(nrt_inspect_config_free(NULL) == NRT_INVALID);
    nrt_inspect_config_free_activity_types(NULL, 3);
}

static void sys_trace(void) {
    const char **names = NULL;
    size_t count = 0;
    EXPECT(nrt_sys_trace_get_event_types(&names, &count) == NRT_SUCCESS && count == 46);
    EXPECT(strcmp(names[0], "generic") == 0 && strcmp(names[45], "hostcc_wait") == 0);

    nrt_sys_trace_config_t *config = NULL;
    EXPECT(nrt_sys_trace_config_allocate(&config) == NRT_SUCCESS && config != NULL);
    nrt_sys_trace_config_set_defaults(config);
    for (size_t i = 0; i < count; i++) {
        EXPECT(nrt_sys_trace_config_set_capture_enabled_for_event_type(config, names[i], i % 2) == NRT_SUCCESS);
    }
    nrt_sys_trace_free_event_types(names, count);
    EXPECT(nrt_sys_trace_config_get_enabled_event_types(config, &names, &count) == NRT_SUCCESS && count == 23);
    free_pieces(names, count);
    nrt_sys_trace_config_set_max_events_per_nc(config, 5000);
    nrt_sys_trace_config_set_capture_enabled_for_nc(config, 3, false);
    nrt_sys_trace_config_set_capture_enabled_for_nc(config, 256, false);
    const unsigned char *raw = (const unsigned char *)config;
    uint64_t events;
    memcpy(&events, raw, sizeof events);
    EXPECT(events == 5000 && raw[8 + 2] == 1 && raw[8 + 3] == 0 && raw[264] == 0 && raw[264 + 45] == 1);
    EXPECT(nrt_sys_trace_config_set_capture_enabled_for_event_type(config, "no such", true) == NRT_INVALID);
    nrt_sys_trace_config_free(config);
    nrt_sys_trace_config_free(config);
    nrt_sys_trace_config_free(NULL);
    nrt_sys_trace_config_set_defaults(config);
    EXPECT(nrt_sys_trace_config_get_enabled_event_types(config, &names, &count) == NRT_INVALID_HANDLE);

    nrt_sys_trace_fetch_options_t *fetch = NULL;
    EXPECT(nrt_sys_trace_fetch_options_allocate(&fetch) == NRT_SUCCESS && fetch != NULL);
    nrt_sys_trace_fetch_options_set_defaults(fetch);
    nrt_sys_trace_fetch_options_set_max_events_per_nc(fetch, 10);
    nrt_sys_trace_fetch_options_set_nc_idx(fetch, 2);
    nrt_sys_trace_fetch_options_set_nc_idx(fetch, 1000);
    int core;
    memcpy(&events, fetch, sizeof events);
    memcpy(&core, (const unsigned char *)fetch + 8, sizeof core);
    EXPECT(events == 10 && core == 2);
    nrt_sys_trace_fetch_options_free(fetch);
    nrt_sys_trace_fetch_options_free(fetch);
    nrt_sys_trace_fetch_options_free(NULL);
}

static void continuous(void) {
    nrt_profile_continuous_options_t *options = NULL;
    EXPECT(nrt_profile_continuous_options_allocate(&options) == NRT_SUCCESS && options != NULL);
    EXPECT(nrt_profile_continuous_options_set_output_dir(options, "here") == NRT_SUCCESS);
    const char *folder;
    memcpy(&folder, options, sizeof folder);
    EXPECT(strcmp(folder, "here") == 0);
    EXPECT(nrt_profile_continuous_options_free(options) == NRT_SUCCESS);
    EXPECT(nrt_profile_continuous_options_free(options) == NRT_INVALID_HANDLE);
    EXPECT(nrt_profile_continuous_options_set_output_dir(options, "here") == NRT_INVALID_HANDLE);
}

int main(void) {
    version();
    status_names();
    memcpy_to_device();
    inspect();
    sys_trace();
    continuous();
    return failures != 0;
}
