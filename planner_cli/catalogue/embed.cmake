# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
# Writes a source with all entries of the catalogue.
# Usage: cmake -D FOLDER=<entries> -D OUTPUT=<file> -P embed.cmake
file(GLOB files "${FOLDER}/*.json")
list(SORT files)
set(text "// Generated from catalogue/entries.\n#include \"catalogue/catalogue.hpp\"\n\n")
string(APPEND text "#include <array>\n\nnamespace kvpool::cli {\nnamespace {\n\n")
list(LENGTH files count)
string(APPEND text "constexpr std::array<CatalogueEntry, ${count}> kEntries{{\n")
foreach(file IN LISTS files)
  file(READ "${file}" json)
  string(JSON name GET "${json}" name)
  string(JSON source GET "${json}" source)
  string(JSON config GET "${json}" config)
  string(APPEND text "    {\"${name}\", \"${source}\",\n     R\"json(${config})json\"},\n")
endforeach()
string(APPEND text "}};\n\n}  // namespace\n\n")
string(APPEND text "std::span<const CatalogueEntry> catalogue() noexcept { return kEntries; }\n\n")
string(APPEND text "}  // namespace kvpool::cli\n")
file(WRITE "${OUTPUT}" "${text}")
