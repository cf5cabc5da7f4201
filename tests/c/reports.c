/* What users of the vendor library report, one scenario a report. B02 to B04 are about the file
 * and the loader (tests/link.rs); B05 and B06 need two processes on one instance. */
#include "check.h"
#include "nrt/nrt.h"

static NRT_STATUS init(void) { return nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""); }

static uint32_t visible(void)
{
    uint32_t n = 0;
    EXPECT_EQ(nrt_get_visible_vnc_count(&n), NRT_SUCCESS);
    return n;
}

static uint32_t total(void)
{
    uint32_t n = 0;
    EXPECT_EQ(nrt_get_total_vnc_count(&n), NRT_SUCCESS);
    return n;
}

static void b01_no_device(void)
{
    setenv("OPENNRT_DEV_DIR", "/nonexistent", 1);
    EXPECT_EQ(init(), NRT_INVALID);
    fake("trn1.2xlarge");
    EXPECT_EQ(init(), NRT_SUCCESS);
    nrt_close();
}

static void b08_lists_and_ranges(void)
{
    nrt_tensor_t *t = NULL;
    fake("trn2.48xlarge");
    setenv("NEURON_RT_VISIBLE_CORES", "0,1-2,3", 1);
    EXPECT_EQ(visible(), 4);
    EXPECT_EQ(init(), NRT_SUCCESS);
    EXPECT_EQ(visible(), 4);
    for (int vnc = 0; vnc < 4; vnc++) {
        EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, vnc, 64, "t", &t), NRT_SUCCESS);
        nrt_tensor_free(&t);
    }
    EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 4, 64, "t", &t), NRT_INVALID);
    nrt_close();
    setenv("NEURON_RT_VISIBLE_CORES", "0,2-3,5", 1);
    EXPECT_EQ(visible(), 4);
    EXPECT_EQ(init(), NRT_INVALID);
}

static void b09_devices_and_logical_cores(void)
{
    nrt_instance_info_t info;
    fake("trn2.3xlarge");
    EXPECT_EQ(total(), 4);
    EXPECT_EQ(visible(), 4);
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "NEURON_RT_VIRTUAL_CORE_SIZE" : "NEURON_LOGICAL_NC_CONFIG";
        setenv(name, "1", 1);
        EXPECT_EQ(total(), 8);
        EXPECT_EQ(visible(), 8);
        setenv(name, "2", 1);
        EXPECT_EQ(total(), 4);
        EXPECT_EQ(visible(), 4);
        unsetenv(name);
    }
    EXPECT_EQ(nrt_get_instance_info(&info, sizeof info), NRT_SUCCESS);
    EXPECT_EQ(info.family, NRT_INSTANCE_TRN2);
}

static void b10_device_memory_used_up(void)
{
    enum { MOST = 64 };
    nrt_tensor_t *held[MOST] = {NULL}, *again = NULL;
    int n = 0;
    NRT_STATUS status = NRT_SUCCESS;
    fake("trn1.2xlarge");
    setenv("OPENNRT_HBM_MIB", "64", 1);
    EXPECT_EQ(init(), NRT_SUCCESS);
    for (int i = 0; i < MOST; i++)
        held[i] = (nrt_tensor_t *)&held; /* what an uninitialised variable could hold */
    while (n < MOST && (status = nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 8 << 20, "t", &held[n])) == NRT_SUCCESS)
        n++;
    EXPECT(n > 0 && n < MOST);
    EXPECT_EQ(status, NRT_RESOURCE);
    EXPECT(held[n] == NULL);
    nrt_tensor_free(&held[0]);
    EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 8 << 20, "t", &again), NRT_SUCCESS);
    nrt_close();
}

static void b11_close_without_init(void)
{
    nrt_close();
    nrt_close();
    fake("trn1.2xlarge");
    EXPECT_EQ(init(), NRT_SUCCESS);
    nrt_close();
    nrt_close();
}

static void b12_tensor_outlives_close(void)
{
    nrt_tensor_t *t = NULL;
    char byte;
    fake("trn1.2xlarge");
    EXPECT_EQ(init(), NRT_SUCCESS);
    EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, "t", &t), NRT_SUCCESS);
    nrt_close();
    EXPECT_EQ(nrt_tensor_get_size(t), 64);
    EXPECT_EQ(nrt_tensor_read(t, &byte, 0, 1), NRT_UNINITIALIZED);
    EXPECT_EQ(nrt_tensor_write(t, &byte, 0, 1), NRT_UNINITIALIZED);
    nrt_tensor_free(&t);
    EXPECT(t == NULL);
    nrt_tensor_free(&t);
}

int main(void)
{
    RUN(b01_no_device, PRINTS("/nonexistent", "NEURON_RT_FAKE_INSTANCE_TYPE"));
    RUN(b08_lists_and_ranges, PRINTS("Cannot allocate a tensor on Logical NeuronCore 4",
                                     "Logical Neuron cores are not contiguous"));
    RUN(b09_devices_and_logical_cores, QUIET);
    RUN(b10_device_memory_used_up, PRINTS("Failed to allocate"));
    RUN(b11_close_without_init, QUIET);
    RUN(b12_tensor_outlives_close, PRINTS("NRT uninitialized"));
    return check_done();
}
