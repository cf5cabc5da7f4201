// A server with a stream a thread: every thread has its own tensors, allocates, copies in, copies
// out, looks and frees, all at once, and the main thread closes the runtime while they are still
// at work. Breaks when threads see each other's bytes, when a close waits for a stream that does
// not end or takes memory from under a copy, and when a stream gets anything but 13 or 14 then.
#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "client.h"
#include "nrt/nrt.h"

namespace {

constexpr int THREADS = 6, ROUNDS = 15;
constexpr size_t MOST = 300000;

std::atomic<int> rounds[THREADS];

// Whether to go on. The runtime may be closing or closed, and nothing else may have gone wrong.
bool ok(NRT_STATUS status)
{
    MUST(status == NRT_SUCCESS || status == NRT_UNINITIALIZED || status == NRT_CLOSED);
    return status == NRT_SUCCESS;
}

struct Tensor {
    nrt_tensor_t *handle = nullptr;
    ~Tensor()
    {
        nrt_tensor_free(&handle);
        MUST(handle == nullptr);
    }
};

bool once(std::mt19937 &chance, int thread, int vnc, std::vector<unsigned char> &out, std::vector<unsigned char> &in)
{
    size_t size = 16 + chance() % (MOST - 16);
    Tensor a, b, slice;
    if (!ok(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, vnc, size, "a", &a.handle)) ||
        !ok(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, vnc, size, "b", &b.handle)) ||
        !ok(nrt_tensor_allocate_slice(a.handle, size / 4, size / 2, "slice", &slice.handle)))
        return false;
    client_fill(out.data(), size, chance() * uint64_t(THREADS) + uint64_t(thread));
    if (!ok(nrt_tensor_write(a.handle, out.data(), 0, size)) || !ok(nrt_tensor_copy(a.handle, 0, b.handle, 0, size)) ||
        !ok(nrt_tensor_memset(slice.handle, 0, thread, size / 2)) ||
        !ok(nrt_tensor_read(b.handle, in.data(), 0, size)))
        return false;
    MUST(std::equal(out.begin(), out.begin() + long(size), in.begin()));
    std::fill_n(out.begin() + long(size / 4), size / 2, static_cast<unsigned char>(thread));
    if (!ok(nrt_tensor_read(a.handle, in.data(), 0, size)))
        return false;
    MUST(std::equal(out.begin(), out.begin() + long(size), in.begin()));
    MUST_BE(nrt_tensor_get_size(slice.handle), size / 2);
    return true;
}

void stream(int thread, int vnc)
{
    std::mt19937 chance(static_cast<unsigned>(thread));
    std::vector<unsigned char> out(MOST), in(MOST);
    while (once(chance, thread, vnc, out, in))
        rounds[thread]++;
}

} // namespace

int main()
{
    for (int life = 0; life < 2; life++) {
        uint32_t cores = 0;
        MUST_BE(nrt_init(NRT_FRAMEWORK_TYPE_PYTORCH, "2.9.0", ""), NRT_SUCCESS);
        MUST_BE(nrt_get_visible_vnc_count(&cores), NRT_SUCCESS);
        std::vector<std::thread> threads;
        for (int i = 0; i < THREADS; i++) {
            rounds[i] = 0;
            threads.emplace_back(stream, i, i % int(cores));
        }
        while (std::any_of(rounds, rounds + THREADS, [](auto &n) { return n < ROUNDS; }))
            std::this_thread::yield();
        nrt_close();
        for (auto &thread : threads)
            thread.join();
    }
    return 0;
}
