// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/layout/layer_group.hpp>

#include "support/catch.hpp"

#include <vector>

namespace kvpool {
namespace {

LayerGeometry with_span(Span span) { return {.kind = CacheKind::kKeyValue, .span = span}; }

const Span kWindow128{SpanKind::kSlidingWindow, Tokens{128}};

Pages pages(Span span, std::int64_t length, std::int64_t page, std::int64_t lookahead = 0) {
  return pages_of_sequence({.span = span}, Tokens{length}, Tokens{page}, Tokens{lookahead});
}

TEST_CASE("caches that live equally long share a group, whatever their sizes") {
  LayerGeometry latent{.kind = CacheKind::kLatent};
  LayerGeometry indexer{.kind = CacheKind::kIndexer};
  const auto groups = group_layers(std::vector{latent, indexer, with_span({})});
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].layers.size() == 3);
  CHECK(group_name(groups[0]) == "full");
}

TEST_CASE("groups stand full first, then windows by extent, chunks, cross, state") {
  const auto groups = group_layers(std::vector<LayerGeometry>{
      {.kind = CacheKind::kState},
      with_span({SpanKind::kCross, Tokens{1500}}),
      with_span({SpanKind::kSlidingWindow, Tokens{1024}}),
      with_span({SpanKind::kChunked, Tokens{8192}}),
      with_span(kWindow128),
      with_span({}),
  });
  std::vector<std::string> names;
  for (const LayerGroup& group : groups) {
    names.push_back(group_name(group));
  }
  CHECK(names == std::vector<std::string>{"full", "sliding_window_128", "sliding_window_1024",
                                          "chunked_8192", "cross", "state"});
}

TEST_CASE("full attention needs every page of the sequence") {
  CHECK(pages({}, 0, 64) == Pages{0});
  CHECK(pages({}, 1, 64) == Pages{1});
  CHECK(pages({}, 64, 64) == Pages{1});
  CHECK(pages({}, 65, 64) == Pages{2});
}

TEST_CASE("a window needs no more pages than its tokens can touch") {
  // 128 tokens of 16-token pages: the newest and 127 before it touch at most 9 pages.
  CHECK(pages(kWindow128, 100, 16) == Pages{7});
  CHECK(pages(kWindow128, 144, 16) == Pages{9});
  CHECK(pages(kWindow128, 1'000'000, 16) == Pages{9});
  // Seven draft tokens more may touch one page more.
  CHECK(pages(kWindow128, 1'000'000, 16, 7) == Pages{10});
}

TEST_CASE("a window's pages suffice at every length, counted by brute force") {
  for (const std::int64_t window : {1, 2, 15, 16, 17, 128}) {
    for (const std::int64_t page : {1, 2, 16, 64}) {
      std::int64_t most = 0;
      for (std::int64_t newest = 0; newest < 4 * window + 4 * page; ++newest) {
        const std::int64_t oldest = newest - window + 1 < 0 ? 0 : newest - window + 1;
        most = std::max(most, newest / page - oldest / page + 1);
        const std::int64_t here = newest / page - oldest / page + 1;
        INFO("window " << window << " page " << page << " newest " << newest);
        REQUIRE(pages({SpanKind::kSlidingWindow, Tokens{window}}, newest + 1, page).count() >=
                here);
      }
      INFO("window " << window << " page " << page);
      const Pages at_length = pages({SpanKind::kSlidingWindow, Tokens{window}}, 1'000'000, page);
      // Exact unless every start inside a page gives the same count.
      CHECK(at_length.count() <= most + 1);
      CHECK(at_length.count() >= most);
    }
  }
}

TEST_CASE("a chunk's pages are those of one chunk") {
  const Span chunk{SpanKind::kChunked, Tokens{8192}};
  CHECK(pages(chunk, 100, 64) == Pages{2});
  CHECK(pages(chunk, 1'000'000, 64) == Pages{128});
  // Chunks that start inside a page touch one more.
  CHECK(pages({SpanKind::kChunked, Tokens{100}}, 1'000'000, 64) == Pages{3});
}

TEST_CASE("cross attention keeps the encoder's tokens") {
  CHECK(pages({SpanKind::kCross, Tokens{1500}}, 1, 64) == Pages{24});
  CHECK(pages({SpanKind::kCross, Tokens{1500}}, 448, 64) == Pages{24});
}

TEST_CASE("a state is one slot per sequence") {
  CHECK(pages_of_sequence({.is_state = true}, Tokens{5}, Tokens{0}, Tokens{0}) == Pages{1});
}

}  // namespace
}  // namespace kvpool
