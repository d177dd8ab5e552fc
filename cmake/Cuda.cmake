# Finds nvcc, enables the CUDA language and makes CMake 3.25.1 accept CUDA C++20.
# Sets KVPOOL_HAS_CUDA, and KVPOOL_KERNEL_ARCHITECTURES: the GPUs (sm_90, ...) that the kernels are
# compiled for, or would be in a build without CUDA. Include at directory scope: enable_language() is not allowed in a function.
include_guard(GLOBAL)

set(KVPOOL_HAS_CUDA FALSE)
string(TOUPPER "${KVPOOL_CUDA}" _kvpool_cuda_mode)
if(NOT _kvpool_cuda_mode MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "KVPOOL_CUDA is '${KVPOOL_CUDA}'; accepted are AUTO, ON and OFF")
endif()

# `native` needs a GPU in the build machine and plain `90` has no wgmma, so name the target.
set(_kvpool_default_architectures 90a-real)

if(NOT _kvpool_cuda_mode STREQUAL "OFF")
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(KVPOOL_NVCC nvcc PATHS /usr/local/cuda/bin DOC "CUDA compiler")
    mark_as_advanced(KVPOOL_NVCC)
    if(KVPOOL_NVCC)
      set(ENV{CUDACXX} "${KVPOOL_NVCC}")
    endif()
  endif()
  # An nvcc that does not work is an error under ON only.
  if(_kvpool_cuda_mode STREQUAL "AUTO" AND DEFINED ENV{CUDACXX})
    include(CheckLanguage)
    check_language(CUDA)
  endif()
  if(CMAKE_CUDA_COMPILER OR (_kvpool_cuda_mode STREQUAL "ON" AND DEFINED ENV{CUDACXX}))
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
      set(CMAKE_CUDA_ARCHITECTURES ${_kvpool_default_architectures})
    endif()
    enable_language(CUDA)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.0)
      set(KVPOOL_HAS_CUDA TRUE)
    elseif(_kvpool_cuda_mode STREQUAL "ON")
      message(FATAL_ERROR "KVPOOL_CUDA is ON, but nvcc ${CMAKE_CUDA_COMPILER_VERSION} knows no "
        "C++20; 12.0 or later does")
    endif()
  elseif(_kvpool_cuda_mode STREQUAL "ON")
    message(FATAL_ERROR "KVPOOL_CUDA is ON, but nvcc was not found in PATH or /usr/local/cuda/bin; "
      "set CMAKE_CUDA_COMPILER, or configure with KVPOOL_CUDA=OFF")
  endif()
endif()

# CMake 3.25.1 knows nvcc's -std=c++20 neither as a property nor as a feature (3.25.2 does).
if(KVPOOL_HAS_CUDA AND NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
  set(CMAKE_CUDA20_COMPILE_FEATURES cuda_std_20)
endif()

# What the rows of the bundled kernels claim: exactly what is named, although code for 8.0 runs on
# 8.6, too, since nothing was tested there. CMake's own words stand for lists that it found.
set(_kvpool_architectures "${_kvpool_default_architectures}")
if(KVPOOL_HAS_CUDA)
  set(_kvpool_architectures "${CMAKE_CUDA_ARCHITECTURES}")
  if(_kvpool_architectures STREQUAL "native")
    set(_kvpool_architectures "${CMAKE_CUDA_ARCHITECTURES_NATIVE}")
  elseif(_kvpool_architectures STREQUAL "all")
    set(_kvpool_architectures "${CMAKE_CUDA_ARCHITECTURES_ALL}")
  elseif(_kvpool_architectures STREQUAL "all-major")
    set(_kvpool_architectures "${CMAKE_CUDA_ARCHITECTURES_ALL_MAJOR}")
  endif()
endif()
set(KVPOOL_KERNEL_ARCHITECTURES "")
foreach(_kvpool_architecture IN LISTS _kvpool_architectures)
  if(NOT _kvpool_architecture MATCHES "^([0-9]+)[af]?(-real|-virtual)?$")
    message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES is '${CMAKE_CUDA_ARCHITECTURES}', and nothing "
      "tells which GPUs that is; name them, as in 90a-real")
  endif()
  list(APPEND KVPOOL_KERNEL_ARCHITECTURES "sm_${CMAKE_MATCH_1}")
endforeach()
list(REMOVE_DUPLICATES KVPOOL_KERNEL_ARCHITECTURES)
if(NOT KVPOOL_KERNEL_ARCHITECTURES)
  message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES is '${CMAKE_CUDA_ARCHITECTURES}': no GPU; name one, "
    "as in 90a-real")
endif()

if(KVPOOL_HAS_CUDA)
  find_package(CUDAToolkit REQUIRED)
  message(STATUS "kvpool: CUDA ${CMAKE_CUDA_COMPILER_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
else()
  message(STATUS "kvpool: without CUDA (KVPOOL_CUDA=${KVPOOL_CUDA})")
endif()
