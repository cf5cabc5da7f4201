/* What a program sees on the real driver: counts, identity, init, and a reset between two inits.
 *
 *   client DEVICES FAMILY
 *
 * DEVICES is how many there must be, FAMILY the number of the instance family in nrt.h. It works on
 * device files of any origin; OPENNRT_DEV_DIR and OPENNRT_SYS_DIR say where they are. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nrt/nrt.h"
#include "nrt/opennrt.h"

static int failed;

#define EXPECT_EQ(have, want)                                                                                          \
    do {                                                                                                               \
        long long have_ = (long long)(have), want_ = (long long)(want);                                                \
        if (have_ != want_) {                                                                                          \
            printf("line %d: %s is %lld, expected %lld\n", __LINE__, #have, have_, want_);                             \
            failed = 1;                                                                                                \
        }                                                                                                              \
    } while (0)

/* Cores of one device, from the driver. */
static int cores_of_a_device(const char *sys)
{
    char path[4096], text[16] = "";
    snprintf(path, sizeof path, "%s/class/neuron_device/neuron0/core_count", sys);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
        perror(path);
    if (fd >= 0)
        close(fd);
    return atoi(text);
}

/* Asks the driver for a reset of every device; nobody may have one open. */
static void reset(const char *sys, int devices)
{
    for (int i = 0; i < devices; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/class/neuron_device/neuron%d/reset", sys, i);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, "1", 1) != 1) {
            perror(path);
            failed = 1;
        }
        if (fd >= 0)
            close(fd);
    }
}

static void use(uint32_t total)
{
    uint32_t visible = 0;
    nrt_tensor_t *tensor = NULL;
    char data[4096], back[4096] = "";
    memset(data, 0x5a, sizeof data);

    EXPECT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
    EXPECT_EQ(nrt_get_visible_vnc_count(&visible), NRT_SUCCESS);
    EXPECT_EQ(visible, total);
    EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, sizeof data, "t", &tensor), NRT_SUCCESS);
    EXPECT_EQ(nrt_tensor_write(tensor, data, 0, sizeof data), NRT_SUCCESS);
    EXPECT_EQ(nrt_tensor_read(tensor, back, 0, sizeof back), NRT_SUCCESS);
    EXPECT_EQ(memcmp(data, back, sizeof data), 0);
    nrt_tensor_free(&tensor);
    nrt_close();
}

int main(int argc, char **argv)
{
    const char *sys = getenv("OPENNRT_SYS_DIR");
    nrt_instance_info_t info;
    uint32_t total = 0;

    if (argc != 3) {
        fprintf(stderr, "client: give the number of devices and the instance family\n");
        return 2;
    }
    int devices = atoi(argv[1]);
    sys = sys == NULL ? "/sys" : sys;
    /* Logical cores are then the cores of the device, whatever the family joins by default. */
    setenv("NEURON_LOGICAL_NC_CONFIG", "1", 1);
    EXPECT_EQ(nrt_get_total_vnc_count(&total), NRT_SUCCESS);
    EXPECT_EQ(total, devices * cores_of_a_device(sys));
    EXPECT_EQ(nrt_get_instance_info(&info, sizeof info), NRT_SUCCESS);
    EXPECT_EQ(info.family, atoi(argv[2]));
    use(total);
    reset(sys, devices);
    use(total);
    printf("client: %d devices, %u cores on the %s backend: %s\n", devices, total, opennrt_backend(),
           failed ? "failed" : "ok");
    return failed;
}
