# Helpers that declare the project's targets: libraries by folder, tests, fuzz targets, CUDA.
include_guard(GLOBAL)

set(KVPOOL_INCLUDE_DIR "${PROJECT_SOURCE_DIR}/libkvpool/include")
set(KVPOOL_GENERATED_INCLUDE_DIR "${PROJECT_BINARY_DIR}/generated/include")

# kvpool_warnings(<target>): the project's warning flags, for C++ and CUDA. nvcc's generated line
# directives do not pass -Wpedantic, so CUDA goes without it.
function(kvpool_warnings target)
  set(flags -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow)
  list(JOIN flags "," cuda_flags)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:${flags};-Wpedantic>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${cuda_flags}>")
  # g++ 12 sees overlapping copies in `"literal" + std::string` (GCC bug 105651, fixed in 13).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>")
    # Under the sanitizers it takes members of std::regex for uninitialised (GCC bug 105562).
    if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
      target_compile_options(${target} PRIVATE
        "$<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>")
    endif()
  endif()
  # libstdc++ 12 sorts stably with a function that it marks as deprecated itself.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:-Wno-deprecated-declarations>")
  endif()
  if(KVPOOL_WERROR)
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:-Werror>"
      "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>")
  endif()
endfunction()

# kvpool_library(<target> <export name>): a static library with the alias kvpool::<export name>.
# Sources and public headers come from the folders, through kvpool_folder().
function(kvpool_library target export_name)
  add_library(${target} STATIC)
  add_library(kvpool::${export_name} ALIAS ${target})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/libkvpool/src")
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${export_name}
    CXX_EXTENSIONS OFF
    POSITION_INDEPENDENT_CODE ON
    VERIFY_INTERFACE_HEADER_SETS ON)
  kvpool_warnings(${target})
endfunction()

# kvpool_folder(<target> <folder> [SOURCES a.cpp ...] [HEADERS a.hpp ...]): adds one folder of
# libkvpool to a library. Sources are relative to libkvpool/src/<folder>, headers to
# libkvpool/include/kvpool/<folder>; both are listed by hand.
function(kvpool_folder target folder)
  cmake_parse_arguments(arg "" "" "SOURCES;HEADERS" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "kvpool_folder(${target} ${folder}): unknown ${arg_UNPARSED_ARGUMENTS}")
  endif()
  list(TRANSFORM arg_SOURCES PREPEND "${PROJECT_SOURCE_DIR}/libkvpool/src/${folder}/")
  list(TRANSFORM arg_HEADERS PREPEND "${KVPOOL_INCLUDE_DIR}/kvpool/${folder}/")
  target_sources(${target}
    PRIVATE ${arg_SOURCES}
    PUBLIC FILE_SET HEADERS BASE_DIRS "${KVPOOL_INCLUDE_DIR}" FILES ${arg_HEADERS})
endfunction()

# kvpool_cuda_library(<target> [STATIC|OBJECT] <sources>...): a CUDA target in C++20. The standard
# is a property and not a feature, so that nothing about it is exported.
function(kvpool_cuda_library target)
  if(NOT KVPOOL_HAS_CUDA)
    message(FATAL_ERROR "kvpool_cuda_library(${target}): this build has no CUDA")
  endif()
  add_library(${target} ${ARGN})
  set_target_properties(${target} PROPERTIES
    CUDA_STANDARD 20
    CUDA_STANDARD_REQUIRED ON
    CUDA_EXTENSIONS OFF
    CXX_EXTENSIONS OFF
    POSITION_INDEPENDENT_CODE ON)
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>")
  kvpool_warnings(${target})
endfunction()

# kvpool_executable(<name> <sources>...): a program with the project's flags.
function(kvpool_executable name)
  add_executable(${name} ${ARGN})
  target_compile_features(${name} PRIVATE cxx_std_20)
  set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF)
  kvpool_warnings(${name})
endfunction()

# kvpool_test(<name> <sources>... [LIBS <libraries>...] [LABELS <labels>...] [TIMEOUT <seconds>]):
# one Catch2 program; each of its test cases is a ctest entry "<name>.<test case>". Without
# sources there is no target. No semicolons in names of test cases. Tests include
# "support/catch.hpp"; KVPOOL_SOURCE_DIR is the root of the source tree, as a string literal.
# Sources of tests labelled `unit` are optimised little: they run for moments, and half of a clean
# build would go into them.
function(kvpool_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "LIBS;LABELS" ${ARGN})
  if(NOT arg_UNPARSED_ARGUMENTS)
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  kvpool_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_compile_definitions(${name} PRIVATE KVPOOL_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if("unit" IN_LIST arg_LABELS)
    target_compile_options(${name} PRIVATE "$<IF:$<CONFIG:Debug>,-O0,-O1>")
  endif()
  target_link_libraries(${name} PRIVATE ${arg_LIBS} Catch2::Catch2WithMain)
  catch_discover_tests(${name}
    TEST_PREFIX "${name}."
    # A name that the discovery mangles selects nothing, which Catch2 2 takes for success.
    PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
      FAIL_REGULAR_EXPRESSION "No test cases matched|No tests ran")
endfunction()

# kvpool_gpu_test(<name> <sources>... [LIBS <libraries>...] [TIMEOUT <seconds>]): as kvpool_test(),
# with a main that ends with 77 where there is no GPU, which ctest counts as skipped. The program is
# part of the GPU bundle, which is run elsewhere: it reads no file of the source tree. Sources are
# C++ or CUDA C++.
function(kvpool_gpu_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "LIBS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()
  kvpool_executable(${name} ${arg_UNPARSED_ARGUMENTS} $<TARGET_OBJECTS:kvpool_gpu_main>)
  set_target_properties(${name} PROPERTIES
    CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF CUDA_RUNTIME_LIBRARY Static)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${name} PRIVATE ${arg_LIBS} kvpool::cuda CUDA::cudart_static Catch2::Catch2)
  set_property(GLOBAL APPEND PROPERTY KVPOOL_GPU_TESTS ${name})
  catch_discover_tests(${name}
    TEST_PREFIX "${name}."
    PROPERTIES LABELS gpu TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77 RESOURCE_LOCK gpu
      FAIL_REGULAR_EXPRESSION "No test cases matched|No tests ran")
endfunction()

# kvpool_gpu_bundle(): the target gpu_bundle, which puts the GPU tests, what `kvplan plan
# --verify-on-gpu` runs, some plans and the script that runs all of it into KVPOOL_GPU_BUNDLE_DIR.
# Call after every kvpool_gpu_test().
function(kvpool_gpu_bundle)
  get_property(programs GLOBAL PROPERTY KVPOOL_GPU_TESTS)
  list(APPEND programs kvplan-gpu-verify)
  if(TARGET kernels_bench)
    list(APPEND programs kernels_bench)
  endif()
  list(TRANSFORM programs REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE files)
  add_custom_target(gpu_bundle
    COMMAND bash "${PROJECT_SOURCE_DIR}/tests/kernels/make_gpu_bundle.sh"
      "${PROJECT_SOURCE_DIR}" "${KVPOOL_GPU_BUNDLE_DIR}" $<TARGET_FILE:kvplan> ${files}
    DEPENDS kvplan ${programs}
    COMMENT "GPU bundle in ${KVPOOL_GPU_BUNDLE_DIR}"
    VERBATIM)
endfunction()

# kvpool_fuzz_target(<name> <source> CORPUS <folder> [SOURCES <more>...] [LIBS <libraries>...]
# [LABELS <labels>...]):
# with KVPOOL_FUZZERS a libFuzzer program; with KVPOOL_TESTS <name>_replay, a plain program that
# runs the same function over every file of the corpus, as a test.
function(kvpool_fuzz_target name source)
  cmake_parse_arguments(arg "" "CORPUS" "SOURCES;LIBS;LABELS" ${ARGN})
  if(KVPOOL_FUZZERS)
    kvpool_executable(${name} ${source} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE ${arg_LIBS})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  endif()
  if(KVPOOL_TESTS)
    kvpool_executable(${name}_replay ${source} ${arg_SOURCES}
      "${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cpp")
    target_link_libraries(${name}_replay PRIVATE ${arg_LIBS})
    add_test(NAME ${name}_replay
      COMMAND ${name}_replay "${CMAKE_CURRENT_SOURCE_DIR}/${arg_CORPUS}")
    set_tests_properties(${name}_replay PROPERTIES LABELS "fuzz;${arg_LABELS}" TIMEOUT 300)
  endif()
endfunction()

# kvpool_example(<name> <sources>... [LIBS <libraries>...] [ARGS <arguments>...]): a program of
# examples/, run as the test example.<name> from the root of the source tree.
function(kvpool_example name)
  cmake_parse_arguments(arg "" "" "LIBS;ARGS" ${ARGN})
  kvpool_executable(example_${name} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(example_${name} PRIVATE ${arg_LIBS})
  if(KVPOOL_TESTS)
    add_test(NAME example.${name}
      COMMAND example_${name} ${arg_ARGS}
      WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties(example.${name} PROPERTIES LABELS example TIMEOUT 120)
  endif()
endfunction()

# kvpool_benchmark(<name> <sources>... [LIBS <libraries>...]): a Google Benchmark program; `make
# bench` runs all programs whose names end in _bench. As a test it only has to start and end.
function(kvpool_benchmark name)
  cmake_parse_arguments(arg "" "" "LIBS" ${ARGN})
  kvpool_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_compile_definitions(${name} PRIVATE KVPOOL_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${arg_LIBS} benchmark::benchmark_main)
  if(KVPOOL_TESTS)
    add_test(NAME benchmark.${name} COMMAND ${name} --benchmark_min_time=0.001)
    set_tests_properties(benchmark.${name} PROPERTIES LABELS benchmark TIMEOUT 120)
  endif()
endfunction()
