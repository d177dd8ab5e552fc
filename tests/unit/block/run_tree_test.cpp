// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "block/run_tree.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kvpool::block {
namespace {

using Tokens = std::vector<std::int32_t>;

/// A tree of blocks of two tokens.
class Tree {
 public:
  RunTree runs{100, 1000, 2};

  std::uint32_t add(std::uint32_t parent, const Tokens& tokens, std::int32_t name_space = 0) {
    const std::uint32_t run = runs.allocate();
    const Extent extent = runs.extents().allocate(static_cast<std::uint32_t>(tokens.size() / 2));
    runs[run].parent = parent;
    runs[run].start = extent.start;
    runs[run].blocks = extent.units;
    runs[run].capacity = extent.units;
    runs[run].name_space = name_space;
    std::ranges::copy(tokens, runs.tokens(extent.start));
    runs.publish(run);
    return run;
  }
  std::uint32_t walk(const Tokens& tokens, Cursor& at, std::int32_t name_space = 0) {
    at = {};
    return runs.walk(at, name_space, tokens.data(), static_cast<std::uint32_t>(tokens.size() / 2));
  }
};

TEST_CASE("a walk follows equal blocks through runs", "[block][run_tree]") {
  Tree tree;
  const std::uint32_t top = tree.add(kRoot, {1, 2, 3, 4, 5, 6});
  const std::uint32_t low = tree.add(top, {7, 8});
  Cursor at;
  CHECK(tree.walk({1, 2, 3, 4, 5, 6, 7, 8, 9, 9}, at) == 4);
  CHECK(at.run == low);
  CHECK(at.blocks == 1);
  CHECK(tree.walk({1, 2, 3, 4, 5, 9}, at) == 2);
  CHECK(at.run == top);
  CHECK(at.blocks == 2);
  CHECK(tree.walk({1, 9}, at) == 0);
  CHECK(at.run == kRoot);
}

TEST_CASE("namespaces do not see one another's runs", "[block][run_tree]") {
  Tree tree;
  tree.add(kRoot, {1, 2}, 3);
  Cursor at;
  CHECK(tree.walk({1, 2}, at, 0) == 0);
  CHECK(tree.walk({1, 2}, at, 3) == 1);
}

TEST_CASE("a run is cut in two without moving its tokens", "[block][run_tree]") {
  Tree tree;
  const std::uint32_t run = tree.add(kRoot, {1, 2, 3, 4, 5, 6});
  const std::uint32_t child = tree.add(run, {7, 8});
  const std::uint32_t start = tree.runs[run].start;
  const std::uint32_t upper = tree.runs.split(run, 1);
  CHECK(tree.runs[upper].start == start);
  CHECK(tree.runs[run].start == start + 1);
  CHECK(tree.runs[run].parent == upper);
  CHECK(tree.runs[child].parent == run);
  CHECK(tree.runs[kRoot].first_child == upper);
  CHECK(tree.runs[upper].first_child == run);
  Cursor at;
  CHECK(tree.walk({1, 2, 3, 4, 5, 6, 7, 8}, at) == 4);
  CHECK(at.run == child);
}

TEST_CASE("hundreds of siblings are found and forgotten one by one", "[block][run_tree]") {
  Tree tree;
  std::vector<std::uint32_t> runs;
  for (std::int32_t i = 0; i < 100; ++i) {
    runs.push_back(tree.add(kRoot, {i, i}));
  }
  CHECK(tree.runs.allocate() == kNil);
  for (std::int32_t i = 0; i < 100; i += 2) {
    tree.runs.unpublish(runs[static_cast<std::size_t>(i)]);
    tree.runs.free(runs[static_cast<std::size_t>(i)]);
  }
  Cursor at;
  for (std::int32_t i = 0; i < 100; ++i) {
    CHECK(tree.walk({i, i}, at) == static_cast<std::uint32_t>(i % 2));
  }
  std::uint32_t children = 0;
  for (std::uint32_t run = tree.runs[kRoot].first_child; run != kNil;
       run = tree.runs[run].siblings.next) {
    ++children;
  }
  CHECK(children == 50);
}

TEST_CASE("the first difference of two runs is found at any place", "[block][run_tree]") {
  const Tokens a(3000, 1);
  for (const std::size_t place : {0U, 1U, 1023U, 1024U, 2047U, 2999U}) {
    Tokens b = a;
    b[place] = 2;
    CHECK(equal_tokens(a.data(), b.data(), a.size()) == place);
  }
  CHECK(equal_tokens(a.data(), a.data(), a.size()) == 3000);
}

}  // namespace
}  // namespace kvpool::block
