#!/usr/bin/env bash
# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
#
# make_gpu_bundle.sh SOURCE_TREE BUNDLE_DIR KVPLAN PROGRAM...: fills BUNDLE_DIR and checks it. It has
# at most 40 MiB; its programs need the C library of GLIBC 2.34 or older and nothing else.
set -euo pipefail
source_tree=$1 bundle=$2 kvplan=$3
shift 3

rm -rf "$bundle"
mkdir -p "$bundle/bin" "$bundle/plans"
for program in "$@"; do
  strip -o "$bundle/bin/$(basename "$program")" "$program"
done
cp "$source_tree/tests/kernels/run_gpu_bundle.sh" "$bundle/"
chmod +x "$bundle/run_gpu_bundle.sh"

# Where the programs come from. A tree with changes says so.
commit=$(git -C "$source_tree" describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)
echo "$commit" >"$bundle/commit.txt"

# Plans for kvplan-gpu-verify: large ones, a target with its drafter, states.
configs=$source_tree/tests/data/configs
"$kvplan" plan "$configs/llama-3.1-8b.json" --kv-budget 100GiB --json >"$bundle/plans/llama_8b.json"
"$kvplan" plan "$configs/kimi-k3.json" --drafter "$configs/dspark-k3-96x16.json" --tp 16 \
  --page-size 64 --kv-budget 40GiB --max-num-seqs 4 --max-model-len 128k --json >"$bundle/plans/kimi_k3_dspark.json"
"$kvplan" plan "$configs/gemma-3-27b.json" --kv-budget 60GiB --page-size 32 --max-num-seqs 8 \
  --max-model-len 32k --json >"$bundle/plans/gemma_3_27b.json"

failed=0
kib=$(du -sk "$bundle" | cut -f1)
echo "$bundle: $kib KiB"
if ((kib > 40 * 1024)); then
  echo "error: more than 40 MiB" >&2
  failed=1
fi
for program in "$bundle"/bin/*; do
  needed=$(readelf -d "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
  foreign=$(grep -vE '^(libc|libm|libdl|librt|libpthread|ld-linux-x86-64)\.so' <<<"$needed" || true)
  if [[ -n $foreign ]]; then
    echo "error: $(basename "$program") needs" $foreign >&2
    failed=1
  fi
  glibc=$(readelf -V "$program" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
  if [[ $(printf '%s\nGLIBC_2.34\n' "$glibc" | sort -V | tail -1) != GLIBC_2.34 ]]; then
    echo "error: $(basename "$program") needs $glibc" >&2
    failed=1
  fi
  echo "  $(basename "$program"): $(($(stat -c %s "$program") / 1024)) KiB, $glibc"
done
exit "$failed"
