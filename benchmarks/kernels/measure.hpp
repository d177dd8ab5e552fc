// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Timing and the CSV. Times are medians of graph replays; a graph holds one launch for each of
// several page tables over at least 768 MB of pages, so that the L2 is cold.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace kvpool::bench {

/// Ends the program if a call of the runtime failed.
inline void require(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    std::fprintf(stderr, "error: %s: %s\n", what, cudaGetErrorString(status));
    std::exit(4);  // NOLINT(concurrency-mt-unsafe): one thread
  }
}

/// Memory of the device.
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t bytes) : size_{bytes} {
    require(cudaMalloc(&data_, std::max<std::size_t>(bytes, 16)), "allocating");
  }
  template <typename T>
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray{values.size() * sizeof(T)} {
    require(cudaMemcpy(data_, values.data(), size_, cudaMemcpyHostToDevice), "copying");
  }
  DeviceArray(DeviceArray&& other) noexcept
      : data_{std::exchange(other.data_, nullptr)}, size_{other.size_} {}
  DeviceArray& operator=(DeviceArray&&) = delete;
  ~DeviceArray() { static_cast<void>(cudaFree(data_)); }

  template <typename T = void>
  [[nodiscard]] T* get(std::size_t byte = 0) const {
    return reinterpret_cast<T*>(static_cast<char*>(data_) + byte);
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  void set(int byte) { require(cudaMemset(data_, byte, size_), "filling"); }
  template <typename T>
  [[nodiscard]] std::vector<T> read() const {
    std::vector<T> values(size_ / sizeof(T));
    require(cudaDeviceSynchronize(), "running");
    require(cudaMemcpy(values.data(), data_, size_, cudaMemcpyDeviceToHost), "copying");
    return values;
  }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Microseconds of one of `count` launches that `body` enqueues: median of replays of their graph.
inline double time_graph(int count, int replays, const std::function<void(cudaStream_t)>& body) {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  require(cudaStreamCreate(&stream), "creating a stream");
  require(cudaEventCreate(&begin), "creating an event");
  require(cudaEventCreate(&end), "creating an event");
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing");
  body(stream);
  require(cudaStreamEndCapture(stream, &graph), "capturing");
  require(cudaGraphInstantiate(&executable, graph, 0), "instantiating a graph");
  std::vector<double> times;
  for (int i = -1; i < replays; ++i) {
    require(cudaEventRecord(begin, stream), "recording");
    require(cudaGraphLaunch(executable, stream), "launching a graph");
    require(cudaEventRecord(end, stream), "recording");
    require(cudaEventSynchronize(end), "running");
    float milliseconds = 0.0F;
    require(cudaEventElapsedTime(&milliseconds, begin, end), "timing");
    if (i >= 0) {
      times.push_back(1000.0 * static_cast<double>(milliseconds) / count);
    }
  }
  require(cudaGraphExecDestroy(executable), "destroying");
  require(cudaGraphDestroy(graph), "destroying");
  require(cudaEventDestroy(begin), "destroying");
  require(cudaEventDestroy(end), "destroying");
  require(cudaStreamDestroy(stream), "destroying");
  std::ranges::sort(times);
  return times[times.size() / 2];
}

/// One line of the CSV.
struct Line {
  std::string kernel;
  long batch = 0, q_heads = 0, kv_heads = 0, head_dim = 0, page = 0;
  std::string layout = "HND";
  std::string kv_dtype = "bf16";
  long q_len = 0, kv_len = 0;
  std::string mask = "none";
  double us = 0, ref_us = 0, bytes = 0, rel_l2 = 0, max_ulp = 0;
  /// Of a step: one attention, a layer with its append, the whole.
  double op_us = 0, layer_us = 0, step_us = 0;
};

class Csv {
 public:
  /// @param steps whether lines have the columns of steps
  Csv(const std::string& path, double copy_tbps, bool steps) : copy_{copy_tbps}, steps_{steps} {
    if (!path.empty()) {
      file_.open(path);
      file_ << "kernel,batch,q_heads,kv_heads,head_dim,page,layout,kv_dtype,q_len,kv_len,mask,us,"
               "ref_us,ratio,tbps,copy_tbps,rel_l2,max_ulp"
            << (steps ? ",op_us,layer_us,step_us\n" : "\n");
    }
  }
  void line(const Line& line) {
    char text[512];
    std::snprintf(text, sizeof(text),
                  "%s,%ld,%ld,%ld,%ld,%ld,%s,%s,%ld,%ld,%s,%.2f,%.2f,%.3f,%.3f,%.3f,%.2e,%.2f",
                  line.kernel.c_str(), line.batch, line.q_heads, line.kv_heads, line.head_dim,
                  line.page, line.layout.c_str(), line.kv_dtype.c_str(), line.q_len, line.kv_len,
                  line.mask.c_str(), line.us, line.ref_us,
                  line.ref_us > 0 ? line.us / line.ref_us : 0.0, line.bytes / line.us * 1e-6, copy_,
                  line.rel_l2, line.max_ulp);
    std::string all = text;
    if (steps_) {
      std::snprintf(text, sizeof(text), ",%.2f,%.2f,%.2f", line.op_us, line.layer_us, line.step_us);
      all += text;
    }
    std::puts(all.c_str());
    static_cast<void>(std::fflush(stdout));
    if (file_.is_open()) {
      file_ << all << '\n' << std::flush;
    }
  }

 private:
  double copy_;
  bool steps_;
  std::ofstream file_;
};

}  // namespace kvpool::bench
