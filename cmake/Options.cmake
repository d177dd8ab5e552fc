# Options and their defaults. Everything that an embedding project does not need is on only when
# kvpool is the top-level project.
include_guard(GLOBAL)

set(KVPOOL_CUDA AUTO CACHE STRING "Build the CUDA parts: AUTO (if nvcc is found), ON or OFF")
set_property(CACHE KVPOOL_CUDA PROPERTY STRINGS AUTO ON OFF)
option(KVPOOL_CLI "Build the kvplan program" ${PROJECT_IS_TOP_LEVEL})
option(KVPOOL_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(KVPOOL_EXAMPLES "Build the examples" ${PROJECT_IS_TOP_LEVEL})
option(KVPOOL_BENCHMARKS "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(KVPOOL_FUZZERS "Build the libFuzzer programs (needs clang)" OFF)
option(KVPOOL_STATIC_DEPENDENCIES
  "Link packages, libstdc++ and libgcc statically, for programs that run elsewhere (make gpu-bundle)" OFF)
option(KVPOOL_KERNEL_CANDIDATES
  "Compile kernels that are still to be measured; they run only where asked for by number" OFF)
option(KVPOOL_WERROR "Treat compiler warnings as errors" ${PROJECT_IS_TOP_LEVEL})

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  endif()
  # Checks and editors read it.
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  # All programs end in <build>/bin, whichever folder declares them.
  if(NOT CMAKE_RUNTIME_OUTPUT_DIRECTORY)
    set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
  endif()
  find_program(KVPOOL_CCACHE ccache DOC "Compiler cache, used when present")
  mark_as_advanced(KVPOOL_CCACHE)
  if(KVPOOL_CCACHE)
    foreach(language IN ITEMS CXX CUDA)
      if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
        set(CMAKE_${language}_COMPILER_LAUNCHER "${KVPOOL_CCACHE}")
      endif()
    endforeach()
  endif()
endif()
