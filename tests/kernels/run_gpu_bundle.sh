#!/usr/bin/env bash
# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
#
# run_gpu_bundle.sh OUT [--sanitize]: runs every GPU test and bench of the bundle this script lies in,
# offline. It writes into the folder OUT:
#   junit.xml      every test case, and every program: one that crashed or was skipped says so
#   summary.csv    one line per program: result, test cases, failures, seconds
#   device.csv     the GPU, its driver, and the commit of the bundle
#   *.csv          what tests and benches measured
#   self_test.json what kvplan kernels --self-test --json writes
#   log.txt        everything that was printed
# With --sanitize it runs the tests with the tag [sanitize] under compute-sanitizer too; without that
# tool it fails. Test cases that this GPU cannot run are skipped in junit.xml and in the last line.
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
failed=0 ran=0 skipped=0 programs=0 bad=0
skipped_cases=0
# mark_skipped JUNIT OUTPUT: test cases that OUTPUT says were skipped become so in the document: the
# Catch2 of the programs may know none.
mark_skipped() {
  local name
  while IFS= read -r name; do
    skipped_cases=$((skipped_cases + 1))
    [[ -s $1 ]] || continue
    name=$(sed -e 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g; s/"/\&quot;/g' -e 's/[][\/.*^$&]/\\&/g' <<<"$name")
    sed -i -E "/ name=\"$(sed 's/[+?(){}|]/\\&/g' <<<"$name")\"/{/<skipped/!s!/>!><skipped/></testcase>!}" "$1"
  done < <(sed -n 's/^skipped test case: \(.*\): [^:]*$/\1/p' "$2")
}
# finish NAME CODE SECONDS [JUNIT]: one line of the summary, one entry of the JUnit document. A test
# program that says it passed and has no document with test cases has tested nothing.
finish() {
  local name=$1 code=$2 seconds=$3 junit=${4:-} result cases=0 failures=0 inside=
  if [[ -s $junit ]]; then
    cases=$(grep -c '<testcase ' "$junit")
    failures=$(grep -cE '<(failure|error)[ >/]' "$junit")
  fi
  if ((code == 0)) && { [[ -n $junit ]] && ((cases == 0)) || ((failures > 0)); }; then
    echo "$name ended with 0, with $cases test cases and $failures failures" >>"$log"
    code=1
  fi
  case $code in
    0) result=passed ran=$((ran + 1)) ;;
    77) result=skipped skipped=$((skipped + 1)) inside='<skipped/>' ;;
    *) result="failed ($code)" failed=1 ran=$((ran + 1)) bad=$((bad + 1))
      inside="<failure message=\"ended with $code: see log.txt\"/>" ;;
  esac
  programs=$((programs + 1))
  echo "<testcase classname=\"program\" name=\"$name\" time=\"$seconds\">$inside</testcase>" \
    >>"$work/programs.txt"
  echo "$name,$result,$cases,$failures,$seconds" | tee -a "$out/summary.csv" "$log"
}

for program in "$bundle"/bin/gpu_*; do
  name=$(basename "$program")
  [[ $name == *_bench ]] && continue
  echo "== $name" >>"$log"
  start=$SECONDS
  "$program" --durations yes -r junit -o "$work/$name.xml" >"$work/output.txt" 2>&1
  code=$?
  cat "$work/output.txt" >>"$log"
  mark_skipped "$work/$name.xml" "$work/output.txt"
  finish "$name" "$code" $((SECONDS - start)) "$work/$name.xml"
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

echo "== self_test" >>"$log"
start=$SECONDS
"$bundle/bin/kvplan-gpu-verify" --self-test --json >"$out/self_test.json" 2>>"$log"
code=$?
cat "$out/self_test.json" >>"$log"
# Without a GPU the tests have said so; where there is one, not to be run is no way to pass.
((code == 77 && ran > 0)) && code=1
finish self_test "$code" $((SECONDS - start))

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

if [[ $sanitize == --sanitize ]] && ((ran > 0)) && ! command -v compute-sanitizer >/dev/null; then
  echo "error: --sanitize was asked for, and compute-sanitizer is not in PATH: install it, or run" \
    "without --sanitize" | tee -a "$log" >&2
  finish sanitize 1 0
elif [[ $sanitize == --sanitize ]]; then
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
        # Its measurements would replace those of the tests themselves.
        env -u KVPOOL_GPU_OUT compute-sanitizer --tool "$tool" --error-exitcode 9 \
          "$program" '[sanitize]' >"$work/sanitizer.txt" 2>&1
        code=$?
        cat "$work/sanitizer.txt" >>"$log"
        # Where the tool cannot attach to the program it may run it unwatched.
        if ((code == 0)) && ! grep -qE '(ERROR|RACECHECK) SUMMARY: 0 ' "$work/sanitizer.txt"; then
          echo "compute-sanitizer gave no summary without errors" >>"$log"
          code=1
        fi
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
    # That of a program that crashed may have no end; the program's own entry says what happened.
    [[ -s $junit ]] && grep -q '^</testsuites>' "$junit" &&
      sed -e '/^<?xml/d' -e '/^<\/\?testsuites>/d' "$junit"
  done
  echo "<testsuite name=\"gpu_bundle\" tests=\"$programs\" failures=\"$bad\" errors=\"0\"" \
    "skipped=\"$skipped\">"
  cat "$work/programs.txt"
  echo '</testsuite>'
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
echo "all passed, $skipped skipped, and $skipped_cases test cases"
