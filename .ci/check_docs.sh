#!/usr/bin/env bash
# Documentation: Doxygen with warnings as errors (an undocumented public symbol is one), links in
# Markdown files, examples in them, and test files that no target compiles.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v doxygen >/dev/null || { echo "error: doxygen is missing" >&2; exit 1; }

rm -rf build/docs
mkdir -p build/docs
status=0
doxygen docs/Doxyfile || status=1
for headers in libkvpool/include kernels/include; do
  python3 .ci/check_documented.py build/docs/xml "$headers" || status=1
done
python3 tests/architecture/docs_links_test.py . || status=1
python3 tests/architecture/test_files_test.py . "${1:-build/release}" || status=1
exit "$status"
