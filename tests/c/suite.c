/* One program for every backend: it asks whatever instance it finds everything a program can ask and
 * prints a line `name answer` for each question. tests/backends.rs compares the answers. What the
 * program can judge by itself, the bytes of tensors, it answers with `same` or `other`. */
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nrt/nec.h"
#include "nrt/nrt.h"
#include "nrt/nrt_async.h"
#include "nrt/nrt_experimental.h"
#include "nrt/nrt_version.h"
#include "nrt/opennrt.h"

enum { SIZE = 1 << 16, BLOCK = 64 << 20 };

static unsigned char data[SIZE], back[SIZE], want[SIZE];
/* The part of the program that asks, so that the same question has a name of its own each time. */
static const char *part = "";

__attribute__((format(printf, 2, 3))) static void say(const char *name, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    printf("%s.%s ", part, name);
    vprintf(format, list);
    printf("\n");
    va_end(list);
}

#define STATUS(name, call) say(name, "%d", (int)(call))

static nrt_tensor_t *make(const char *name, nrt_tensor_placement_t placement, int vnc, size_t size)
{
    nrt_tensor_t *t = (nrt_tensor_t *)data;
    int status = (int)nrt_tensor_allocate(placement, vnc, size, "t", &t);
    say(name, "%d %s %zu", status, t != NULL ? "made" : "null", nrt_tensor_get_size(t));
    return t;
}

static nrt_tensor_t *quietly(nrt_tensor_placement_t placement, int vnc, size_t size, int *status)
{
    nrt_tensor_t *t = NULL;
    *status = (int)nrt_tensor_allocate(placement, vnc, size, NULL, &t);
    return t;
}

/* Is this in the tensor? */
static void holds(const char *name, const nrt_tensor_t *t, size_t offset, const void *bytes, size_t size)
{
    memset(back, 0xee, sizeof back);
    int status = (int)nrt_tensor_read(t, back, offset, size);
    say(name, "%d %s", status, memcmp(back, bytes, size) == 0 ? "same" : "other");
}

static NRT_STATUS ret;
static nrta_seq_t seq;

/* Wait for what a call has queued, if it has; then tell what there is to see. */
static void ended(const char *name, NRT_STATUS status)
{
    bool done = status != NRT_SUCCESS;
    while (!done && nrta_is_completed(seq, &done) == NRT_SUCCESS)
        sched_yield();
    say(name, "%d %#lx %d", (int)status, seq, (int)ret);
}

#define QUEUED(name, call) (ret = (NRT_STATUS)77, seq = 0x77, ended(name, call))

static void version(void)
{
    nrt_version_t v;
    memset(&v, 0, sizeof v);
    part = "version";
    say("status", "%d", (int)nrt_get_version(&v, sizeof v));
    say("numbers", "%lu %lu %lu %lu", v.rt_major, v.rt_minor, v.rt_patch, v.rt_maintenance);
    say("detail", "%s", v.rt_detail);
    say("hash", "%s", v.git_hash);
    say("own", "%s", opennrt_version());
    STATUS("short", nrt_get_version(&v, 159));
    STATUS("null", nrt_get_version(NULL, sizeof v));
}

static void counts(void)
{
    uint32_t n = 77;
    int status = (int)nrt_get_total_vnc_count(&n);
    say("total_vnc", "%d %u", status, n);
    status = (int)nrt_get_total_nc_count(&n);
    say("total_nc", "%d %u", status, n);
    status = (int)nrt_get_visible_vnc_count(&n);
    say("visible_vnc", "%d %u", status, n);
    status = (int)nrt_get_visible_nc_count(&n);
    say("visible_nc", "%d %u", status, n);
    STATUS("null_count", nrt_get_total_vnc_count(NULL));
}

static void identity(void)
{
    nrt_instance_info_t info[2];
    for (size_t length = 0; length <= sizeof info; length += 16) {
        char name[32];
        memset(info, 0, sizeof info);
        snprintf(name, sizeof name, "info_status_%zu", length);
        STATUS(name, nrt_get_instance_info(info, length));
        snprintf(name, sizeof name, "info_%zu", length);
        say(name, "%u %u %s", info[0].family, info[0].size, info[0].arch_name);
        snprintf(name, sizeof name, "revision_%zu", length);
        say(name, "'%s'", info[0].device_revision);
    }
    STATUS("info_null", nrt_get_instance_info(NULL, sizeof info[0]));
}

static void cores(void)
{
    uint32_t size = 0;
    int devices[64];
    int status = (int)nec_get_virtual_core_size(&size);
    say("lnc_size", "%d %u", status, size);
    memset(devices, 0xff, sizeof devices);
    int count = (int)nec_get_device_count(devices, 64);
    say("devices", "%d first %d last %d", count, devices[0], count > 0 && count <= 64 ? devices[count - 1] : -1);
    say("backend", "%s", opennrt_backend());
}

/* Which devices of the host these are. */
static void host(void)
{
    uint32_t id = 77, room, map[64];
    char answer[256] = "";
    for (int device = -1; device <= 16; device++) {
        char name[32];
        snprintf(name, sizeof name, "host_id_%d", device);
        id = 77;
        int status = (int)nrt_host_device_id_get(device, &id);
        say(name, "%d %u", status, id);
    }
    STATUS("host_id_null", nrt_host_device_id_get(0, NULL));
    memset(map, 0, sizeof map);
    room = 64;
    int status = (int)nrt_host_device_id_rid_map_get(&room, map);
    for (uint32_t i = 0; i < room && i < 64; i++)
        snprintf(answer + strlen(answer), sizeof answer - strlen(answer), " %u", map[i]);
    say("routing_ids", "%d %u:%s", status, room, answer);
    room = 0;
    status = (int)nrt_host_device_id_rid_map_get(&room, map);
    say("routing_ids_no_room", "%d %u", status, room);
    STATUS("routing_ids_null_map", nrt_host_device_id_rid_map_get(&room, NULL));
    STATUS("routing_ids_null_room", nrt_host_device_id_rid_map_get(NULL, map));
    size_t length = sizeof answer;
    STATUS("adapter", nrt_get_attached_efa_bdf(data, answer, &length));
    STATUS("adapter_null_length", nrt_get_attached_efa_bdf(data, answer, NULL));
}

/* Every kind of call that needs nrt_init, with good arguments where there is one. */
static void gated(nrt_tensor_t *t)
{
    nrt_tensor_set_t *set = NULL;
    nrt_vnc_memory_stats_t stats;
    nrt_tensor_device_allocation_info_t place;
    nrt_tensor_t *other = NULL;
    void *address = NULL;
    size_t size = 0;
    int fd = -7;
    nrt_tensor_batch_op_t op = {0, 4, back};
    nrt_tensor_batch_t batch = {t, &op, 1};
    other = make("allocate", NRT_TENSOR_PLACEMENT_DEVICE, 0, 64);
    nrt_tensor_free(&other);
    STATUS("empty", nrt_tensor_allocate_empty("t", &other));
    nrt_tensor_free(&other);
    STATUS("slice", nrt_tensor_allocate_slice(t, 0, 8, "t", &other));
    nrt_tensor_free(&other);
    STATUS("read", nrt_tensor_read(t, back, 0, 4));
    STATUS("write", nrt_tensor_write(t, data, 0, 4));
    STATUS("memset", nrt_tensor_memset(t, 0, 0, 0));
    STATUS("copy", nrt_tensor_copy(t, 0, t, 0, 4));
    STATUS("read_batch", nrt_tensor_read_batch(&batch, 1, false));
    STATUS("stats", nrt_get_vnc_memory_stats(0, &stats, sizeof stats, &size));
    STATUS("place", nrt_tensor_get_device_allocation_info(t, &place));
    STATUS("hbm", nrt_get_hbm_mmap_va(0, 0, &address, &size));
    STATUS("dmabuf", nrt_get_dmabuf_fd((uint64_t)(uintptr_t)nrt_tensor_get_va(t), SIZE, &fd));
    QUEUED("async_write", nrta_tensor_write(t, data, 0, 4, 0, 0, &ret, &seq));
    QUEUED("async_read", nrta_tensor_read(back, t, 0, 4, 0, 1, &ret, &seq));
    QUEUED("async_copy", nrta_tensor_copy(t, 0, t, 0, 4, 0, 1, &ret, &seq));
    int asked = (int)nrta_get_sequence(0, NRTA_XU_TENSOR_OP, 1, &seq);
    say("async_last", "%d %#lx", asked, seq);
    STATUS("async_drain", nrt_async_drain_queued_execs(0));
    STATUS("set", nrt_allocate_tensor_set(&set));
    nrt_destroy_tensor_set(&set);
    say("size", "%zu", nrt_tensor_get_size(t));
    say("va", "%s", nrt_tensor_get_va(t) != NULL ? "mapped" : "null");
    STATUS("completion", nrt_tensor_check_output_completion(t, 0, 0));
}

static void bytes(void)
{
    part = "bytes";
    nrt_tensor_t *t = make("device", NRT_TENSOR_PLACEMENT_DEVICE, 0, SIZE);
    nrt_tensor_t *beside = make("beside", NRT_TENSOR_PLACEMENT_DEVICE, 0, SIZE);
    nrt_tensor_t *plain = make("plain", NRT_TENSOR_PLACEMENT_VIRTUAL, -1, SIZE);
    nrt_tensor_t *pinned = make("pinned", NRT_TENSOR_PLACEMENT_HOST, -1, SIZE);
    nrt_tensor_t *large = make("pinned_large", NRT_TENSOR_PLACEMENT_HOST, -1, (4 << 20) + 1);
    nrt_tensor_t *slice = NULL, *empty = NULL;
    static unsigned char mine[64];

    memcpy(want, data, SIZE);
    STATUS("write", nrt_tensor_write(t, data, 0, SIZE));
    holds("written", t, 0, want, SIZE);
    holds("odd", t, 12345, want + 12345, 999);
    STATUS("copy", nrt_tensor_copy(t, 100, beside, 7, 1001));
    holds("copied", beside, 7, data + 100, 1001);
    STATUS("copy_to_plain", nrt_tensor_copy(t, 5, plain, 0, 1000));
    holds("in_plain", plain, 0, data + 5, 1000);
    STATUS("copy_from_plain", nrt_tensor_copy(plain, 0, t, 5, 1000));
    holds("from_plain", t, 0, want, SIZE);
    STATUS("write_pinned", nrt_tensor_write(pinned, data, 0, SIZE));
    STATUS("copy_pinned", nrt_tensor_copy(pinned, 0, t, 0, 64));
    STATUS("move_up", nrt_tensor_copy(t, 0, t, 9, SIZE - 9));
    memmove(want + 9, want, SIZE - 9);
    holds("moved_up", t, 0, want, SIZE);
    STATUS("move_down", nrt_tensor_copy(t, 4097, t, 1, SIZE - 4097));
    memmove(want + 1, want + 4097, SIZE - 4097);
    holds("moved_down", t, 0, want, SIZE);
    STATUS("memset", nrt_tensor_memset(t, 4095, 0x155, 30));
    memset(want + 4095, 0x55, 30);
    holds("filled", t, 0, want, SIZE);

    nrt_tensor_batch_op_t ops[] = {{0, 10, data + 7}, {SIZE - 10, 10, data + 9}};
    nrt_tensor_batch_t batch = {t, ops, 2};
    STATUS("write_batch", nrt_tensor_write_batch(&batch, 1, false));
    memcpy(want, data + 7, 10);
    memcpy(want + SIZE - 10, data + 9, 10);
    holds("batch_written", t, 0, want, SIZE);
    ops[0].buffer = back;
    ops[1].buffer = back + 10;
    STATUS("read_batch", nrt_tensor_read_batch(&batch, 1, true));
    say("batch_read", "%s", memcmp(back, data + 7, 10) || memcmp(back + 10, data + 9, 10) ? "other" : "same");
    ops[1].offset = SIZE - 9;
    STATUS("batch_outside", nrt_tensor_read_batch(&batch, 1, false));

    STATUS("slice", nrt_tensor_allocate_slice(t, 1000, 100, "s", &slice));
    say("slice_size", "%zu", nrt_tensor_get_size(slice));
    STATUS("slice_write", nrt_tensor_write(slice, data, 0, 100));
    memcpy(want + 1000, data, 100);
    holds("slice_written", t, 0, want, SIZE);
    STATUS("slice_outside", nrt_tensor_write(slice, data, 1, 100));

    unsigned char *va = nrt_tensor_get_va(t);
    say("va", "%s", va == NULL ? "null" : memcmp(va, want, SIZE) == 0 ? "same" : "other");
    STATUS("to_device", nrt_memcpy_to_device(va == NULL ? NULL : va + 77, data, 200));
    memcpy(want + 77, data, 200);
    holds("through_va", t, 0, want, SIZE);
    nrt_tensor_free(&t);
    holds("slice_outlives", slice, 0, want + 1000, 100);

    STATUS("empty", nrt_tensor_allocate_empty("e", &empty));
    say("empty_size", "%zu", nrt_tensor_get_size(empty));
    STATUS("attach", nrt_tensor_attach_buffer(empty, mine, sizeof mine));
    STATUS("attached_write", nrt_tensor_write(empty, data, 0, sizeof mine));
    say("attached", "%s", memcmp(mine, data, sizeof mine) == 0 ? "same" : "other");
    STATUS("reset_completion", nrt_tensor_reset_output_completion(beside));
    STATUS("no_completion", nrt_tensor_check_output_completion(beside, 0, 1));

    nrt_tensor_free(&slice);
    nrt_tensor_free(&beside);
    nrt_tensor_free(&plain);
    nrt_tensor_free(&pinned);
    nrt_tensor_free(&large);
    nrt_tensor_free(&empty);
}

static void places(void)
{
    uint32_t visible = 0;
    nrt_get_visible_vnc_count(&visible);
    for (uint32_t vnc = 0; vnc <= visible; vnc++) {
        nrt_vnc_memory_stats_t before = {0, 0}, after = {0, 0};
        nrt_tensor_device_allocation_info_t a = {0, 0, -7}, b = {0, 0, -7}, s = {0, 0, -7};
        nrt_tensor_t *slice = NULL;
        size_t written = 0;
        int first, second;
        static char name[32];
        snprintf(name, sizeof name, "core%u", vnc);
        part = name;
        say("stats", "%d", (int)nrt_get_vnc_memory_stats(vnc, &before, sizeof before, &written));
        say("written", "%zu", written);
        say("limit", "%zu", before.bytes_limit);
        say("used_before", "%zu", before.bytes_used);
        nrt_tensor_t *t = quietly(NRT_TENSOR_PLACEMENT_DEVICE, (int)vnc, 5000, &first);
        nrt_tensor_t *u = quietly(NRT_TENSOR_PLACEMENT_DEVICE, (int)vnc, 5000, &second);
        say("allocate", "%d %d", first, second);
        STATUS("stats_again", nrt_get_vnc_memory_stats(vnc, &after, sizeof after, NULL));
        say("used", "%zu", after.bytes_used - before.bytes_used);
        say("place", "%d %d", (int)nrt_tensor_get_device_allocation_info(t, &a),
            (int)nrt_tensor_get_device_allocation_info(u, &b));
        say("place_size", "%zu", a.size);
        say("hbm", "%d", a.hbm_index);
        say("apart", "%s", a.physical_address + a.size <= b.physical_address || b.physical_address + b.size <= a.physical_address
                               ? "same"
                               : "other");
        nrt_tensor_allocate_slice(t, 100, 50, NULL, &slice);
        int status = (int)nrt_tensor_get_device_allocation_info(slice, &s);
        say("slice_place", "%d %lu %zu", status, s.physical_address - a.physical_address, s.size);
        nrt_tensor_free(&slice);
        nrt_tensor_free(&t);
        nrt_tensor_free(&u);
        STATUS("stats_last", nrt_get_vnc_memory_stats(vnc, &after, sizeof after, NULL));
        say("used_after", "%zu", after.bytes_used);
    }
    part = "windows";
    for (int hbm = -1; hbm < 6; hbm++) {
        void *address = NULL;
        size_t size = 0;
        char name[32];
        int status = (int)nrt_get_hbm_mmap_va(0, hbm, &address, &size);
        snprintf(name, sizeof name, "hbm%d", hbm);
        say(name, "%d %s", status, address != NULL ? "mapped" : "null");
        snprintf(name, sizeof name, "size%d", hbm);
        say(name, "%zu", size);
    }
    STATUS("no_device", nrt_get_hbm_mmap_va(99, 0, (void *[]){NULL}, (size_t[]){0}));
}

static void wrong(void)
{
    nrt_tensor_t *t, *none = NULL, *bogus = (nrt_tensor_t *)data;
    nrt_vnc_memory_stats_t stats;
    size_t written = 0;
    int status;
    part = "wrong";
    t = quietly(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, &status);
    make("vnc_high", NRT_TENSOR_PLACEMENT_DEVICE, 1000, 64);
    make("vnc_negative", NRT_TENSOR_PLACEMENT_DEVICE, -1, 64);
    make("vnc_lowest", NRT_TENSOR_PLACEMENT_DEVICE, INT32_MIN, 64);
    make("size_0", NRT_TENSOR_PLACEMENT_DEVICE, 0, 0);
    make("size_huge", NRT_TENSOR_PLACEMENT_DEVICE, 0, SIZE_MAX);
    make("size_half", NRT_TENSOR_PLACEMENT_DEVICE, 0, SIZE_MAX / 2);
    make("size_40_bits", NRT_TENSOR_PLACEMENT_DEVICE, 0, (size_t)1 << 40);
    make("plain_huge", NRT_TENSOR_PLACEMENT_VIRTUAL, -1, SIZE_MAX);
    t = t != NULL ? t : none;
    nrt_tensor_t *odd = make("placement_9", (nrt_tensor_placement_t)9, -1, 64);
    nrt_tensor_free(&odd);
    STATUS("no_place", nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, "t", NULL));
    STATUS("read_outside", nrt_tensor_read(t, back, 60, 5));
    STATUS("read_far", nrt_tensor_read(t, back, SIZE_MAX, 2));
    STATUS("read_nothing", nrt_tensor_read(t, back, 64, 0));
    STATUS("read_null", nrt_tensor_read(t, NULL, 0, 4));
    STATUS("read_no_tensor", nrt_tensor_read(NULL, back, 0, 4));
    STATUS("read_bogus", nrt_tensor_read(bogus, back, 0, 4));
    STATUS("write_outside", nrt_tensor_write(t, data, 64, 1));
    STATUS("write_null", nrt_tensor_write(t, NULL, 0, 4));
    STATUS("write_bogus", nrt_tensor_write(bogus, data, 0, 4));
    STATUS("memset_outside", nrt_tensor_memset(t, 1, 0, 64));
    STATUS("memset_bogus", nrt_tensor_memset(bogus, 0, 0, 4));
    STATUS("copy_outside", nrt_tensor_copy(t, 32, t, 0, 33));
    STATUS("copy_bogus", nrt_tensor_copy(t, 0, bogus, 0, 4));
    STATUS("batch_null", nrt_tensor_read_batch(NULL, 1, false));
    STATUS("batch_none", nrt_tensor_read_batch(NULL, 0, false));
    STATUS("slice_outside", nrt_tensor_allocate_slice(t, 60, 5, "s", &none));
    STATUS("slice_bogus", nrt_tensor_allocate_slice(bogus, 0, 4, "s", &none));
    STATUS("attach_null", nrt_tensor_attach_buffer(t, NULL, 64));
    STATUS("place_null", nrt_tensor_get_device_allocation_info(t, NULL));
    STATUS("place_bogus", nrt_tensor_get_device_allocation_info(bogus, (nrt_tensor_device_allocation_info_t[1]){{0}}));
    STATUS("stats_null", nrt_get_vnc_memory_stats(0, NULL, sizeof stats, &written));
    STATUS("stats_short", nrt_get_vnc_memory_stats(0, &stats, 8, &written));
    STATUS("lnc_null", nec_get_virtual_core_size(NULL));
    say("size_null", "%zu", nrt_tensor_get_size(NULL));
    say("va_bogus", "%s", nrt_tensor_get_va(bogus) != NULL ? "mapped" : "null");
    nrt_tensor_t *freed = t;
    nrt_tensor_free(&t);
    STATUS("read_freed", nrt_tensor_read(freed, back, 0, 4));
    nrt_tensor_free(&freed);
    nrt_tensor_free(NULL);
}

static void exhaustion(void)
{
    static nrt_tensor_t *all[512];
    int count = 0, status = 0, again = 0;
    part = "full";
    while (count < 512 && (all[count] = quietly(NRT_TENSOR_PLACEMENT_DEVICE, 0, BLOCK, &status)) != NULL)
        count++;
    say("blocks", "%d refused %d", count, status);
    int last = count - 1;
    if (last >= 0) {
        STATUS("write_end", nrt_tensor_write(all[last], data, BLOCK - SIZE, SIZE));
        holds("end", all[last], BLOCK - SIZE, data, SIZE);
        nrt_tensor_free(&all[0]);
        all[0] = quietly(NRT_TENSOR_PLACEMENT_DEVICE, 0, BLOCK, &again);
        say("one_freed", "%d", again);
        nrt_tensor_t *more = quietly(NRT_TENSOR_PLACEMENT_DEVICE, 0, BLOCK, &again);
        say("no_more", "%d", again);
        nrt_tensor_free(&more);
        holds("end_still", all[last], BLOCK - SIZE, data, SIZE);
    }
    for (int i = 0; i < count; i++)
        nrt_tensor_free(&all[i]);
    nrt_tensor_t *t = quietly(NRT_TENSOR_PLACEMENT_DEVICE, 0, BLOCK, &status);
    say("all_freed", "%d", status);
    nrt_tensor_free(&t);
}

static void sets(void)
{
    nrt_tensor_set_t *set = NULL;
    nrt_tensor_t *found = NULL;
    int status;
    part = "set";
    nrt_tensor_t *a = quietly(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, &status);
    nrt_tensor_t *b = quietly(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, &status);
    STATUS("make", nrt_allocate_tensor_set(&set));
    STATUS("add", nrt_add_tensor_to_tensor_set(set, "x", a));
    STATUS("replace", nrt_add_tensor_to_tensor_set(set, "x", b));
    status = (int)nrt_get_tensor_from_tensor_set(set, "x", &found);
    say("get", "%d %s", status, found == b ? "same" : "other");
    STATUS("unknown", nrt_get_tensor_from_tensor_set(set, "y", &found));
    STATUS("null_name", nrt_add_tensor_to_tensor_set(set, NULL, a));
    STATUS("null_tensor", nrt_add_tensor_to_tensor_set(set, "x", NULL));
    STATUS("null_set", nrt_add_tensor_to_tensor_set(NULL, "x", a));
    nrt_tensor_free(&b);
    STATUS("freed", nrt_get_tensor_from_tensor_set(set, "x", &found));
    nrt_destroy_tensor_set(&set);
    say("destroyed", "%s", set == NULL ? "null" : "left");
    say("tensor_stays", "%zu", nrt_tensor_get_size(a));
    nrt_tensor_free(&a);
}

static void queues(void)
{
    static NRT_STATUS statuses[100];
    nrt_tensor_t *host, *far, *bogus = (nrt_tensor_t *)data;
    int status, xu, queue;
    part = "async";
    nrt_tensor_t *a = quietly(NRT_TENSOR_PLACEMENT_DEVICE, 0, SIZE, &status);
    nrt_tensor_t *b = quietly(NRT_TENSOR_PLACEMENT_DEVICE, 0, SIZE, &status);
    for (xu = 0; xu < 4; xu++)
        for (queue = -1; queue < 4; queue++) {
            char name[32];
            seq = 0x77;
            status = (int)nrta_get_sequence(0, (nrta_xu_t)xu, queue, &seq);
            snprintf(name, sizeof name, "last_%d_%d", xu, queue);
            say(name, "%d %#lx", status, seq);
        }
    QUEUED("write", nrta_tensor_write(a, data, 0, SIZE, 0, 0, &ret, &seq));
    holds("written", a, 0, data, SIZE);
    QUEUED("copy", nrta_tensor_copy(a, 100, b, 7, 1001, 0, 1, &ret, &seq));
    holds("copied", b, 7, data + 100, 1001);
    QUEUED("move", nrta_tensor_copy(a, 0, a, 9, SIZE - 9, 0, 0, &ret, &seq));
    memset(back, 0, sizeof back);
    QUEUED("read", nrta_tensor_read(back, a, 10, SIZE - 10, 0, 0, &ret, &seq));
    say("read_bytes", "%s", memcmp(back, data + 1, SIZE - 10) == 0 ? "same" : "other");
    QUEUED("nothing", nrta_tensor_write(a, data, SIZE, 0, 0, 0, &ret, &seq));
    for (int i = 0; i < 100; i++)
        nrta_tensor_write(a, data + i, (uint64_t)i * 600, 600, 0, 0, &statuses[i], &seq);
    QUEUED("after_100", nrta_tensor_read(back, a, 99 * 600, 600, 0, 0, &ret, &seq));
    say("last_of_100", "%s", memcmp(back, data + 99, 600) == 0 ? "same" : "other");
    QUEUED("outside", nrta_tensor_write(a, data, SIZE - 3, 4, 0, 0, &ret, &seq));
    QUEUED("far_outside", nrta_tensor_read(back, a, UINT64_MAX, 2, 0, 0, &ret, &seq));
    QUEUED("huge", nrta_tensor_read(back, a, 0, UINT64_MAX, 0, 0, &ret, &seq));
    QUEUED("no_queue", nrta_tensor_read(back, a, 0, 4, 0, 2, &ret, &seq));
    QUEUED("no_core", nrta_tensor_read(back, a, 0, 4, 1000, 0, &ret, &seq));
    QUEUED("negative_core", nrta_tensor_read(back, a, 0, 4, -1, 0, &ret, &seq));
    QUEUED("bogus", nrta_tensor_copy(a, 0, bogus, 0, 4, 0, 0, &ret, &seq));
    QUEUED("null", nrta_tensor_copy(a, 0, NULL, 0, 4, 0, 0, &ret, &seq));
    QUEUED("null_buffer", nrta_tensor_write(a, NULL, 0, 0, 0, 0, &ret, &seq));
    STATUS("null_status", nrta_tensor_write(a, data, 0, 4, 0, 0, NULL, &seq));
    STATUS("null_sequence", nrta_tensor_write(a, data, 0, 4, 0, 0, &ret, NULL));
    STATUS("null_answer", nrta_is_completed(1, NULL));
    STATUS("null_last", nrta_get_sequence(0, NRTA_XU_TENSOR_OP, 0, NULL));
    STATUS("never", nrta_is_completed(0x123456789, (bool[]){false}));
    STATUS("drain_bad", nrt_async_drain_queued_execs(1000));
    host = quietly(NRT_TENSOR_PLACEMENT_VIRTUAL, -1, SIZE, &status);
    QUEUED("plain", nrta_tensor_write(host, data, 0, 4, 0, 0, &ret, &seq));
    nrt_tensor_free(&host);
    host = quietly(NRT_TENSOR_PLACEMENT_HOST, -1, SIZE, &status);
    QUEUED("pinned", nrta_tensor_write(host, data, 0, 4, 0, 0, &ret, &seq));
    nrt_tensor_free(&host);
    /* On another HBM, where there is another core that is on one. */
    far = quietly(NRT_TENSOR_PLACEMENT_DEVICE, 1, SIZE, &status);
    say("far_made", "%d", status);
    QUEUED("far", nrta_tensor_write(far, data, 0, 4, 0, 0, &ret, &seq));
    QUEUED("far_copy", nrta_tensor_copy(a, 0, far, 0, 4, 0, 0, &ret, &seq));
    QUEUED("near_far", nrta_tensor_write(far, data, 0, 4, 1, 0, &ret, &seq));
    nrt_tensor_free(&far);
    nrt_tensor_free(&a);
    nrt_tensor_free(&b);
}

static void in_child(const char *name, void (*body)(nrt_tensor_t *), nrt_tensor_t *t)
{
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        part = name;
        body(t);
        /* What the library does at exit must not disturb the parent either. */
        exit(0);
    }
    waitpid(child, &status, 0);
    part = name;
    say("end", "%#x", (unsigned)status);
}

static NRT_STATUS init(void) { return nrt_init(NRT_FRAMEWORK_TYPE_PYTORCH, "2.9.1", "1.2.3"); }

static void child_of_a_running_parent(nrt_tensor_t *t)
{
    counts();
    identity();
    cores();
    host();
    gated(t);
    STATUS("init", init());
    nrt_close();
    STATUS("init_after_close", init());
    nrt_tensor_free(&t);
}

static void child_that_may_init(nrt_tensor_t *t)
{
    STATUS("init", init());
    gated(t);
    nrt_close();
}

int main(void)
{
    nrt_tensor_t *kept = NULL;
    int status;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < SIZE; i++)
        data[i] = (unsigned char)(i * 31 + i / 251);
    version();
    part = "start";
    counts();
    identity();
    cores();
    host();
    gated(NULL);
    nrt_close();
    in_child("early_child", child_that_may_init, NULL);

    part = "init";
    STATUS("framework_77", nrt_init((nrt_framework_type_t)77, "", ""));
    setenv("NEURON_RT_DBG_DMA_PACKETIZATION_SIZE", "1048576", 1);
    STATUS("bad_setting", init());
    unsetenv("NEURON_RT_DBG_DMA_PACKETIZATION_SIZE");
    STATUS("first", init());
    STATUS("second", nrt_init((nrt_framework_type_t)77, NULL, NULL));

    part = "up";
    counts();
    identity();
    cores();
    host();
    bytes();
    places();
    wrong();
    exhaustion();
    sets();
    queues();

    part = "kept";
    kept = make("made", NRT_TENSOR_PLACEMENT_DEVICE, 0, SIZE);
    STATUS("write", nrt_tensor_write(kept, data, 0, SIZE));
    gated(kept);
    in_child("child", child_of_a_running_parent, kept);
    part = "after_child";
    holds("bytes", kept, 0, data, SIZE);
    gated(kept);

    nrt_close();
    part = "closed";
    counts();
    identity();
    cores();
    host();
    gated(kept);
    setenv("NEURON_RT_VISIBLE_CORES", "0", 1);
    counts();
    nrt_close();
    in_child("late_child", child_that_may_init, NULL);

    part = "again";
    STATUS("init", init());
    counts();
    cores();
    host();
    nrt_tensor_t *fresh = quietly(NRT_TENSOR_PLACEMENT_DEVICE, 0, SIZE, &status);
    say("fresh", "%d", status);
    STATUS("write", nrt_tensor_write(fresh, data, 0, SIZE));
    holds("bytes", fresh, 0, data, SIZE);
    gated(fresh);
    nrt_tensor_free(&fresh);

    part = "outlived";
    STATUS("read", nrt_tensor_read(kept, back, 0, SIZE));
    say("bytes", "%s", memcmp(back, data, SIZE) == 0 ? "there" : "gone");
    STATUS("write", nrt_tensor_write(kept, data, 0, 64));
    nrt_tensor_free(&kept);
    say("freed", "%s", kept == NULL ? "null" : "left");
    nrt_close();
    part = "end";
    counts();
    return 0;
}
