/* Every tensor call doing its work, at the default log level and so without a word. */
#include "check.h"
#include "nrt/nec.h"
#include "nrt/nrt.h"
#include "nrt/nrt_experimental.h"
#include "nrt/opennrt.h"

enum { SIZE = 1 << 16 };

static char data[SIZE], back[SIZE];

static nrt_tensor_t *tensor(nrt_tensor_placement_t placement, int vnc, size_t size)
{
    nrt_tensor_t *t = NULL;
    EXPECT_EQ(nrt_tensor_allocate(placement, vnc, size, "t", &t), NRT_SUCCESS);
    EXPECT_EQ(nrt_tensor_get_size(t), size);
    return t;
}

static void up(const char *instance)
{
    fake(instance);
    EXPECT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
    for (int i = 0; i < SIZE; i++)
        data[i] = (char)(i * 31 + i / 251);
}

static void expect_data(const nrt_tensor_t *t, size_t offset, const char *want, size_t size)
{
    memset(back, 0xee, sizeof back);
    EXPECT_EQ(nrt_tensor_read(t, back, offset, size), NRT_SUCCESS);
    EXPECT(memcmp(back, want, size) == 0);
}

static void bytes_go_in_and_come_out(void)
{
    up("trn1.32xlarge");
    nrt_tensor_t *device = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 31, SIZE);
    nrt_tensor_t *host = tensor(NRT_TENSOR_PLACEMENT_HOST, -1, SIZE);
    nrt_tensor_t *plain = tensor(NRT_TENSOR_PLACEMENT_VIRTUAL, -1, SIZE);
    EXPECT_EQ(nrt_tensor_write(device, data, 0, SIZE), NRT_SUCCESS);
    expect_data(device, 0, data, SIZE);
    EXPECT_EQ(nrt_tensor_copy(device, 100, plain, 0, 1000), NRT_SUCCESS);
    expect_data(plain, 0, data + 100, 1000);
    EXPECT_EQ(nrt_tensor_copy(plain, 0, device, 100, 1000), NRT_SUCCESS);
    EXPECT_EQ(nrt_tensor_write(host, data, 0, SIZE), NRT_SUCCESS);
    expect_data(host, 0, data, SIZE);
    EXPECT_EQ(nrt_tensor_memset(device, 10, 0x155, 20), NRT_SUCCESS);
    expect_data(device, 10, "UUUUUUUUUUUUUUUUUUUU", 20);
    expect_data(device, 30, data + 30, SIZE - 30);

    nrt_tensor_batch_op_t ops[] = {{0, 10, data + 7}, {SIZE - 10, 10, data + 9}};
    nrt_tensor_batch_t batch = {device, ops, 2};
    EXPECT_EQ(nrt_tensor_write_batch(&batch, 1, false), NRT_SUCCESS);
    expect_data(device, 0, data + 7, 10);
    expect_data(device, SIZE - 10, data + 9, 10);
    ops[0].buffer = back;
    ops[1].buffer = back + 10;
    EXPECT_EQ(nrt_tensor_read_batch(&batch, 1, true), NRT_SUCCESS);
    EXPECT(memcmp(back, data + 7, 10) == 0 && memcmp(back + 10, data + 9, 10) == 0);
    nrt_tensor_free(&device);
    nrt_tensor_free(&host);
    nrt_tensor_free(&plain);
    EXPECT(device == NULL && host == NULL && plain == NULL);
    nrt_close();
}

static void views_share_bytes(void)
{
    nrt_tensor_t *slice = NULL, *empty = NULL;
    static char mine[64];
    up("trn2.48xlarge");
    nrt_tensor_t *whole = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 5, SIZE);
    EXPECT_EQ(nrt_tensor_allocate_slice(whole, 1000, 100, "slice", &slice), NRT_SUCCESS);
    EXPECT_EQ(nrt_tensor_get_size(slice), 100);
    EXPECT_EQ(nrt_tensor_write(slice, data, 0, 100), NRT_SUCCESS);
    expect_data(whole, 1000, data, 100);
    nrt_tensor_free(&whole);
    expect_data(slice, 0, data, 100);
    nrt_tensor_free(&slice);

    EXPECT_EQ(nrt_tensor_allocate_empty("empty", &empty), NRT_SUCCESS);
    EXPECT_EQ(nrt_tensor_get_size(empty), 0);
    EXPECT_EQ(nrt_tensor_attach_buffer(empty, mine, sizeof mine), NRT_SUCCESS);
    EXPECT(nrt_tensor_get_va(empty) == mine);
    EXPECT_EQ(nrt_tensor_write(empty, data, 0, sizeof mine), NRT_SUCCESS);
    EXPECT(memcmp(mine, data, sizeof mine) == 0);
    nrt_tensor_free(&empty);
    nrt_close();
}

static void places_and_numbers(void)
{
    nrt_tensor_device_allocation_info_t place;
    nrt_vnc_memory_stats_t before, after;
    void *hbm = NULL;
    size_t size = 0, written = 0;
    int devices[64];
    uint32_t lnc = 0;
    up("trn2.48xlarge");
    EXPECT_EQ(nrt_get_vnc_memory_stats(0, &before, sizeof before, &written), NRT_SUCCESS);
    EXPECT_EQ(written, sizeof before);
    nrt_tensor_t *t = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 0, SIZE);
    EXPECT_EQ(nrt_get_vnc_memory_stats(0, &after, sizeof after, NULL), NRT_SUCCESS);
    EXPECT(after.bytes_used >= before.bytes_used + SIZE && after.bytes_limit == before.bytes_limit);
    EXPECT_EQ(nrt_tensor_get_device_allocation_info(t, &place), NRT_SUCCESS);
    EXPECT(place.size == SIZE && place.hbm_index == 0 && place.physical_address != 0);
    EXPECT_EQ(nrt_get_hbm_mmap_va(0, 0, &hbm, &size), NRT_SUCCESS);
    EXPECT(hbm != NULL && size > SIZE);
    EXPECT_EQ(nrt_memcpy_to_device(nrt_tensor_get_va(t), data, 100), NRT_SUCCESS);
    expect_data(t, 0, data, 100);
    EXPECT_EQ(nrt_tensor_reset_output_completion(t), NRT_SUCCESS);
    EXPECT_EQ(nrt_tensor_check_output_completion(t, 0, 0), NRT_SUCCESS);
    nrt_tensor_free(&t);

    EXPECT_EQ(nec_get_device_count(devices, 64), 16);
    EXPECT(devices[0] == 0 && devices[15] == 15);
    EXPECT_EQ(nec_get_virtual_core_size(&lnc), NRT_SUCCESS);
    EXPECT_EQ(lnc, 2);
    EXPECT(strcmp(opennrt_backend(), "fake") == 0 && opennrt_version()[0] != '\0');
    nrt_close();
}

static void sets_hold_tensors_by_name(void)
{
    nrt_tensor_set_t *set = NULL;
    nrt_tensor_t *found = NULL;
    up("inf2.xlarge");
    nrt_tensor_t *a = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64), *b = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 1, 64);
    EXPECT_EQ(nrt_allocate_tensor_set(&set), NRT_SUCCESS);
    EXPECT_EQ(nrt_add_tensor_to_tensor_set(set, "x", a), NRT_SUCCESS);
    EXPECT_EQ(nrt_add_tensor_to_tensor_set(set, "x", b), NRT_SUCCESS);
    EXPECT_EQ(nrt_get_tensor_from_tensor_set(set, "x", &found), NRT_SUCCESS);
    EXPECT(found == b);
    nrt_destroy_tensor_set(&set);
    EXPECT(set == NULL);
    EXPECT_EQ(nrt_tensor_get_size(b), 64);
    nrt_tensor_free(&a);
    nrt_tensor_free(&b);
    nrt_close();
}

/* The one call of this list that a simulated instance cannot do says so. */
static void no_dma_buffer_without_a_driver(void)
{
    int fd = -7;
    up("trn2.48xlarge");
    nrt_tensor_t *t = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 0, SIZE);
    EXPECT_EQ(nrt_get_dmabuf_fd((uint64_t)(uintptr_t)nrt_tensor_get_va(t), SIZE, &fd), NRT_INVALID);
    EXPECT_EQ(fd, -7);
    nrt_close();
}

int main(void)
{
    RUN(bytes_go_in_and_come_out, QUIET);
    RUN(views_share_bytes, QUIET);
    RUN(places_and_numbers, QUIET);
    RUN(sets_hold_tensors_by_name, QUIET);
    RUN(no_dma_buffer_without_a_driver, PRINTS("nrt_get_dmabuf_fd"));
    return check_done();
}
