# Third-party packages: found on the system first, otherwise fetched at the pinned tag. The pins
# follow the versions of the packages in .ci/install_packages.sh unless a comment says why not.
include_guard(GLOBAL)
include(FetchContent)
if(NOT DEFINED FETCHCONTENT_TRY_FIND_PACKAGE_MODE)
  set(FETCHCONTENT_TRY_FIND_PACKAGE_MODE OPT_IN)
endif()

# Fetched packages have to be installable, because installed static libraries refer to them.
set(ABSL_PROPAGATE_CXX_STD ON)
set(ABSL_ENABLE_INSTALL ON)
set(FMT_INSTALL ON)

# Wraps FetchContent_Declare: kvpool_dependency(<name> <repository> <tag> [find_package arguments]).
macro(kvpool_dependency name repository tag)
  FetchContent_Declare(${name}
    GIT_REPOSITORY "https://github.com/${repository}.git"
    GIT_TAG ${tag}
    GIT_SHALLOW ON
    SYSTEM
    FIND_PACKAGE_ARGS ${ARGN})
endmacro()

kvpool_dependency(absl abseil/abseil-cpp 20220623.1)
kvpool_dependency(fmt fmtlib/fmt 9.1.0 9)
kvpool_dependency(nlohmann_json nlohmann/json v3.11.2 3.11)
# 3.3.0 used header-only (as fetched) aborts on malformed input; 3.4.0 reports it.
kvpool_dependency(tomlplusplus marzer/tomlplusplus v3.4.0 3.3)
FetchContent_MakeAvailable(absl fmt nlohmann_json tomlplusplus)

# Packages as static libraries, so that programs need nothing but the C library: Abseil's archives lie
# beside its shared objects; fmt is compiled in from its headers. What is still named is dropped by
# the linker where nothing is taken from it.
if(KVPOOL_STATIC_DEPENDENCIES)
  get_property(imported DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(target IN LISTS imported)
    if(NOT target MATCHES "^absl::")
      continue()
    endif()
    get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
    foreach(configuration IN LISTS configurations)
      get_target_property(location ${target} IMPORTED_LOCATION_${configuration})
      if(location)
        string(REGEX REPLACE "\\.so[.0-9]*$" ".a" archive "${location}")
        if(EXISTS "${archive}")
          set_target_properties(${target} PROPERTIES
            IMPORTED_LOCATION_${configuration} "${archive}")
        endif()
      endif()
    endforeach()
  endforeach()
  set_property(TARGET fmt::fmt APPEND PROPERTY INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY=1)
  add_link_options(-static-libstdc++ -static-libgcc LINKER:--as-needed)
endif()

# XXH3, inlined from the header: the package has no CMake file, and of fetched sources only the
# header is used (no such subdirectory, so nothing is built).
if(NOT FETCHCONTENT_TRY_FIND_PACKAGE_MODE STREQUAL "NEVER")
  find_path(KVPOOL_XXHASH_INCLUDE_DIR xxhash.h DOC "Folder of xxhash.h (0.8 or later)")
  mark_as_advanced(KVPOOL_XXHASH_INCLUDE_DIR)
endif()
if(NOT KVPOOL_XXHASH_INCLUDE_DIR)
  FetchContent_Declare(xxhash
    GIT_REPOSITORY https://github.com/Cyan4973/xxHash.git
    GIT_TAG v0.8.1
    GIT_SHALLOW ON
    SOURCE_SUBDIR no_build)
  FetchContent_MakeAvailable(xxhash)
  set(KVPOOL_XXHASH_INCLUDE_DIR "${xxhash_SOURCE_DIR}")
endif()

if(KVPOOL_CLI)
  kvpool_dependency(CLI11 CLIUtils/CLI11 v2.1.2 2.1)
  FetchContent_MakeAvailable(CLI11)
endif()

if(KVPOOL_TESTS)
  # A newer major version than the package: tests/support/catch.hpp accepts both.
  kvpool_dependency(Catch2 catchorg/Catch2 v3.4.0)
  # rapidcheck has no release tags, so a commit (which cannot be fetched shallowly).
  FetchContent_Declare(rapidcheck
    GIT_REPOSITORY https://github.com/emil-e/rapidcheck.git
    GIT_TAG ff6af6fc683159deb51c543b065eba14dfcf329b
    SYSTEM
    FIND_PACKAGE_ARGS)
  kvpool_dependency(GTest google/googletest release-1.12.1)
  FetchContent_MakeAvailable(Catch2 rapidcheck GTest)
  if(DEFINED catch2_SOURCE_DIR)
    list(APPEND CMAKE_MODULE_PATH "${catch2_SOURCE_DIR}/extras")
  endif()
  include(Catch)
  # The distribution's Python is the one that has the packaged modules (jsonschema).
  if(NOT DEFINED Python3_EXECUTABLE AND EXISTS /usr/bin/python3)
    set(Python3_EXECUTABLE /usr/bin/python3)
  endif()
  find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
endif()

if(KVPOOL_BENCHMARKS)
  set(BENCHMARK_ENABLE_TESTING OFF)
  kvpool_dependency(benchmark google/benchmark v1.7.1 1.7)
  FetchContent_MakeAvailable(benchmark)
endif()
