#!/usr/bin/env bash
# Installs the Debian packages that kvpool needs: `build` (default) for `make demo` and `make
# test`, `checks` for format, tidy, docs and fuzzing as well. The one place that names packages.
# Does nothing, quickly, when all are there.
set -euo pipefail

build=(
  g++ cmake ninja-build ccache python3 python3-jsonschema
  libabsl-dev libfmt-dev nlohmann-json3-dev libtomlplusplus-dev libcli11-dev
  libxxhash-dev catch2 librapidcheck-dev libgtest-dev libgmock-dev libbenchmark-dev valgrind
)
checks=(clang-format-19 clang-tidy-19 clang-19 libclang-rt-19-dev doxygen git)

case "${1:-build}" in
  build) wanted=("${build[@]}") ;;
  checks) wanted=("${build[@]}" "${checks[@]}") ;;
  *) echo "usage: $0 [build|checks]" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "not a Debian system; make sure that these are installed: ${wanted[*]}"
  exit 0
fi

missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "error: not root and no sudo; install these packages, then run again: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "installing: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}"
