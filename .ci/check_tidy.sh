#!/usr/bin/env bash
# clang-tidy-19 on the .cpp files that changed since the merge base with the main branch (on the
# main branch: since the commit before), or with --all on every .cpp file. A changed header counts
# as its source of the same name. Without --all it stops to begin new files after
# KVPOOL_TIDY_SECONDS (480) and says which were left.
set -euo pipefail
cd "$(dirname "$0")/.."
source .ci/sources.sh

jobs=${KVPOOL_JOBS:-$(nproc)}
seconds=${KVPOOL_TIDY_SECONDS:-480}
command -v clang-tidy-19 >/dev/null || { echo "error: clang-tidy-19 is missing" >&2; exit 1; }

changed_since() {
  git diff --name-only --diff-filter=d "$1" -- '*.cpp' '*.hpp'
  git ls-files --others --exclude-standard -- '*.cpp' '*.hpp'
}

select_files() {
  local base=""
  if [[ ${1:-} != --all ]] && git rev-parse --verify -q HEAD >/dev/null; then
    local main
    for main in origin/main main; do
      if git rev-parse --verify -q "$main" >/dev/null &&
        [[ $(git rev-parse "$main") != $(git rev-parse HEAD) ]]; then
        base=$(git merge-base "$main" HEAD || true)
        [[ -z $base ]] || break
      fi
    done
    if [[ -z $base || $base == $(git rev-parse HEAD) ]]; then
      base=$(git rev-parse --verify -q HEAD~1 || true)
    fi
  fi
  if [[ -z $base ]]; then
    sources cpp
    return
  fi
  local file
  changed_since "$base" | sort -u | while read -r file; do
    case "$file" in
      *.cpp) echo "$file" ;;
      libkvpool/include/kvpool/*.hpp)
        file=${file#libkvpool/include/kvpool/}
        [[ -e libkvpool/src/${file%.hpp}.cpp ]] && echo "libkvpool/src/${file%.hpp}.cpp" ;;
      *.hpp) [[ -e ${file%.hpp}.cpp ]] && echo "${file%.hpp}.cpp" ;;
    esac
  done | sort -u
}

cmake --preset tidy >/dev/null
database=build/tidy/compile_commands.json
mapfile -t selected < <(select_files "${1:-}")
# The library first: where time is short, its files matter most.
files=() absent=()
for folder in libkvpool planner_cli examples benchmarks tests ""; do
  for file in "${selected[@]}"; do
    case "$folder" in
      "") [[ $file =~ ^(libkvpool|planner_cli|examples|benchmarks|tests)/ ]] && continue ;;
      *) [[ $file == "$folder"/* ]] || continue ;;
    esac
    if grep -qF "/$file\"" "$database"; then files+=("$file"); else absent+=("$file"); fi
  done
done
# These are compiled by a test of their own, not by the project's build.
for file in "${absent[@]}"; do echo "tidy: not in the build, not checked: $file"; done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export work seconds database
[[ ${1:-} == --all ]] && seconds=1000000
start=$(date +%s) && export start
check_one() {
  if (($(date +%s) - start >= seconds)); then
    echo "$1" >>"$work/left"
  elif ! clang-tidy-19 --quiet -p build/tidy "$1" >"$work/out.$$" 2>/dev/null; then
    echo "$1" >>"$work/failed"
    cat "$work/out.$$"
  else
    echo "$1" >>"$work/clean"
  fi
}
export -f check_one
# Nothing selected (a commit of documents only) is no file, not one empty name.
((${#files[@]} == 0)) || printf '%s\0' "${files[@]}" | xargs -0 -r -n 1 -P "$jobs" bash -c 'check_one "$1"' _

count() { if [[ -e $work/$1 ]]; then wc -l <"$work/$1"; else echo 0; fi; }
[[ -e $work/left ]] && sed 's/^/tidy: no time left, not checked: /' "$work/left"
[[ -e $work/failed ]] && sed 's/^/tidy: failed: /' "$work/failed"
echo "tidy: $(count clean) clean, $(count failed) failed, $(count left) not checked"
# Files selected, but none checked, would be a check that cannot fail.
[[ ! -e $work/failed ]] && { [[ ${#files[@]} -eq 0 ]] || [[ -e $work/clean ]]; }
