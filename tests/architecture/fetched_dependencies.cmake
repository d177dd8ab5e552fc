# Configures the project as if no package were installed. FetchContent takes every dependency from
# a stand-in that declares the target names of the real one, so names, options and install rules
# of the fallback are checked; the downloads themselves are not.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE "${WORK_DIR}")

function(stand_in name)
  set(text "cmake_minimum_required(VERSION 3.25)\nproject(${name} LANGUAGES CXX)\n")
  string(MAKE_C_IDENTIFIER "${name}" id)
  foreach(target IN LISTS ARGN)
    string(MAKE_C_IDENTIFIER "${id}_${target}" library)
    string(REGEX REPLACE "^.*::" "" export_name "${target}")
    string(APPEND text
      "add_library(${library} INTERFACE)\n"
      "set_target_properties(${library} PROPERTIES EXPORT_NAME ${export_name})\n"
      "install(TARGETS ${library} EXPORT ${name}-targets)\n")
    if(target MATCHES "::")
      string(APPEND text "add_library(${target} ALIAS ${library})\n")
    else()
      string(APPEND text "add_library(${target} INTERFACE)\n")
    endif()
  endforeach()
  if(ARGN)
    string(APPEND text "install(EXPORT ${name}-targets NAMESPACE ${name}:: DESTINATION lib/cmake/${name})\n")
  endif()
  file(WRITE "${WORK_DIR}/src/${name}/CMakeLists.txt" "${text}")
  file(WRITE "${WORK_DIR}/src/${name}/extras/Catch.cmake"
    "function(catch_discover_tests)\nendfunction()\n")
  string(TOUPPER "${name}" upper)
  set(overrides ${overrides} "-DFETCHCONTENT_SOURCE_DIR_${upper}=${WORK_DIR}/src/${name}" PARENT_SCOPE)
endfunction()

stand_in(absl absl::flat_hash_map absl::inlined_vector absl::btree)
stand_in(fmt fmt::fmt)
stand_in(nlohmann_json nlohmann_json::nlohmann_json)
stand_in(tomlplusplus tomlplusplus::tomlplusplus)
stand_in(xxhash)
stand_in(CLI11 CLI11::CLI11)
stand_in(Catch2 Catch2::Catch2 Catch2::Catch2WithMain)
stand_in(rapidcheck rapidcheck)
stand_in(GTest GTest::gtest GTest::gtest_main GTest::gmock)
stand_in(benchmark benchmark::benchmark benchmark::benchmark_main)

execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${SOURCE_DIR}" -B "${WORK_DIR}/build" -G Ninja
    "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
    -DFETCHCONTENT_TRY_FIND_PACKAGE_MODE=NEVER
    -DKVPOOL_CUDA=OFF
    ${overrides}
  COMMAND_ERROR_IS_FATAL ANY)
