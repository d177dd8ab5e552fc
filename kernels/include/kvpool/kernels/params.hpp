// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What kernels are called with. Every struct is plain data for host and device compilers, passed
// by value; it owns nothing. All addresses are of the memory the reader runs on: device memory for
// the kernels, host memory for the CPU reference, which reads the same structs. Strides are 64-bit
// everywhere; sources and outputs count them in elements, caches in bytes.
//
// The layouts are frozen: fields keep their place and meaning, new kernels bring new structs.
#include <kvpool/kernels/attention_params.hpp>
#include <kvpool/kernels/cache_operand.hpp>
#include <kvpool/kernels/decode_row_params.hpp>
#include <kvpool/kernels/page_params.hpp>
