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

/* Every call that takes the handle of a tensor, and what it answers when that is not one. */
static nrt_tensor_t *good;
static nrt_tensor_set_t *good_set;

static int do_read(nrt_tensor_t *t) { return (int)nrt_tensor_read(t, back, 0, 4); }
static int do_write(nrt_tensor_t *t) { return (int)nrt_tensor_write(t, data, 0, 4); }
static int do_memset(nrt_tensor_t *t) { return (int)nrt_tensor_memset(t, 0, 0, 4); }
static int do_copy_from(nrt_tensor_t *t) { return (int)nrt_tensor_copy(t, 0, good, 0, 4); }
static int do_copy_to(nrt_tensor_t *t) { return (int)nrt_tensor_copy(good, 0, t, 0, 4); }
static int do_attach(nrt_tensor_t *t) { return (int)nrt_tensor_attach_buffer(t, data, 4); }
static int do_reset(nrt_tensor_t *t) { return (int)nrt_tensor_reset_output_completion(t); }
static int do_check(nrt_tensor_t *t) { return (int)nrt_tensor_check_output_completion(t, 0, 0); }
static int do_add(nrt_tensor_t *t) { return (int)nrt_add_tensor_to_tensor_set(good_set, "x", t); }

static int do_read_batch(nrt_tensor_t *t)
{
    nrt_tensor_batch_op_t op = {0, 4, back};
    nrt_tensor_batch_t batch = {t, &op, 1};
    return (int)nrt_tensor_read_batch(&batch, 1, false);
}

static int do_write_batch(nrt_tensor_t *t)
{
    nrt_tensor_batch_op_t op = {0, 4, data};
    nrt_tensor_batch_t batch = {t, &op, 1};
    return (int)nrt_tensor_write_batch(&batch, 1, true);
}

static int do_slice(nrt_tensor_t *t)
{
    nrt_tensor_t *slice = good;
    int status = (int)nrt_tensor_allocate_slice(t, 0, 4, "s", &slice);
    EXPECT(slice == NULL || slice == good);
    return status;
}

static int do_place(nrt_tensor_t *t)
{
    nrt_tensor_device_allocation_info_t place = {7, 7, 7};
    int status = (int)nrt_tensor_get_device_allocation_info(t, &place);
    EXPECT(place.size == 7);
    return status;
}

static int (*const calls[])(nrt_tensor_t *) = {
    do_read,  do_write, do_memset,     do_copy_from,   do_copy_to, do_attach, do_reset,
    do_check, do_add,   do_read_batch, do_write_batch, do_slice,   do_place,
};

static void refused(nrt_tensor_t *bad, NRT_STATUS status)
{
    nrt_tensor_t *place = bad;
    EXPECT_EQ(nrt_allocate_tensor_set(&good_set), NRT_SUCCESS);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        EXPECT_EQ(calls[i](bad), status);
    EXPECT_EQ(nrt_tensor_get_size(bad), 0);
    EXPECT(nrt_tensor_get_va(bad) == NULL);
    nrt_tensor_free(&place);
    EXPECT(place == NULL);
    nrt_tensor_free(&place);
    nrt_tensor_free(NULL);
    expect_data(good, 0, data, SIZE);
    nrt_tensor_free(&good);
    nrt_destroy_tensor_set(&good_set);
    nrt_close();
}

static void good_one(void)
{
    up("trn1.2xlarge");
    good = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 0, SIZE);
    EXPECT_EQ(nrt_tensor_write(good, data, 0, SIZE), NRT_SUCCESS);
}

static void null_is_no_tensor(void)
{
    good_one();
    refused(NULL, NRT_INVALID);
}

static void a_freed_tensor_is_none(void)
{
    good_one();
    nrt_tensor_t *t = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64), *freed = t;
    nrt_tensor_free(&t);
    refused(freed, NRT_INVALID_HANDLE);
}

static void an_address_on_the_stack_is_none(void)
{
    uint64_t words[64] = {0};
    good_one();
    refused((nrt_tensor_t *)words, NRT_INVALID_HANDLE);
}

static void a_place_inside_a_tensor_is_none(void)
{
    good_one();
    refused((nrt_tensor_t *)((char *)good + 8), NRT_INVALID_HANDLE);
}

static void the_tensor_after_the_last_is_none(void)
{
    good_one();
    refused((nrt_tensor_t *)((char *)good + 256), NRT_INVALID_HANDLE);
}

static void a_set_is_none(void)
{
    nrt_tensor_set_t *set = NULL;
    good_one();
    EXPECT_EQ(nrt_allocate_tensor_set(&set), NRT_SUCCESS);
    refused((nrt_tensor_t *)set, NRT_INVALID_HANDLE);
}

static void what_is_no_set_is_refused(void)
{
    nrt_tensor_set_t *set = NULL;
    nrt_tensor_t *found = NULL;
    uint64_t words[8] = {0};
    good_one();
    EXPECT_EQ(nrt_allocate_tensor_set(&set), NRT_SUCCESS);
    nrt_tensor_set_t *destroyed = set;
    nrt_destroy_tensor_set(&set);
    nrt_tensor_set_t *const bad[] = {NULL, destroyed, (nrt_tensor_set_t *)good, (nrt_tensor_set_t *)words};
    for (size_t i = 0; i < 4; i++) {
        NRT_STATUS status = i == 0 ? NRT_INVALID : NRT_INVALID_HANDLE;
        nrt_tensor_set_t *place = bad[i];
        EXPECT_EQ(nrt_add_tensor_to_tensor_set(bad[i], "x", good), status);
        EXPECT_EQ(nrt_get_tensor_from_tensor_set(bad[i], "x", &found), status);
        nrt_destroy_tensor_set(&place);
        EXPECT(place == NULL && found == NULL);
    }
    EXPECT_EQ(nrt_allocate_tensor_set(&set), NRT_SUCCESS);
    EXPECT_EQ(nrt_get_tensor_from_tensor_set(set, "x", &found), NRT_FAILURE);
    EXPECT(found == NULL);
    EXPECT_EQ(nrt_add_tensor_to_tensor_set(set, NULL, good), NRT_INVALID);
    EXPECT_EQ(nrt_get_tensor_from_tensor_set(set, NULL, &found), NRT_INVALID);
    EXPECT_EQ(nrt_get_tensor_from_tensor_set(set, "x", NULL), NRT_INVALID);
    nrt_close();
}

/* Offsets and sizes that 32 bits do not hold, on sparse memory. */
static void more_than_4_gib(void)
{
    const size_t edge = (size_t)1 << 32, size = edge + (1 << 20);
    nrt_tensor_t *slice = NULL;
    nrt_vnc_memory_stats_t stats;
    up("trn2.48xlarge");
    nrt_tensor_t *const large[] = {tensor(NRT_TENSOR_PLACEMENT_DEVICE, 0, size),
                                   tensor(NRT_TENSOR_PLACEMENT_VIRTUAL, -1, size)};
    EXPECT_EQ(nrt_get_vnc_memory_stats(0, &stats, sizeof stats, NULL), NRT_SUCCESS);
    EXPECT_EQ(stats.bytes_used, size);
    for (int i = 0; i < 2; i++) {
        nrt_tensor_t *t = large[i];
        EXPECT_EQ(nrt_tensor_write(t, data, edge - 1000, 2000), NRT_SUCCESS);
        expect_data(t, edge - 1000, data, 2000);
        EXPECT_EQ(nrt_tensor_copy(t, edge - 1000, t, edge + 5000, 2000), NRT_SUCCESS);
        EXPECT_EQ(nrt_tensor_copy(t, edge + 5000, t, 3, 2000), NRT_SUCCESS);
        expect_data(t, edge + 5000, data, 2000);
        expect_data(t, 3, data, 2000);
        EXPECT_EQ(nrt_tensor_memset(t, edge - 2, 0x55, 4), NRT_SUCCESS);
        expect_data(t, edge - 2, "UUUU", 4);
        expect_data(t, edge + 2, data + 1002, 900);
        EXPECT_EQ(nrt_tensor_allocate_slice(t, edge + 5000, 2000, "high", &slice), NRT_SUCCESS);
        expect_data(slice, 0, data, 2000);
        EXPECT((char *)nrt_tensor_get_va(slice) - (char *)nrt_tensor_get_va(t) == (ptrdiff_t)edge + 5000);
        nrt_tensor_batch_op_t op = {size - 100, 100, data + 7};
        nrt_tensor_batch_t batch = {t, &op, 1};
        EXPECT_EQ(nrt_tensor_write_batch(&batch, 1, false), NRT_SUCCESS);
        expect_data(t, size - 100, data + 7, 100);
        /* What the low 32 bits of the offset name is untouched. */
        EXPECT_EQ(nrt_tensor_read(t, back, 5000, 8), NRT_SUCCESS);
        EXPECT(memcmp(back, "\0\0\0\0\0\0\0\0", 8) == 0);
        nrt_tensor_free(&slice);
    }
    EXPECT_EQ(nrt_tensor_copy(large[0], edge - 1000, large[1], 9, 2000), NRT_SUCCESS);
    EXPECT_EQ(nrt_tensor_read(large[1], back, size - 100, 101), NRT_INVALID);
    nrt_close();
}

/* The operations before the one that fails have taken effect, whatever is wrong with it. */
static void batches_stop_at_the_first_failure(void)
{
    static char mine[4][8];
    up("trn1.2xlarge");
    nrt_tensor_t *t = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 1, 64), *freed = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 1, 64);
    nrt_tensor_t *stale = freed;
    nrt_tensor_free(&freed);
    const nrt_tensor_batch_op_t wrong[] = {{60, 8, mine[1]}, {UINT64_MAX, 8, mine[1]}, {0, 8, NULL}, {0, UINT64_MAX, mine[1]}};
    for (int skip = 0; skip < 2; skip++) {
        for (size_t i = 0; i < 4; i++) {
            nrt_tensor_batch_op_t ops[] = {{8, 8, mine[0]}, wrong[i], {24, 8, mine[2]}};
            nrt_tensor_batch_t batch = {t, ops, 3};
            EXPECT_EQ(nrt_tensor_memset(t, 0, 0, 64), NRT_SUCCESS);
            memset(mine, 0x11, sizeof mine);
            EXPECT_EQ(nrt_tensor_write_batch(&batch, 1, skip), NRT_INVALID);
            expect_data(t, 8, mine[0], 8);
            expect_data(t, 24, "\0\0\0\0\0\0\0\0", 8);
            memset(mine, 0, sizeof mine);
            EXPECT_EQ(nrt_tensor_read_batch(&batch, 1, skip), NRT_INVALID);
            EXPECT(mine[0][0] == 0x11 && mine[0][7] == 0x11 && mine[1][0] == 0 && mine[2][0] == 0);
        }
        nrt_tensor_batch_op_t first = {0, 8, data}, last = {32, 8, data};
        nrt_tensor_batch_t batches[] = {{t, &first, 1}, {stale, &first, 1}, {t, &last, 1}};
        EXPECT_EQ(nrt_tensor_memset(t, 0, 0, 64), NRT_SUCCESS);
        EXPECT_EQ(nrt_tensor_write_batch(batches, 3, skip), NRT_INVALID_HANDLE);
        expect_data(t, 0, data, 8);
        expect_data(t, 32, "\0\0\0\0\0\0\0\0", 8);
        batches[1] = (nrt_tensor_batch_t){t, NULL, 1};
        EXPECT_EQ(nrt_tensor_write_batch(batches, 3, skip), NRT_INVALID);
        EXPECT_EQ(nrt_tensor_write_batch(NULL, 0, skip), NRT_SUCCESS);
        EXPECT_EQ(nrt_tensor_write_batch(NULL, 1, skip), NRT_INVALID);
    }
    nrt_close();
}

/* The first word of a view is the name, an owned copy. */
static void names_are_copied(void)
{
    static char longest[4098];
    nrt_tensor_t *t = NULL, *slice = NULL, *none = NULL;
    up("trn2.3xlarge");
    memset(longest, 'n', 4096);
    char mine[] = "mine";
    const struct {
        const char *given, *kept;
    } names[] = {{NULL, "_unknown_"}, {"", ""}, {mine, "mine"}, {longest, longest}, {"\xff%s\n", "\xff%s\n"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, names[i].given, &t), NRT_SUCCESS);
        EXPECT_EQ(nrt_tensor_allocate_slice(t, 0, 8, names[i].given, &slice), NRT_SUCCESS);
        EXPECT_EQ(nrt_tensor_allocate_empty(names[i].given, &none), NRT_SUCCESS);
        nrt_tensor_t *const all[] = {t, slice, none};
        for (int n = 0; n < 3; n++) {
            const char *kept = *(const char *const *)all[n];
            EXPECT(kept != names[i].given && strcmp(kept, names[i].kept) == 0);
        }
        mine[0] = 'M';
        nrt_tensor_free(&t);
        nrt_tensor_free(&slice);
        nrt_tensor_free(&none);
        mine[0] = 'm';
    }
    nrt_close();
}

static void a_name_longer_than_a_path_is_refused(void)
{
    static char longer[4098];
    nrt_tensor_t *t = NULL;
    up("trn2.3xlarge");
    memset(longer, 'n', 4097);
    EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, longer, &t), NRT_INVALID);
    EXPECT(t == NULL);
    nrt_close();
}

#define ALL_CALLS                                                                                                      \
    PRINTS("nrt_tensor_read ", "nrt_tensor_write ", "nrt_tensor_memset ", "nrt_tensor_copy ",                          \
           "nrt_tensor_attach_buffer ", "nrt_tensor_reset_output_completion ", "nrt_tensor_check_output_completion ",  \
           "nrt_add_tensor_to_tensor_set ", "nrt_tensor_read_batch ", "nrt_tensor_write_batch ",                       \
           "nrt_tensor_allocate_slice ", "nrt_tensor_get_device_allocation_info ", "nrt_tensor_get_size ",             \
           "nrt_tensor_get_va ")

int main(void)
{
    RUN(bytes_go_in_and_come_out, QUIET);
    RUN(views_share_bytes, QUIET);
    RUN(places_and_numbers, QUIET);
    RUN(sets_hold_tensors_by_name, QUIET);
    RUN(no_dma_buffer_without_a_driver, PRINTS("nrt_get_dmabuf_fd"));
    RUN(null_is_no_tensor, ALL_CALLS);
    RUN(a_freed_tensor_is_none, ALL_CALLS);
    RUN(an_address_on_the_stack_is_none, ALL_CALLS);
    RUN(a_place_inside_a_tensor_is_none, ALL_CALLS);
    RUN(the_tensor_after_the_last_is_none, ALL_CALLS);
    RUN(a_set_is_none, ALL_CALLS);
    RUN(what_is_no_set_is_refused, PRINTS("nrt_get_tensor_from_tensor_set ", "nrt_destroy_tensor_set "));
    /* Not where somebody made the HBMs smaller. */
    if (getenv("OPENNRT_HBM_MIB") == NULL)
        RUN(more_than_4_gib, PRINTS("Cannot read 101 bytes at offset 4296015772"));
    RUN(batches_stop_at_the_first_failure, PRINTS("nrt_tensor_write_batch "));
    RUN(names_are_copied, QUIET);
    RUN(a_name_longer_than_a_path_is_refused, PRINTS("name is longer than 4096 bytes"));
    return check_done();
}
