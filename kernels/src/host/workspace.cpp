// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/workspace.hpp>

#include <kvpool/core/checked.hpp>
#include <kvpool/kernels/capabilities.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

namespace kvpool::kernels {

Bytes required_workspace(const WorkspaceShape& shape) {
  Bytes most{0};
  for (const KernelCapability& row : bundled_kernels()) {
    if (row.workspace != nullptr) {
      most = std::max(most, row.workspace(shape));
    }
  }
  return most;
}

Result<std::int64_t> decode_rows_requests(std::int64_t max_batch, std::int64_t block,
                                          std::int64_t limit) {
  if (max_batch < 0 || block < 0 || limit < 0) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("a batch of {}, a block of {} and a limit of {}: give "
                                        "numbers from 0",
                                        max_batch, block, limit)};
  }
  const CheckedInt rows = CheckedInt{std::min(max_batch, limit)} * block;
  const auto requests = max(CheckedInt{max_batch}, rows).to_int64();
  if (!requests.has_value()) {
    return Error{.code = ErrorCode::kOutOfRange,
                 .message = fmt::format("{} requests of {} tokens as decode rows are more than 64 "
                                        "bits count: give a smaller batch, block or limit",
                                        std::min(max_batch, limit), block)};
  }
  return *requests;
}

Workspace::Workspace(AnyPageMemory memory, CaptureQuery is_capturing)
    : memory_{std::move(memory)}, is_capturing_{std::move(is_capturing)} {}

Workspace::Workspace(Workspace&& other) noexcept
    // NOLINTNEXTLINE(performance-move-constructor-init): the other one stays usable.
    : memory_{other.memory_},
      is_capturing_{other.is_capturing_},
      region_{std::exchange(other.region_, Region{})},
      is_captured_{std::exchange(other.is_captured_, false)} {}

Workspace& Workspace::operator=(Workspace&& other) noexcept {
  if (this != &other) {
    reset();
    memory_ = other.memory_;
    is_capturing_ = other.is_capturing_;
    region_ = std::exchange(other.region_, Region{});
    is_captured_ = std::exchange(other.is_captured_, false);
  }
  return *this;
}

Workspace::~Workspace() { reset(); }

Result<Region> Workspace::require(Bytes size) {
  if (size.count() < 0) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("a workspace of {} bytes was asked for", size.count())};
  }
  if (!is_capturing_) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message =
                     "the workspace cannot tell whether its stream is captured: make it by "
                     "stream_workspace, or with never_capturing for work of the host"};
  }
  const Result<bool> capturing = is_capturing_();
  if (!capturing) {
    return capturing.error();
  }
  if (size <= region_.size) {
    // A capture that got no memory keeps no address.
    is_captured_ = is_captured_ || (*capturing && region_.size > Bytes{0});
    return region_;
  }
  if (*capturing || is_captured_) {
    return Error{.code = ErrorCode::kExhausted,
                 .message = fmt::format(
                     "the workspace holds {} bytes and {} are needed {} a stream is captured: size "
                     "it for the largest shape first",
                     region_.size.count(), size.count(), *capturing ? "while" : "after")};
  }
  const Bytes granule = memory_.granularity();
  if (size.count() > std::numeric_limits<std::int64_t>::max() - granule.count()) {
    return Error{.code = ErrorCode::kExhausted,
                 .message = fmt::format("a workspace of {} bytes was asked for: no memory has them",
                                        size.count())};
  }
  const Bytes whole = align_up(size, granule);
  auto region = memory_.reserve(whole);
  if (!region) {
    return std::move(region).error();
  }
  if (auto committed = memory_.commit(*region, Bytes{0}, whole); !committed) {
    static_cast<void>(memory_.release(*region));
    return std::move(committed).error();
  }
  reset();
  region_ = *region;
  return region_;
}

void Workspace::reset() noexcept {
  if (region_.size.count() > 0) {
    static_cast<void>(memory_.release(region_));
  }
  region_ = Region{};
  is_captured_ = false;
}

}  // namespace kvpool::kernels
