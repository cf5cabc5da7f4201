/* A Python extension that hands tensors out as capsules, without Python's headers: the interpreter
 * brings the two functions it takes. The script beside this file closes the runtime from an atexit
 * handler, so the interpreter destroys the capsules behind it; what even the interpreter forgets is
 * freed when the extension goes. Breaks when a tensor cannot be asked or freed after nrt_close. */
#include "client.h"
#include "nrt/nrt.h"

enum { MOST = 64 };

extern void *PyCapsule_GetPointer(void *capsule, const char *name);

const char extension_name[] = "extension.tensor";

static struct owned {
    nrt_tensor_t *tensor;
    size_t size;
} owned[MOST];
static int made, freed_up, freed_closed, closed;

NRT_STATUS extension_init(void) { return nrt_init(NRT_FRAMEWORK_TYPE_PYTORCH, "2.9.0", ""); }

void extension_close(void)
{
    nrt_close();
    closed = 1;
}

/* What to make a capsule of. */
void *extension_tensor(int vnc, size_t size)
{
    struct owned *one = &owned[made++];
    MUST(made <= MOST);
    one->size = size;
    MUST_BE(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, vnc, size, "capsule", &one->tensor), NRT_SUCCESS);
    return one;
}

static void release(struct owned *one)
{
    char byte = 0;
    MUST_BE(nrt_tensor_get_size(one->tensor), one->size);
    MUST_BE(nrt_tensor_read(one->tensor, &byte, 0, 1), closed ? NRT_UNINITIALIZED : NRT_SUCCESS);
    nrt_tensor_free(&one->tensor);
    MUST(one->tensor == NULL);
    closed ? freed_closed++ : freed_up++;
}

/* A PyCapsule_Destructor. */
void extension_destroy(void *capsule) { release(PyCapsule_GetPointer(capsule, extension_name)); }

__attribute__((destructor)) static void unloaded(void)
{
    int forgotten = 0;
    for (int i = 0; i < made; i++)
        if (owned[i].tensor != NULL) {
            release(&owned[i]);
            forgotten++;
        }
    dprintf(1, "made %d freed %d closed %d freed %d forgotten %d\n", made, freed_up, closed, freed_closed, forgotten);
}
