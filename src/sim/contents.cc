#include "sim/contents.h"

#include <algorithm>
#include <cstring>

namespace uc::sim {

namespace {

// Calls `piece(page, offset in it, offset in the request, length)`, all lengths in bytes.
template <class F>
void by_page(std::uint64_t sector, std::uint64_t bytes, std::uint64_t page_bytes, F&& piece) {
    std::uint64_t at = sector * kSectorBytes;
    std::uint64_t done = 0;
    while (done < bytes) {
        const std::uint64_t within = at % page_bytes;
        const std::uint64_t length = std::min(bytes - done, page_bytes - within);
        piece(at / page_bytes, within, done, length);
        at += length;
        done += length;
    }
}

}  // namespace

Contents::Page& Contents::own(std::uint64_t index) {
    std::shared_ptr<Page>& page = pages_[index];
    if (page == nullptr) {
        page = std::make_shared<Page>();
    } else if (page.use_count() > 1) {
        page = std::make_shared<Page>(*page);
    }
    return *page;
}

void Contents::read(std::uint64_t sector, std::span<std::byte> out) const {
    by_page(sector, out.size(), sizeof(Page), [&](auto index, auto within, auto done, auto length) {
        const std::shared_ptr<Page>& page = pages_[index];
        if (page == nullptr) {
            std::memset(out.data() + done, 0, length);
        } else {
            std::memcpy(out.data() + done, page->data() + within, length);
        }
    });
}

void Contents::write(std::uint64_t sector, std::span<const std::byte> in) {
    by_page(sector, in.size(), sizeof(Page), [&](auto index, auto within, auto done, auto length) {
        std::memcpy(own(index).data() + within, in.data() + done, length);
    });
}

void Contents::zero(std::uint64_t sector, std::uint64_t sectors) {
    const std::uint64_t bytes = sectors * kSectorBytes;
    by_page(sector, bytes, sizeof(Page), [&](auto index, auto within, auto, auto length) {
        if (length == sizeof(Page)) {
            pages_[index] = nullptr;
        } else if (pages_[index] != nullptr) {
            std::memset(own(index).data() + within, 0, length);
        }
    });
}

}  // namespace uc::sim
