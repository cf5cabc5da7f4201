// A device backend of a framework (PyTorch's): it comes up at the first use, copies between host
// and cores, goes through the host where two cores have no memory in common, and is taken down by
// objects that live until the process ends, tensors after the runtime. Names of statuses come from a
// function that it looks up and that not every runtime has. Breaks when the runtime cannot be used
// from static objects, when a copy it refuses leaves bytes behind, and when the order of
// destruction matters.
#include <dlfcn.h>

#include <string>
#include <utility>
#include <vector>

#include "client.h"
#include "nrt/nrt.h"
#include "nrt/nrt_version.h"

namespace {

class Storage {
  public:
    Storage() = default;
    Storage(int vnc, size_t size)
    {
        MUST_BE(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, vnc, size, "storage", &tensor), NRT_SUCCESS);
    }
    Storage(Storage &&other) noexcept : tensor(other.tensor) { other.tensor = nullptr; }
    Storage &operator=(Storage &&other) noexcept
    {
        std::swap(tensor, other.tensor);
        return *this;
    }
    ~Storage()
    {
        nrt_tensor_free(&tensor);
        MUST(tensor == nullptr);
    }
    size_t size() const { return nrt_tensor_get_size(tensor); }

    nrt_tensor_t *tensor = nullptr;
};

// Made before the runtime, so destroyed after it.
std::vector<Storage> cached;
Storage parameter;

struct Runtime {
    uint32_t cores = 0;
    Runtime()
    {
        MUST_BE(nrt_init(NRT_FRAMEWORK_TYPE_PYTORCH, "2.9.0", "2.9.0.2.31"), NRT_SUCCESS);
        MUST_BE(nrt_get_visible_vnc_count(&cores), NRT_SUCCESS);
    }
    ~Runtime()
    {
        char byte;
        nrt_close();
        MUST_BE(parameter.size(), 4096);
        MUST_BE(nrt_tensor_read(parameter.tensor, &byte, 0, 1), NRT_UNINITIALIZED);
    }
};

const Runtime &runtime()
{
    static Runtime up;
    return up;
}

void copy(const Storage &from, Storage &to)
{
    std::vector<unsigned char> bounce;
    NRT_STATUS status = nrt_tensor_copy(from.tensor, 0, to.tensor, 0, from.size());
    if (status == NRT_SUCCESS)
        return;
    // Cores on other HBMs: the one reason there is for a copy of the right size to be refused.
    MUST_BE(status, NRT_INVALID);
    bounce.resize(from.size());
    MUST_BE(nrt_tensor_read(to.tensor, bounce.data(), 0, bounce.size()), NRT_SUCCESS);
    MUST(client_holds(bounce.data(), bounce.size(), 0));
    MUST_BE(nrt_tensor_read(from.tensor, bounce.data(), 0, bounce.size()), NRT_SUCCESS);
    MUST_BE(nrt_tensor_write(to.tensor, bounce.data(), 0, bounce.size()), NRT_SUCCESS);
}

} // namespace

int main()
{
    constexpr size_t SIZE = 100001;
    std::vector<unsigned char> host(SIZE);
    nrt_version_t version{};
    MUST_BE(nrt_get_version(&version, sizeof version), NRT_SUCCESS);
    MUST(version.rt_major == 2 && version.rt_minor == 31);

    uint32_t cores = runtime().cores;
    MUST(cores > 0);
    parameter = Storage(0, 4096);

    // Once around all cores, and each arrives as it left.
    Storage first(0, SIZE);
    client_fill(host.data(), SIZE, 42);
    MUST_BE(nrt_tensor_write(first.tensor, host.data(), 0, SIZE), NRT_SUCCESS);
    cached.push_back(std::move(first));
    for (uint32_t vnc = 1; vnc < cores; vnc++) {
        Storage next(int(vnc), SIZE);
        client_fill(host.data(), SIZE, 0);
        MUST_BE(nrt_tensor_write(next.tensor, host.data(), 0, SIZE), NRT_SUCCESS);
        copy(cached.back(), next);
        cached.push_back(std::move(next));
    }
    MUST_BE(nrt_tensor_read(cached.back().tensor, host.data(), 0, SIZE), NRT_SUCCESS);
    MUST(client_holds(host.data(), SIZE, 42));

    // Pinned memory for faster copies, where there is any.
    nrt_tensor_t *pinned = nullptr;
    NRT_STATUS status = nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_HOST, 0, SIZE, "pinned", &pinned);
    MUST(status == NRT_SUCCESS || status == NRT_RESOURCE);
    MUST((status == NRT_SUCCESS) == (pinned != nullptr));
    if (pinned != nullptr) {
        MUST_BE(nrt_tensor_write(pinned, host.data(), 0, SIZE), NRT_SUCCESS);
        std::vector<unsigned char> back(SIZE);
        MUST_BE(nrt_tensor_read(pinned, back.data(), 0, SIZE), NRT_SUCCESS);
        MUST(back == host);
        nrt_tensor_free(&pinned);
    }

    using Name = const char *(*)(NRT_STATUS);
    auto name = reinterpret_cast<Name>(dlsym(RTLD_DEFAULT, "nrt_get_status_as_str"));
    MUST(name != nullptr && name(NRT_RESOURCE) == std::string("NRT_RESOURCE"));

    // An output nobody has computed yet.
    MUST_BE(nrt_tensor_check_output_completion(parameter.tensor, 0, 1), NRT_TIMEOUT);
    MUST_BE(nrt_tensor_check_output_completion(parameter.tensor, 0, 0), NRT_SUCCESS);
    return 0;
}
