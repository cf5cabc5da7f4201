/* The four states seen from outside: idempotent init, close, re-init, failing init, counts. */
#include "check.h"
#include "nrt/nec.h"
#include "nrt/nrt.h"
#include "nrt/nrt_version.h"
#include "nrt/opennrt.h"

static NRT_STATUS init(void) { return nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""); }

/* Both spellings of a count always agree. */
static uint32_t total(void)
{
    uint32_t n = 0, old = 0;
    EXPECT_EQ(nrt_get_total_vnc_count(&n), NRT_SUCCESS);
    EXPECT_EQ(nrt_get_total_nc_count(&old), NRT_SUCCESS);
    EXPECT_EQ(old, n);
    return n;
}

static uint32_t visible(void)
{
    uint32_t n = 0, old = 0;
    EXPECT_EQ(nrt_get_visible_vnc_count(&n), NRT_SUCCESS);
    EXPECT_EQ(nrt_get_visible_nc_count(&old), NRT_SUCCESS);
    EXPECT_EQ(old, n);
    return n;
}

/* A009: counts and identity before init. A013: logical cores. */
static void counts_before_init(void)
{
    nrt_instance_info_t info;
    fake("trn2.48xlarge");
    EXPECT_EQ(total(), 64);
    EXPECT_EQ(visible(), 64);
    EXPECT_EQ(nrt_get_instance_info(&info, sizeof info), NRT_SUCCESS);
    EXPECT_EQ(info.family, NRT_INSTANCE_TRN2);
    EXPECT_EQ(info.size, NRT_INSTANCE_SIZE_48XL);
    EXPECT_EQ(info.device_revision[0], 0);
}

/* A050, A055, A095: the environment is followed call by call until init, and read at no load. */
static void late_environment(void)
{
    fake("trn2.48xlarge");
    EXPECT_EQ(visible(), 64);
    setenv("NEURON_RT_VISIBLE_CORES", "0-3", 1);
    EXPECT_EQ(visible(), 4);
    setenv("NEURON_RT_VISIBLE_CORES", "0,1-2,3,7-9", 1);
    EXPECT_EQ(visible(), 7);
    unsetenv("NEURON_RT_VISIBLE_CORES");
    setenv("NEURON_RT_NUM_CORES", "999", 1);
    EXPECT_EQ(visible(), 999);
    unsetenv("NEURON_RT_NUM_CORES");
    setenv("NEURON_LOGICAL_NC_CONFIG", "1", 1);
    EXPECT_EQ(total(), 128);
    EXPECT_EQ(visible(), 128);
}

/* A020, A046, A056: from init on the cached answer stands; A058: after close the environment again. */
static void cached_after_init(void)
{
    fake("trn2.48xlarge");
    setenv("NEURON_RT_VISIBLE_CORES", "8-11", 1);
    EXPECT_EQ(init(), NRT_SUCCESS);
    setenv("NEURON_RT_VISIBLE_CORES", "0-1", 1);
    EXPECT_EQ(visible(), 4);
    EXPECT_EQ(total(), 64);
    nrt_close();
    EXPECT_EQ(visible(), 2);
}

static void init_is_idempotent(void)
{
    fake("trn1.32xlarge");
    EXPECT_EQ(init(), NRT_SUCCESS);
    setenv("NEURON_RT_RESET_CORES", "nonsense", 1);
    EXPECT_EQ(init(), NRT_SUCCESS);
    EXPECT_EQ(nrt_init((nrt_framework_type_t)77, NULL, NULL), NRT_SUCCESS);
    nrt_close();
}

static void init_takes_null_strings(void)
{
    fake("trn1.2xlarge");
    EXPECT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_PYTORCH, NULL, NULL), NRT_SUCCESS);
    nrt_close();
}

static void init_refuses_an_unknown_framework(void)
{
    fake("trn1.2xlarge");
    EXPECT_EQ(nrt_init((nrt_framework_type_t)77, "", ""), NRT_INVALID);
    EXPECT_EQ(init(), NRT_SUCCESS);
}

/* A124: one bad value fails init, the state stays START, and a corrected value works. */
static void bad_setting_fails_init_and_leaves_start(void)
{
    nrt_tensor_t *tensor = NULL;
    const void *cfg, *gcfg;
    size_t cfg_len, gcfg_len;
    fake("trn1.32xlarge");
    setenv("NEURON_RT_DBG_DMA_PACKETIZATION_SIZE", "1048576", 1);
    EXPECT_EQ(init(), NRT_INVALID);
    EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, "t", &tensor), NRT_UNINITIALIZED);
    EXPECT_EQ(opennrt_config_raw(&cfg, &cfg_len, &gcfg, &gcfg_len), NRT_SUCCESS);
    EXPECT(gcfg == NULL);
    setenv("NEURON_RT_DBG_DMA_PACKETIZATION_SIZE", "1048575", 1);
    EXPECT_EQ(init(), NRT_SUCCESS);
    EXPECT_EQ(opennrt_config_raw(&cfg, &cfg_len, &gcfg, &gcfg_len), NRT_SUCCESS);
    EXPECT(gcfg != NULL);
    EXPECT_EQ(cfg_len, 656);
    EXPECT_EQ(gcfg_len, 296);
    /* A114: the simulation flag stands in both records. */
    EXPECT_EQ(((const unsigned char *)cfg)[337], 1);
    EXPECT_EQ(((const unsigned char *)gcfg)[184], 1);
    nrt_close();
    EXPECT_EQ(opennrt_config_raw(&cfg, &cfg_len, &gcfg, &gcfg_len), NRT_SUCCESS);
    EXPECT(gcfg == NULL);
}

/* A062, A092: settings are read again at each init; identity and a fake type once seen are pinned. */
static void reinit_reads_settings_again(void)
{
    nrt_instance_info_t before, after;
    uint32_t size;
    fake("trn2.48xlarge");
    EXPECT_EQ(init(), NRT_SUCCESS);
    EXPECT_EQ(nec_get_virtual_core_size(&size), NRT_SUCCESS);
    EXPECT_EQ(size, 2);
    EXPECT_EQ(nrt_get_instance_info(&before, sizeof before), NRT_SUCCESS);
    nrt_close();
    fake("trn1.32xlarge");
    setenv("NEURON_LOGICAL_NC_CONFIG", "4", 1);
    EXPECT_EQ(init(), NRT_SUCCESS);
    EXPECT_EQ(nec_get_virtual_core_size(&size), NRT_SUCCESS);
    EXPECT_EQ(size, 4);
    EXPECT_EQ(visible(), 32);
    EXPECT_EQ(nrt_get_instance_info(&after, sizeof after), NRT_SUCCESS);
    EXPECT(memcmp(&before, &after, sizeof before) == 0);
    nrt_close();
}

/* A026, A047, A075, A094: any first call finds the fake type. */
static void identity_as_first_call(void)
{
    nrt_instance_info_t info;
    fake("inf2.24xlarge");
    EXPECT_EQ(nrt_get_instance_info(&info, sizeof info), NRT_SUCCESS);
    EXPECT_EQ(info.family, NRT_INSTANCE_INF2);
    EXPECT_EQ(info.size, NRT_INSTANCE_SIZE_24XL);
    EXPECT_EQ(total(), 12);
}

/* A072, A073: a longer record is cut, warned about once, and bytes past it stay. */
static void identity_of_other_lengths(void)
{
    unsigned char buffer[64];
    fake("trn2.48xlarge");
    setenv("NEURON_RT_LOG_LEVEL", "WARN", 1);
    for (size_t length = 0; length <= 64; length += 4) {
        memset(buffer, 0xee, sizeof buffer);
        EXPECT_EQ(nrt_get_instance_info((nrt_instance_info_t *)buffer, length), NRT_SUCCESS);
        for (size_t i = length < 32 ? length : 32; i < sizeof buffer; i++)
            EXPECT_EQ(buffer[i], 0xee);
    }
}

/* A074: the length is looked at before the cache. */
static void a_cached_identity_is_warned_about_too(void)
{
    nrt_instance_info_t info[2];
    fake("trn2.48xlarge");
    EXPECT_EQ(nrt_get_instance_info(info, sizeof info[0]), NRT_SUCCESS);
    setenv("NEURON_RT_LOG_LEVEL", "WARN", 1);
    EXPECT_EQ(init(), NRT_SUCCESS);
    EXPECT_EQ(nrt_get_instance_info(info, sizeof info), NRT_SUCCESS);
}

static void no_device(void) { setenv("OPENNRT_DEV_DIR", "/nonexistent", 1); }

/* A032: the call's own line carries what was said below it. */
static void failing_total_says_why(void)
{
    uint32_t n = 7;
    no_device();
    EXPECT_EQ(nrt_get_total_vnc_count(&n), NRT_INVALID);
    EXPECT_EQ(n, 7);
}

/* A037, A038: whatever the variables say, a logical core of this generation is one core. */
static void core_size_of_arch_2_is_one(void)
{
    fake("trn1.32xlarge");
    const char *const texts[] = {"2", "abc", "", "0"};
    for (int i = 0; i < 4; i++) {
        setenv("NEURON_LOGICAL_NC_CONFIG", texts[i], 1);
        setenv("NEURON_RT_VIRTUAL_CORE_SIZE", texts[i], 1);
        EXPECT_EQ(total(), 32);
        EXPECT_EQ(visible(), 32);
    }
    EXPECT_EQ(init(), NRT_SUCCESS);
    nrt_close();
}

/* A034, A041, A042: refused without a number and without an abort. */
static void bad_core_size_is_refused(void)
{
    fake("trn2.48xlarge");
    const char *const texts[] = {"3", "16"};
    for (int i = 0; i < 2; i++) {
        uint32_t n = 7;
        setenv("NEURON_LOGICAL_NC_CONFIG", texts[i], 1);
        EXPECT_EQ(nrt_get_total_vnc_count(&n), NRT_INVALID);
        EXPECT_EQ(nrt_get_visible_vnc_count(&n), NRT_INVALID);
        EXPECT_EQ(init(), NRT_INVALID);
        EXPECT_EQ(n, 7);
    }
    setenv("NEURON_LOGICAL_NC_CONFIG", "8", 1);
    EXPECT_EQ(total(), 16);
}

/* A030, A068: a call without a line of its own ends in the general one. */
static void failing_visible_ends_with_the_general_line(void)
{
    uint32_t n = 7;
    fake("trn2.48xlarge");
    setenv("NEURON_RT_VISIBLE_CORES", "1-x", 1);
    EXPECT_EQ(nrt_get_visible_vnc_count(&n), NRT_INVALID);
    EXPECT_EQ(n, 7);
}

/* A079, A080: a failed identity is not kept. */
static void failing_identity_is_asked_again(void)
{
    nrt_instance_info_t info;
    memset(&info, 0xee, sizeof info);
    no_device();
    EXPECT_EQ(nrt_get_instance_info(&info, sizeof info), NRT_INVALID);
    EXPECT_EQ(info.family, 0xeeeeeeee);
    fake("trn1.2xlarge");
    EXPECT_EQ(nrt_get_instance_info(&info, sizeof info), NRT_SUCCESS);
    EXPECT_EQ(info.family, NRT_INSTANCE_TRN1);
}

static void settings_are_read_when_there_is_a_device(void)
{
    no_device();
    setenv("NEURON_RT_RESET_CORES", "nonsense", 1);
    EXPECT_EQ(init(), NRT_INVALID);
    fake("trn1.2xlarge");
    EXPECT_EQ(init(), NRT_INVALID);
    unsetenv("NEURON_RT_RESET_CORES");
    EXPECT_EQ(init(), NRT_SUCCESS);
}

/* A106 */
static void settings_are_not_read_without_a_device(void)
{
    no_device();
    setenv("NEURON_RT_RESET_CORES", "nonsense", 1);
    EXPECT_EQ(init(), NRT_INVALID);
}

static void unknown_fake_type_is_refused(void)
{
    uint32_t n = 7;
    fake("trn9.gigalarge");
    EXPECT_EQ(nrt_get_total_vnc_count(&n), NRT_INVALID);
    EXPECT_EQ(n, 7);
    EXPECT_EQ(init(), NRT_INVALID);
    fake("trn1.2xlarge");
    EXPECT_EQ(nrt_get_total_vnc_count(&n), NRT_SUCCESS);
    EXPECT_EQ(n, 2);
    EXPECT_EQ(init(), NRT_SUCCESS);
}

static void null_out_pointers_are_refused(void)
{
    fake("trn1.2xlarge");
    EXPECT_EQ(nrt_get_total_vnc_count(NULL), NRT_INVALID);
    EXPECT_EQ(nrt_get_visible_vnc_count(NULL), NRT_INVALID);
    EXPECT_EQ(nrt_get_instance_info(NULL, 32), NRT_INVALID);
    EXPECT_EQ(nrt_get_version(NULL, sizeof(nrt_version_t)), NRT_INVALID);
}

/* A001; lifecycle.md section 7. */
static void version_by_length(void)
{
    nrt_version_t v;
    memset(&v, 0xee, sizeof v);
    EXPECT_EQ(nrt_get_version(&v, 159), NRT_FAILURE);
    EXPECT_EQ(v.rt_major, 0xeeeeeeeeeeeeeeeeLL);
    EXPECT_EQ(nrt_get_version(&v, 160), NRT_SUCCESS);
    EXPECT(v.rt_major == 2 && v.rt_minor == 31 && v.rt_patch == 24 && v.rt_maintenance == 0);
    EXPECT(strncmp(v.rt_detail, "libnrt version 2.31.24.0", 24) == 0);
    EXPECT_EQ((unsigned char)v.git_hash[0], 0xee);
    EXPECT_EQ(nrt_get_version(&v, 200), NRT_SUCCESS);
    EXPECT_EQ((unsigned char)v.git_hash[0], 0xee);
    EXPECT_EQ(nrt_get_version(&v, sizeof v), NRT_SUCCESS);
    EXPECT_EQ(strlen(v.git_hash), 40);
}

/* lifecycle.md section 4.2: arch above 2 gives one core or whole devices. */
static void odd_number_of_cores_is_refused(void)
{
    fake("trn2.48xlarge");
    setenv("NEURON_RT_NUM_CORES", "3", 1);
    EXPECT_EQ(init(), NRT_INVALID);
    setenv("NEURON_RT_NUM_CORES", "8", 1);
    EXPECT_EQ(init(), NRT_SUCCESS);
    EXPECT_EQ(visible(), 8);
}

static void too_many_cores_are_not_available(void)
{
    fake("trn1.2xlarge");
    setenv("NEURON_RT_NUM_CORES", "3", 1);
    EXPECT_EQ(init(), NRT_FAILURE);
}

static void info_level_names_the_backend(void)
{
    fake("trn1.2xlarge");
    setenv("NEURON_RT_LOG_LEVEL", "INFO", 1);
    EXPECT_EQ(init(), NRT_SUCCESS);
    nrt_close();
}

int main(void)
{
    RUN(counts_before_init, QUIET);
    RUN(late_environment, QUIET);
    RUN(cached_after_init, QUIET);
    RUN(init_is_idempotent, QUIET);
    RUN(init_takes_null_strings, QUIET);
    RUN(init_refuses_an_unknown_framework, PRINTS("framework type 77"));
    RUN(bad_setting_fails_init_and_leaves_start,
        PRINTS("NEURON_RT_DBG_DMA_PACKETIZATION_SIZE", "1048576", "NRT uninitialized"));
    RUN(reinit_reads_settings_again, QUIET);
    RUN(identity_as_first_call, QUIET);
    RUN(identity_of_other_lengths, PRINTS("Not all fields will be returned, info size is: 36, copy size is: 32"));
    RUN(a_cached_identity_is_warned_about_too, PRINTS("info size is: 64, copy size is: 32"));
    RUN(failing_total_says_why,
        PRINTS("NRT:nrt_get_total_vnc_count", "Failed to parse vnc config\n\tTDRV:", "No neuron device available"));
    RUN(core_size_of_arch_2_is_one, QUIET);
    RUN(bad_core_size_is_refused, PRINTS("Logical core size (3)", "Logical core size (16)", "power of two"));
    RUN(failing_visible_ends_with_the_general_line,
        PRINTS("NLOG:nrt_get_visible_vnc_count", "Generic API Failure\n\t", "NEURON_RT_VISIBLE_CORES=\"1-x\""));
    RUN(failing_identity_is_asked_again, PRINTS("Failed to get device info by nrt_get_dev_info()"));
    RUN(settings_are_read_when_there_is_a_device,
        PRINTS("No Neuron devices were found", "NEURON_RT_RESET_CORES=\"nonsense\""));
    RUN(settings_are_not_read_without_a_device,
        PRINTS("No Neuron devices were found", "!NEURON_RT_RESET_CORES=\"nonsense\""));
    RUN(unknown_fake_type_is_refused, PRINTS("trn9.gigalarge", "trn2.48xlarge"));
    RUN(null_out_pointers_are_refused, PRINTS("NULL"));
    RUN(version_by_length, PRINTS("Size is < 160"));
    RUN(odd_number_of_cores_is_refused,
        PRINTS("`NEURON_RT_NUM_CORES` must request one core, or the whole device (multiple of 4)"));
    RUN(too_many_cores_are_not_available,
        PRINTS("Logical Neuron Core(s) not available - Requested:3 Available:2 Logical Core size 1"));
    RUN(info_level_names_the_backend, PRINTS("Neuron Runtime 2.31.24.0 built on", "fake backend"));
    return check_done();
}
