// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Law 9 on a device: a workspace is sized for the largest shape before streams are captured.
#include <kvpool/cuda/device_memory.hpp>
#include <kvpool/cuda/stream_capture.hpp>
#include <kvpool/kernels/cuda.hpp>
#include <kvpool/kernels/workspace_cuda.hpp>

#include "kernels/attention_checks.hpp"
#include "kernels/device_batch.hpp"
#include "kernels/paged_batch.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvpool::test {
namespace {

/// A stream of its own.
class Stream {
 public:
  explicit Stream(unsigned int flags = cudaStreamNonBlocking) {
    require_cuda(cudaStreamCreateWithFlags(&stream_, flags));
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  [[nodiscard]] cudaStream_t get() const { return stream_; }
  [[nodiscard]] StreamHandle handle() const { return {stream_}; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// What was captured on a stream since `begin`.
class Graph {
 public:
  static void begin(const Stream& stream, cudaStreamCaptureMode mode) {
    require_cuda(cudaStreamBeginCapture(stream.get(), mode));
  }
  explicit Graph(const Stream& stream) {
    require_cuda(cudaStreamEndCapture(stream.get(), &graph_));
    require_cuda(cudaGraphInstantiate(&executable_, graph_, 0));
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() {
    static_cast<void>(cudaGraphExecDestroy(executable_));
    static_cast<void>(cudaGraphDestroy(graph_));
  }
  void replay(const Stream& stream) const {
    require_cuda(cudaGraphLaunch(executable_, stream.get()));
    require_cuda(cudaStreamSynchronize(stream.get()));
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

/// Lengths around pages of 16, for `count` requests.
PagedBatch batch_of(std::int32_t count) {
  BatchShape shape{.page = 16, .seed = static_cast<std::uint32_t>(count)};
  for (std::int32_t i = 0; i < count; ++i) {
    shape.lengths.push_back(i * 7 % 50);
    shape.queries.push_back(1 + i % 3);
  }
  return PagedBatch{shape};
}

/// One step of a batch on buffers that stay: all its tokens are appended, then read.
class Step {
 public:
  explicit Step(const PagedBatch& batch)
      : batch_{batch},
        device_{batch, Before::kNan},
        k_{Elements{batch.shape().type}.bytes(batch.k)},
        v_{Elements{batch.shape().type}.bytes(batch.v)},
        slots_{batch.slots},
        out_{values() * static_cast<std::size_t>(batch.element())},
        lse_{rows() * sizeof(float)} {}

  void launch(const Stream& stream, const Region& workspace) {
    kernels::AppendParams append = batch_.append(device_.pool_base());
    append.k = k_.at(0);
    append.v = v_.at(0);
    append.slot_mapping = slots_.as<std::int64_t>();
    must(kernels::append(append, stream.handle()));
    kernels::AttentionParams attention = device_.attention();
    attention.out = out_.at(0);
    attention.lse = lse_.as<float>();
    attention.workspace = reinterpret_cast<void*>(workspace.address);  // NOLINT: of the device
    attention.workspace_bytes = workspace.size.count();
    must(kernels::attention(attention, stream.handle()));
  }
  /// Makes everything NaN that a launch writes.
  void wipe() {
    require_cuda(cudaMemset(device_.pool_base(), 0xFF, batch_.pool.size()));
    require_cuda(cudaMemset(out_.at(0), 0xFF, out_.size()));
    require_cuda(cudaMemset(lse_.at(0), 0xFF, lse_.size()));
    require_cuda(cudaDeviceSynchronize());
  }
  void check() const {
    check_bytes(device_.pool(), batch_.pool);
    AttentionResult result{.out = {}, .lse = lse_.read<float>(0, rows())};
    const auto bytes = out_.read(0, out_.size());
    const Elements elements{batch_.shape().type};
    for (std::size_t i = 0; i < values(); ++i) {
      result.out.push_back(
          elements.load(bytes.data() + i * static_cast<std::size_t>(batch_.element())));
    }
    check_result(batch_, device_.attention(), result, batch_.shape().lengths);
  }

 private:
  [[nodiscard]] std::size_t rows() const {
    return static_cast<std::size_t>(batch_.query_tokens() * batch_.query_heads());
  }
  [[nodiscard]] std::size_t values() const {
    return rows() * static_cast<std::size_t>(batch_.shape().v_dim);
  }

  const PagedBatch& batch_;
  DeviceBatch device_;
  DeviceBytes k_, v_, slots_, out_, lse_;
};

TEST_CASE("a workspace grows from batch 2 to 16 before a capture and never in one",
          "[workspace][sanitize]") {
  const auto mode = GENERATE(cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                             cudaStreamCaptureModeRelaxed);
  // 512 KiB for each request that a block of 4 tokens makes.
  const Bytes small{4'194'304};
  const Bytes large{33'554'432};
  REQUIRE(must(kernels::decode_rows_requests(2, 4, 32)) * 524'288 == small.count());
  REQUIRE(must(kernels::decode_rows_requests(16, 4, 32)) * 524'288 == large.count());
  const PagedBatch two = batch_of(2);
  const PagedBatch sixteen = batch_of(16);
  Step step_of_two{two};
  Step step_of_sixteen{sixteen};
  const Stream stream;
  const AnyPageMemory memory = must(DeviceMemory::create(0));
  kernels::Workspace workspace = kernels::stream_workspace(memory, stream.handle());
  const Region first = must(workspace.require(small));
  CHECK(workspace.held() == small);

  SECTION("growing in a capture is an error, which the capture survives") {
    Graph::begin(stream, mode);
    const auto grown = workspace.require(large);
    REQUIRE(!grown.has_value());
    CHECK(grown.error().code == ErrorCode::kExhausted);
    CHECK(grown.error().message ==
          "the workspace holds 4194304 bytes and 33554432 are needed while a stream is captured: "
          "size it for the largest shape first");
    CHECK(memory.held() == small);
    step_of_two.launch(stream, must(workspace.require(small)));
    const Graph graph{stream};
    // The graph keeps the address.
    const auto after = workspace.require(large);
    REQUIRE(!after.has_value());
    CHECK_THAT(after.error().message, Catch::Matchers::ContainsSubstring("after a stream"));
    CHECK(must(workspace.require(small)).address == first.address);
    graph.replay(stream);
    step_of_two.check();
  }
  SECTION("sized for 16 first, both batches are captured and replayed") {
    const Region sized = must(workspace.require(large));
    CHECK(memory.held() == large);
    Graph::begin(stream, mode);
    step_of_two.launch(stream, must(workspace.require(small)));
    const Graph graph_of_two{stream};
    Graph::begin(stream, mode);
    const Region used = must(workspace.require(large));
    step_of_sixteen.launch(stream, used);
    const Graph graph_of_sixteen{stream};
    CHECK(used == sized);
    CHECK(memory.held() == large);
    for (int again = 0; again < 2; ++again) {
      step_of_two.wipe();
      step_of_sixteen.wipe();
      graph_of_two.replay(stream);
      graph_of_sixteen.replay(stream);
      step_of_two.check();
      step_of_sixteen.check();
    }
  }
}

TEST_CASE("a stream tells whether it is being captured", "[workspace]") {
  const Stream stream;
  const Stream other;
  CHECK_FALSE(must(stream_is_capturing(stream.handle())));
  CHECK_FALSE(must(stream_is_capturing({})));
  Graph::begin(stream, cudaStreamCaptureModeThreadLocal);
  CHECK(must(stream_is_capturing(stream.handle())));
  CHECK_FALSE(must(stream_is_capturing(other.handle())));
  SECTION("until the capture ends") {
    const Graph graph{stream};
    CHECK_FALSE(must(stream_is_capturing(stream.handle())));
  }
  SECTION("a capture that failed is one until it ends") {
    CHECK(cudaStreamSynchronize(stream.get()) == cudaErrorStreamCaptureUnsupported);
    static_cast<void>(cudaGetLastError());
    CHECK(must(stream_is_capturing(stream.handle())));
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(stream.get(), &graph) == cudaErrorStreamCaptureInvalidated);
    static_cast<void>(cudaGetLastError());
    CHECK_FALSE(must(stream_is_capturing(stream.handle())));
  }
}

TEST_CASE("the default stream counts as captured with one that waits for it", "[workspace]") {
  const Stream blocking{cudaStreamDefault};
  const AnyPageMemory memory = must(DeviceMemory::create(0));
  kernels::Workspace workspace = kernels::stream_workspace(memory, {});
  Graph::begin(blocking, cudaStreamCaptureModeRelaxed);
  CHECK(must(stream_is_capturing({})));
  CHECK_FALSE(workspace.require(Bytes{1}).has_value());
  // Asking did not end the capture.
  CHECK(must(stream_is_capturing(blocking.handle())));
  const Graph graph{blocking};
  CHECK(workspace.require(Bytes{1}).has_value());
}

}  // namespace
}  // namespace kvpool::test
