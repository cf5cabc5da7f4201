/* An RDMA benchmark (perftest's memory layer, nixlbench): linked with the library through a
 * runpath, it takes a device tensor as message buffer, asks where it is and from then on uses
 * memcpy. Breaks when a reference has no version, when an address is not that of the tensor's
 * bytes, and when reads and writes through the library do not see what memcpy did. */
#include "client.h"
#include "nrt/nrt.h"

enum { MOST = 64 << 20 };

static unsigned char *host;

/* One message of `size` bytes at `offset`, each way. */
static void message(nrt_tensor_t *tensor, unsigned char *address, size_t offset, size_t size)
{
    client_fill(host, size, size);
    memcpy(address + offset, host, size);
    memset(host, 0, size);
    MUST_BE(nrt_tensor_read(tensor, host, offset, size), NRT_SUCCESS);
    MUST(client_holds(host, size, size));

    client_fill(host, size, size + 1);
    MUST_BE(nrt_tensor_write(tensor, host, offset, size), NRT_SUCCESS);
    MUST(memcmp(address + offset, host, size) == 0);
}

static void allocation(int vnc, size_t size)
{
    nrt_tensor_t *tensor = NULL, *slice = NULL;
    nrt_tensor_device_allocation_info_t whole, part;
    MUST_BE(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, vnc, size, NULL, &tensor), NRT_SUCCESS);
    unsigned char *address = nrt_tensor_get_va(tensor);
    MUST(address != NULL && nrt_tensor_get_size(tensor) == size);
    MUST_BE(nrt_tensor_get_device_allocation_info(tensor, &whole), NRT_SUCCESS);
    MUST(whole.physical_address != 0 && whole.size >= size && whole.hbm_index >= 0);

    MUST_BE(nrt_tensor_memset(tensor, 0, 0xb5, size), NRT_SUCCESS);
    MUST(address[0] == 0xb5 && address[size / 2] == 0xb5 && address[size - 1] == 0xb5);
    message(tensor, address, 0, size);
    message(tensor, address, size / 2, size - size / 2);

    /* The second half as a buffer of its own. */
    size_t rest = size - size / 2;
    MUST_BE(nrt_tensor_allocate_slice(tensor, size / 2, rest, "half", &slice), NRT_SUCCESS);
    MUST(nrt_tensor_get_va(slice) == address + size / 2);
    MUST_BE(nrt_tensor_get_device_allocation_info(slice, &part), NRT_SUCCESS);
    MUST(part.hbm_index == whole.hbm_index && part.physical_address >= whole.physical_address);
    message(slice, address + size / 2, 0, rest);

    /* The slice keeps the memory, and its address. */
    nrt_tensor_free(&tensor);
    message(slice, address + size / 2, rest / 3, rest - rest / 3);
    nrt_tensor_free(&slice);
    MUST(tensor == NULL && slice == NULL);
}

int main(void)
{
    static const size_t sizes[] = {1, 2, 63, 64, 65, 511, 4095, 4096, 4097, 65535, 65536, 65537, (1 << 20) + 3};
    uint32_t cores = 0;
    nrt_tensor_t *tensor = NULL;
    host = malloc(MOST);
    MUST(host != NULL);
    MUST_BE(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
    MUST_BE(nrt_get_visible_nc_count(&cores), NRT_SUCCESS);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        allocation((int)(i % cores), sizes[i]);

    /* Every power of two in one large buffer, as "run all sizes" does. */
    MUST_BE(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, MOST, "all sizes", &tensor), NRT_SUCCESS);
    unsigned char *address = nrt_tensor_get_va(tensor);
    MUST(address != NULL);
    for (size_t size = 1; size <= MOST; size *= 2)
        message(tensor, address, MOST - size, size);
    nrt_tensor_free(&tensor);
    nrt_close();
    free(host);
    return 0;
}
