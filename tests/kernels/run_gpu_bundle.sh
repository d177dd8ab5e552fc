#!/usr/bin/env bash
# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
#
# run_gpu_bundle.sh OUT [--sanitize]: runs every GPU test and bench of the bundle this script lies in,
# offline. It writes into the folder OUT:
#   junit.xml      every test case
#   summary.csv    one line per program: result, test cases, failures, seconds
#   device.csv     the GPU, its driver, and the commit of the bundle
#   *.csv          what tests and benches measured
#   log.txt        everything that was printed
# With --sanitize it runs the tests with the tag [sanitize] under compute-sanitizer too,
# where that is installed.
#
# Exit code: 0 all passed, 1 something failed, 2 wrong command line, 77 no GPU: nothing was run.
set -uo pipefail
if (($# < 1)) || [[ $1 == -* ]] || { (($# > 1)) && [[ $2 != --sanitize ]]; }; then
  echo "usage: run_gpu_bundle.sh OUT [--sanitize]" >&2
  exit 2
fi
bundle=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
sanitize=${2:-}
log=$out/log.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$log"
export KVPOOL_GPU_OUT=$out

echo "name,driver,memory,commit" >"$out/device.csv"
device=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null |
  head -1 | sed 's/, /,/g') || device=
echo "${device:-unknown,unknown,unknown},$(cat "$bundle/commit.txt")" >>"$out/device.csv"
cat "$out/device.csv" | tee -a "$log"

echo "program,result,cases,failures,seconds" >"$out/summary.csv"
failed=0 ran=0 skipped=0
# finish NAME CODE SECONDS [JUNIT]: one line of the summary.
finish() {
  local name=$1 code=$2 seconds=$3 junit=${4:-} result cases=0 failures=0
  if [[ -s $junit ]]; then
    cases=$(grep -c '<testcase ' "$junit")
    failures=$(grep -cE '<(failure|error) ' "$junit")
  fi
  case $code in
    0) result=passed ran=$((ran + 1)) ;;
    77) result=skipped skipped=$((skipped + 1)) ;;
    *) result="failed ($code)" failed=1 ran=$((ran + 1)) ;;
  esac
  echo "$name,$result,$cases,$failures,$seconds" | tee -a "$out/summary.csv" "$log"
}

for program in "$bundle"/bin/gpu_*; do
  name=$(basename "$program")
  [[ $name == *_bench ]] && continue
  echo "== $name" >>"$log"
  start=$SECONDS
  "$program" --durations yes -r junit -o "$work/$name.xml" >>"$log" 2>&1
  finish "$name" $? $((SECONDS - start)) "$work/$name.xml"
done

for program in "$bundle"/bin/gpu_*_bench; do
  [[ -x $program ]] || continue
  name=$(basename "$program")
  echo "== $name" >>"$log"
  start=$SECONDS
  "$program" >>"$log" 2>&1
  finish "$name" $? $((SECONDS - start))
done

if [[ -x $bundle/bin/kernels_bench ]]; then
  echo "== kernels_bench" >>"$log"
  start=$SECONDS
  "$bundle/bin/kernels_bench" --csv "$out/kernels_bench.csv" >>"$log" 2>&1
  finish kernels_bench $? $((SECONDS - start))
fi

for plan in "$bundle"/plans/*.json; do
  name="verify_$(basename "$plan" .json)"
  echo "== $name" >>"$log"
  start=$SECONDS
  "$bundle/bin/kvplan-gpu-verify" "$plan" >>"$log" 2>&1
  code=$?
  # Without a GPU the tests have said so.
  ((code == 4 && ran == 0)) && code=77
  finish "$name" "$code" $((SECONDS - start))
done

if [[ $sanitize == --sanitize ]]; then
  checked=0
  for program in "$bundle"/bin/gpu_*; do
    name=$(basename "$program")
    [[ $name == *_bench ]] && continue
    matrix=$("$program" --list-test-names-only '[sanitize]' | grep -c .)
    ((matrix == 0)) && continue
    checked=$((checked + matrix))
    for tool in memcheck racecheck initcheck synccheck; do
      echo "== compute-sanitizer $tool $name" >>"$log"
      start=$SECONDS code=77
      if command -v compute-sanitizer >/dev/null; then
        compute-sanitizer --tool "$tool" --error-exitcode 9 "$program" '[sanitize]' >>"$log" 2>&1
        code=$?
      fi
      finish "${tool}_$name" "$code" $((SECONDS - start))
    done
  done
  # A matrix without tests would be a check that cannot fail.
  ((checked == 0)) && finish sanitize 1 0
fi

# One document out of each program's.
{
  echo '<?xml version="1.0" encoding="UTF-8"?>'
  echo '<testsuites>'
  for junit in "$work"/*.xml; do
    [[ -s $junit ]] && sed -e '/^<?xml/d' -e '/^<\/\?testsuites>/d' "$junit"
  done
  echo '</testsuites>'
} >"$out/junit.xml"

if ((failed)); then
  echo "some failed: see $out/log.txt and $out/junit.xml"
  exit 1
fi
if ((ran == 0)); then
  echo "no GPU: nothing was run"
  exit 77
fi
echo "all passed, $skipped skipped"
