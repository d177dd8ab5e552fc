// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace kvpool {

/// Runs the kernel of every bundled row on GPU 0 and prints what was found, as a document
/// `kvpool.self_test/1` if `json`. @return the program's exit code
[[nodiscard]] int self_test_on_gpu(bool json);

}  // namespace kvpool
