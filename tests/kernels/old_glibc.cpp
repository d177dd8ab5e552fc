// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// For programs of the GPU bundle, which run on machines with an older C library than the one they
// were built with: the two functions that a static libstdc++ and libgcc take from glibc 2.35 and
// 2.36, made from older ones.
#include <dlfcn.h>
#include <link.h>
#include <sys/random.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

struct Search {
  std::uintptr_t address;
  dl_find_object* result;
};

/// Fills in the result when the object has the address and unwinding tables. @return 1 if it has
int visit(dl_phdr_info* object, std::size_t /*size*/, void* data) {
  const auto* search = static_cast<const Search*>(data);
  bool inside = false;
  std::uintptr_t tables = 0;
  std::uintptr_t first = UINTPTR_MAX;
  std::uintptr_t end = 0;
  for (std::size_t i = 0; i < object->dlpi_phnum; ++i) {
    const auto& header = object->dlpi_phdr[i];
    const std::uintptr_t begin = object->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_GNU_EH_FRAME) {
      tables = begin;
    } else if (header.p_type == PT_LOAD) {
      first = begin < first ? begin : first;
      end = begin + header.p_memsz > end ? begin + header.p_memsz : end;
      inside = inside || search->address - begin < header.p_memsz;
    }
  }
  if (!inside || tables == 0) {
    return 0;
  }
  *search->result = {};
  search->result->dlfo_map_start = reinterpret_cast<void*>(first);  // NOLINT: glibc has it so
  search->result->dlfo_map_end = reinterpret_cast<void*>(end);      // NOLINT
  search->result->dlfo_eh_frame = reinterpret_cast<void*>(tables);  // NOLINT
  return 1;
}

}  // namespace

extern "C" {

int _dl_find_object(void* address, dl_find_object* result) noexcept {  // NOLINT: glibc's name
  Search search{.address = reinterpret_cast<std::uintptr_t>(address), .result = result};  // NOLINT
  return dl_iterate_phdr(visit, &search) == 1 ? 0 : -1;
}

std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  while (getrandom(&value, sizeof(value), 0) != sizeof(value)) {
  }
  return value;
}
}
