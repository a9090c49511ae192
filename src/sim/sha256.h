// SHA-256, for comparing whole devices with the manifests of reference images.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;

namespace uc::sim {

class Sha256 {
public:
    Sha256();
    void add(std::span<const std::byte> bytes);
    // Hexadecimal, lower case. Ends the computation.
    std::string finish();

private:
    struct Free {
        void operator()(evp_md_ctx_st* context) const;
    };
    std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace uc::sim
