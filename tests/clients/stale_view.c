/* A wrapper that does not ask the library for a tensor's name, offset and size but reads them from
 * the object, at the places they had in the runtime it was written for. Breaks when a field moves,
 * or when a freed tensor's page is gone while the wrapper still looks at it. */
#include "client.h"
#include "nrt/nrt.h"

struct view {
    const char *name;
    const void *storage;
    size_t offset;
    size_t size;
    char reserved[160];
};

static void shows(const nrt_tensor_t *tensor, const char *name, size_t offset, size_t size, int storage)
{
    struct view seen;
    memcpy(&seen, tensor, sizeof seen);
    MUST(strcmp(seen.name, name) == 0);
    MUST((seen.storage != NULL) == storage);
    MUST_BE(seen.offset, offset);
    MUST_BE(seen.size, size);
    MUST_BE(nrt_tensor_get_size(tensor), size);
}

int main(void)
{
    static char mine[100];
    struct view last;
    nrt_tensor_t *whole = NULL, *slice = NULL, *part = NULL, *empty = NULL, *nameless = NULL;
    MUST_BE(sizeof(struct view), 192);
    MUST_BE(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
    MUST_BE(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 10000, "whole", &whole), NRT_SUCCESS);
    MUST_BE(nrt_tensor_allocate_slice(whole, 1000, 5000, "slice", &slice), NRT_SUCCESS);
    MUST_BE(nrt_tensor_allocate_slice(slice, 300, 200, "part", &part), NRT_SUCCESS);
    MUST_BE(nrt_tensor_allocate_empty("empty", &empty), NRT_SUCCESS);
    MUST_BE(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_VIRTUAL, -1, 1, NULL, &nameless), NRT_SUCCESS);
    shows(whole, "whole", 0, 10000, 1);
    shows(slice, "slice", 1000, 5000, 1);
    shows(part, "part", 1300, 200, 1);
    shows(empty, "empty", 0, 0, 0);
    shows(nameless, "_unknown_", 0, 1, 1);
    MUST_BE(nrt_tensor_attach_buffer(empty, mine, sizeof mine), NRT_SUCCESS);
    shows(empty, "empty", 0, sizeof mine, 1);

    /* One storage, three views of it. */
    struct view a, b;
    memcpy(&a, whole, sizeof a);
    memcpy(&b, part, sizeof b);
    MUST(a.storage == b.storage);

    /* Peeked at once more, behind the free and behind the close. */
    const void *freed = whole;
    nrt_tensor_free(&whole);
    memcpy(&last, freed, sizeof last);
    nrt_close();
    shows(part, "part", 1300, 200, 1);
    freed = part;
    nrt_tensor_free(&part);
    nrt_tensor_free(&slice);
    nrt_tensor_free(&empty);
    nrt_tensor_free(&nameless);
    memcpy(&last, freed, sizeof last);
    return 0;
}
