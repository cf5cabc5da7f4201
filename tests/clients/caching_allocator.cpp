// A caching allocator (the device memory of a PyTorch backend): it takes large segments from the
// library, cuts and joins blocks in them as slices, keeps what is freed, and gives the cache back
// only when the library answers 4 (out of memory); any other answer is an error of the caller and
// is thrown. Breaks when used-up memory has another status, when a failed allocation leaves
// something behind, when slices overlap, and when freed segments do not come back.
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "client.h"
#include "nrt/nrt.h"

namespace {

constexpr size_t KiB = 1 << 10, MiB = 1 << 20;

struct OutOfMemory : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Segment {
    nrt_tensor_t *tensor;
    size_t size;
    std::map<size_t, size_t> free; // offset -> size
};

struct Block {
    Segment *segment;
    size_t offset, size;
    nrt_tensor_t *view;
};

class Cache {
  public:
    explicit Cache(int vnc) : vnc_(vnc) {}

    Block take(size_t wanted)
    {
        size_t size = (wanted + 511) / 512 * 512;
        Segment *best = nullptr;
        size_t at = 0, smallest = SIZE_MAX;
        for (auto &segment : segments_)
            for (auto [offset, free] : segment->free)
                if (free >= size && free < smallest)
                    best = segment.get(), at = offset, smallest = free;
        if (best == nullptr) {
            best = segment(size <= MiB ? 2 * MiB : (size + 2 * MiB - 1) / (2 * MiB) * (2 * MiB));
            at = 0, smallest = best->size;
        }
        best->free.erase(at);
        if (smallest > size)
            best->free[at + size] = smallest - size;
        Block block{best, at, size, nullptr};
        NRT_STATUS status = nrt_tensor_allocate_slice(best->tensor, at, wanted, "block", &block.view);
        if (status != NRT_SUCCESS)
            throw std::runtime_error("slice: status " + std::to_string(status));
        return block;
    }

    void give(Block &block)
    {
        nrt_tensor_free(&block.view);
        auto &free = block.segment->free;
        auto here = free.emplace(block.offset, block.size).first;
        if (auto next = std::next(here); next != free.end() && here->first + here->second == next->first) {
            here->second += next->second;
            free.erase(next);
        }
        if (here != free.begin()) {
            auto before = std::prev(here);
            if (before->first + before->second == here->first) {
                before->second += here->second;
                free.erase(here);
            }
        }
    }

    void empty()
    {
        emptied++;
        for (auto segment = segments_.begin(); segment != segments_.end();) {
            auto &free = (*segment)->free;
            if (free.size() == 1 && free.begin()->second == (*segment)->size) {
                held -= (*segment)->size;
                nrt_tensor_free(&(*segment)->tensor);
                segment = segments_.erase(segment);
            } else {
                ++segment;
            }
        }
    }

    size_t segments() const { return segments_.size(); }

    size_t held = 0;
    int emptied = 0, rescued = 0;

  private:
    Segment *segment(size_t size)
    {
        nrt_tensor_t *tensor = nullptr;
        NRT_STATUS status = nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, vnc_, size, "segment", &tensor);
        if (status == NRT_RESOURCE) {
            MUST(tensor == nullptr);
            empty();
            status = nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, vnc_, size, "segment", &tensor);
            rescued += status == NRT_SUCCESS;
        }
        if (status == NRT_RESOURCE)
            throw OutOfMemory("no " + std::to_string(size) + " bytes");
        if (status != NRT_SUCCESS)
            throw std::runtime_error("allocate: status " + std::to_string(status));
        held += size;
        auto made = std::make_unique<Segment>(Segment{tensor, size, {}});
        made->free[0] = size;
        segments_.push_back(std::move(made));
        return segments_.back().get();
    }

    int vnc_;
    std::vector<std::unique_ptr<Segment>> segments_;
};

// A block in use, marked at both ends so that a neighbour that reaches over is found out.
struct Live {
    Block block;
    size_t mark;
    uint64_t seed;
};

Live live(Cache &cache, size_t size, uint64_t seed)
{
    unsigned char bytes[4 * KiB];
    Live made{cache.take(size), std::min(size, sizeof bytes), seed};
    client_fill(bytes, made.mark, seed);
    MUST_BE(nrt_tensor_get_size(made.block.view), size);
    MUST_BE(nrt_tensor_write(made.block.view, bytes, size - made.mark, made.mark), NRT_SUCCESS);
    MUST_BE(nrt_tensor_write(made.block.view, bytes, 0, made.mark), NRT_SUCCESS);
    return made;
}

void end(Cache &cache, Live &of)
{
    unsigned char bytes[4 * KiB];
    MUST_BE(nrt_tensor_read(of.block.view, bytes, 0, of.mark), NRT_SUCCESS);
    MUST(client_holds(bytes, of.mark, of.seed));
    size_t size = nrt_tensor_get_size(of.block.view);
    if (size >= 2 * of.mark) {
        MUST_BE(nrt_tensor_read(of.block.view, bytes, size - of.mark, of.mark), NRT_SUCCESS);
        MUST(client_holds(bytes, of.mark, of.seed));
    }
    cache.give(of.block);
    MUST(of.block.view == nullptr);
}

size_t used(uint32_t vnc)
{
    nrt_vnc_memory_stats_t stats;
    size_t written = 0;
    MUST_BE(nrt_get_vnc_memory_stats(vnc, &stats, sizeof stats, &written), NRT_SUCCESS);
    MUST_BE(written, sizeof stats);
    MUST(stats.bytes_used <= stats.bytes_limit);
    return stats.bytes_used;
}

// Segments of 4 MiB until none is left, freed into the cache: a larger one has to give it back.
void a_full_cache_is_given_back(Cache &cache)
{
    std::vector<Live> all;
    bool full = false;
    while (!full) {
        try {
            all.push_back(live(cache, 4 * MiB, all.size()));
        } catch (const OutOfMemory &) {
            full = true;
        }
    }
    MUST(all.size() > 8 && cache.held == all.size() * 4 * MiB && cache.rescued == 0);
    for (auto &one : all)
        end(cache, one);
    MUST_BE(cache.segments(), all.size());
    int before = cache.emptied;
    Live large = live(cache, 32 * MiB, 99);
    MUST(cache.emptied == before + 1 && cache.rescued == 1);
    end(cache, large);
}

void a_random_workload(Cache &cache, uint32_t vnc, size_t before)
{
    std::mt19937_64 chance(2024);
    std::vector<Live> all;
    int full = 0;
    for (int step = 0; step < 800 || full < 3; step++) {
        MUST(step < 20000);
        if (all.empty() || chance() % 8 < 5) {
            size_t size = 1 + chance() % (size_t{1} << (9 + chance() % 16));
            try {
                all.push_back(live(cache, size, chance()));
            } catch (const OutOfMemory &) {
                full++;
                for (size_t i = all.size() / 2; i > 0; i--) {
                    std::swap(all[chance() % all.size()], all.back());
                    end(cache, all.back());
                    all.pop_back();
                }
            }
        } else {
            std::swap(all[chance() % all.size()], all.back());
            end(cache, all.back());
            all.pop_back();
        }
        if (step % 64 == 0)
            MUST(used(vnc) >= before + cache.held);
    }
    for (auto &one : all)
        end(cache, one);
}

} // namespace

int main()
{
    uint32_t cores = 0;
    MUST_BE(nrt_init(NRT_FRAMEWORK_TYPE_PYTORCH, "2.9.0", ""), NRT_SUCCESS);
    MUST_BE(nrt_get_visible_vnc_count(&cores), NRT_SUCCESS);
    std::vector<size_t> before;
    for (uint32_t vnc = 0; vnc < cores; vnc++)
        before.push_back(used(vnc));
    {
        Cache cache(int(cores) - 1);
        a_full_cache_is_given_back(cache);
        a_random_workload(cache, cores - 1, before.back());
        cache.empty();
        MUST(cache.segments() == 0 && cache.held == 0);
    }
    for (uint32_t vnc = 0; vnc < cores; vnc++)
        MUST_BE(used(vnc), before[vnc]);

    // A core that is not there: thrown at once, and nobody's cache is emptied for it.
    Cache nowhere{int(cores)};
    bool thrown = false;
    try {
        nowhere.take(KiB);
    } catch (const OutOfMemory &) {
        MUST(!"a wrong core taken for used-up memory");
    } catch (const std::runtime_error &) {
        thrown = true;
    }
    MUST(thrown && nowhere.emptied == 0);
    nrt_close();
    return 0;
}
