# Configures, builds and tests one consumer project from nothing.
#   -D MODE=find_package|add_subdirectory  -D SOURCE_DIR=  -D BUILD_DIR= (of kvpool)
#   -D WORK_DIR=  -D CXX_COMPILER=  -D CXX_FLAGS=  -D BUILD_TYPE=  -D LAUNCHER=  -D CUDA=
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE "${WORK_DIR}")

set(arguments
  -G Ninja
  "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
  "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}"
  "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}"
  "-DCMAKE_BUILD_TYPE=${BUILD_TYPE}")

if(MODE STREQUAL "find_package")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${WORK_DIR}/prefix"
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  list(APPEND arguments "-DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix")
  # The package works where it is moved to, and names nothing of the tree it was built from.
  file(RENAME "${WORK_DIR}/prefix" "${WORK_DIR}/moved")
  list(TRANSFORM arguments REPLACE "${WORK_DIR}/prefix" "${WORK_DIR}/moved")
  file(GLOB_RECURSE installed "${WORK_DIR}/moved/*.cmake" "${WORK_DIR}/moved/*.hpp")
  foreach(file IN LISTS installed)
    file(READ "${file}" text)
    foreach(place IN ITEMS "${SOURCE_DIR}" "${BUILD_DIR}")
      string(FIND "${text}" "${place}" at)
      if(NOT at EQUAL -1)
        message(FATAL_ERROR "${file} names ${place}")
      endif()
    endforeach()
  endforeach()
elseif(MODE STREQUAL "add_subdirectory")
  list(APPEND arguments "-DKVPOOL_SOURCE=${SOURCE_DIR}" "-DKVPOOL_CUDA=${CUDA}")
else()
  message(FATAL_ERROR "MODE is '${MODE}'")
endif()

execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${SOURCE_DIR}/tests/consumer/${MODE}" -B "${WORK_DIR}/build"
    ${arguments}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(
  COMMAND "${CMAKE_COMMAND}" --build "${WORK_DIR}/build"
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(
  COMMAND "${CMAKE_CTEST_COMMAND}" --output-on-failure --no-tests=error
  WORKING_DIRECTORY "${WORK_DIR}/build"
  COMMAND_ERROR_IS_FATAL ANY)
