#!/usr/bin/env bash
# clang-format-19 on all C++ and CUDA files: reports differences, or repairs them with --fix.
set -euo pipefail
cd "$(dirname "$0")/.."
source .ci/sources.sh

mapfile -t files < <(sources hpp cpp cu cuh)
[[ ${#files[@]} -gt 0 ]] || { echo "error: no source file found" >&2; exit 1; }
mode=(--dry-run -Werror)
[[ ${1:-} == --fix ]] && mode=(-i)
clang-format-19 "${mode[@]}" "${files[@]}"
echo "format: ${#files[@]} files"
