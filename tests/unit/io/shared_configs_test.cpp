// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
// What real configs parse to, where a collection of them lies beside the source tree. The strings
// were derived from the rules independently of the reader; compact_model.hpp explains them.
#include <kvpool/io/model_config_io.hpp>

#include "compact_model.hpp"
#include "support/catch.hpp"

#include <filesystem>
#include <map>
#include <set>
#include <string>

namespace kvpool {
namespace {

const std::map<std::string, std::string> kExpected{
    {"MiniMaxAI--MiniMax-M2.5.json", "62xGQA8x128 | q48 max196608 mtp3xGQA8x128"},
    {"MiniMaxAI--MiniMax-M2.7.json", "62xGQA8x128 | q48 bf16 max204800 mtp3xGQA8x128"},
    {"Qwen--Qwen2.5-32B-Instruct.json", "64xGQA8x128 | q40 bf16 max131072"},
    {"Qwen--Qwen2.5-7B-Instruct.json", "28xGQA4x128 | q28 bf16 max32768"},
    {"Qwen--Qwen3-0.6B.json", "28xGQA8x128 | q16 bf16 max40960"},
    {"Qwen--Qwen3-1.7B.json", "28xGQA8x128 | q16 bf16 max40960"},
    {"Qwen--Qwen3-14B.json", "40xGQA8x128 | q40 bf16 max40960"},
    {"Qwen--Qwen3-235B-A22B-FP8.json", "94xGQA4x128 | q64 bf16 max40960"},
    {"Qwen--Qwen3-235B-A22B.json", "94xGQA4x128 | q64 bf16 max40960"},
    {"Qwen--Qwen3-30B-A3B-FP8.json", "48xGQA4x128 | q32 bf16 max40960"},
    {"Qwen--Qwen3-30B-A3B.json", "48xGQA4x128 | q32 bf16 max40960"},
    {"Qwen--Qwen3-32B-FP8-Static-PerTensor.json", "64xGQA8x128 | q64 bf16 max40960 kv:fp8_e4m3"},
    {"Qwen--Qwen3-32B-FP8.json", "64xGQA8x128 | q64 bf16 max40960"},
    {"Qwen--Qwen3-32B.json", "64xGQA8x128 | q64 bf16 max40960"},
    {"Qwen--Qwen3-8B.json", "36xGQA8x128 | q32 bf16 max40960"},
    {"Qwen--Qwen3-Coder-480B-A35B-Instruct.json", "62xGQA8x128 | q96 bf16 max262144"},
    {"Qwen--Qwen3-VL-235B-A22B-Instruct.json", "94xGQA4x128 | q64 bf16 max262144"},
    {"Qwen--Qwen3-VL-2B-Instruct.json", "28xGQA8x128 | q16 bf16 max262144"},
    {"Qwen--Qwen3-VL-30B-A3B-Instruct.json", "48xGQA4x128 | q32 bf16 max262144"},
    {"Qwen--Qwen3-VL-32B-Instruct.json", "64xGQA8x128 | q64 bf16 max262144"},
    {"Qwen--Qwen3-VL-32B-Thinking.json", "64xGQA8x128 | q64 bf16 max262144"},
    {"Qwen--Qwen3-VL-4B-Instruct.json", "36xGQA8x128 | q32 bf16 max262144"},
    {"Qwen--Qwen3-VL-8B-Instruct.json", "36xGQA8x128 | q32 bf16 max262144"},
    {"Qwen--Qwen3.5-122B-A10B.json",
     "36xGDN(C12288 K4 M1048576 H64 fp32) 12xGQA2x256 | q32 bf16 max262144 mtp1xGQA2x256"},
    {"Qwen--Qwen3.5-27B.json",
     "48xGDN(C10240 K4 M786432 H48 fp32) 16xGQA4x256 | q24 bf16 max262144 mtp1xGQA4x256"},
    {"Qwen--Qwen3.5-35B-A3B.json",
     "30xGDN(C8192 K4 M524288 H32 fp32) 10xGQA2x256 | q16 bf16 max262144 mtp1xGQA2x256"},
    {"Qwen--Qwen3.5-397B-A17B.json",
     "45xGDN(C12288 K4 M1048576 H64 fp32) 15xGQA2x256 | q32 bf16 max262144 mtp1xGQA2x256"},
    {"Qwen--Qwen3.5-9B.json",
     "24xGDN(C8192 K4 M524288 H32 fp32) 8xGQA4x256 | q16 bf16 max262144 mtp1xGQA4x256"},
    {"RedHatAI--Llama-4-Scout-17B-16E-Instruct-FP8-dynamic.json",
     "36xGQA8x128c8192 12xGQA8x128 | q40 bf16 max10485760"},
    {"XiaomiMiMo--MiMo-7B-Base.json", "36xGQA8x128 | q32 bf16 max32768 mtp1xGQA8x128"},
    {"XiaomiMiMo--MiMo-V2-Flash.json", "9xGQA4x192/128 39xGQA8x192/128w128 | q64 bf16 max262144"},
    {"codellama--CodeLlama-34b-Instruct-hf.json", "48xGQA8x128 | q64 bf16 max16384"},
    {"configs_min/LiquidAI--LFM2-1.2B.json",
     "10xconv(C2048 K3 M0 H0) 6xGQA8x64 | q32 bf16 max128000"},
    {"configs_min/Qwen--Qwen1.5-7B.json", "32xGQA32x128 | q32 bf16 max32768"},
    {"configs_min/Qwen--Qwen2.5-0.5B.json", "24xGQA2x64 | q14 bf16 max32768"},
    {"configs_min/Qwen--Qwen2.5-1.5B.json", "28xGQA2x128 | q12 bf16 max131072"},
    {"configs_min/Qwen--Qwen3.5-4B.json",
     "24xGDN(C8192 K4 M524288 H32 fp32) 8xGQA4x256 | q16 bf16 max262144 mtp1xGQA4x256"},
    {"configs_min/TinyLlama--TinyLlama-1.1B-Chat-v1.0.json", "22xGQA4x64 | q32 bf16 max2048"},
    {"configs_min/deepseek-ai--DeepSeek-V2.5.json", "60xMLA512+64 | q128 bf16 max163840"},
    {"configs_min/drafts/dflash-5-full.json", "5xGQA8x128 | q32 bf16"},
    {"configs_min/drafts/dflash-6-full.json", "6xGQA8x128 | q32 bf16"},
    {"configs_min/drafts/dflash2-5-sliding-2048.json", "5xGQA8x128w2048 | q32 bf16"},
    {"configs_min/drafts/dspark-5-full-96x16x64.json",
     "5xGQA16x64 | q96 bf16 max1048576 drafter:dspark/7"},
    {"configs_min/drafts/dspark-mla-5x576.json",
     "5xMLA512+64 | q96 bf16 max1048576 drafter:dspark/7"},
    {"configs_min/facebook--opt-125m.json", "12xGQA12x64 | q12 fp16 max2048"},
    {"configs_min/google--gemma-4-E4B-it.json",
     "20xGQA2x256w512 4xGQA2x512 15xshared:22 3xshared:23 | q8 bf16 max131072"},
    {"configs_min/meta-llama--Llama-2-13b-hf.json", "40xGQA40x128 | q40 fp16 max4096"},
    {"configs_min/microsoft--Phi-3-mini-4k-instruct.json", "32xGQA32x96 | q32 bf16 max4096"},
    {"configs_min/nvidia--Llama-3_1-Nemotron-Ultra-253B-v1.json",
     "64xGQA8x128 98xnone | q128 bf16 max131072"},
    {"configs_min/openai--whisper-large-v3.json", "32xGQA20x64+GQA20x64x1500 | q20 fp16 max448"},
    {"configs_min/synthetic/1-full-2x64.json", "1xGQA2x64 | q2 bf16"},
    {"configs_min/synthetic/1-window-2x64.json", "1xGQA2x64w128 | q2 bf16"},
    {"configs_min/synthetic/10-full-16-window-8x64.json", "10xGQA8x64 16xGQA8x64w128 | q8 bf16"},
    {"configs_min/synthetic/10-full-52-window-16x128.json",
     "52xGQA16x128w1024 10xGQA16x128 | q16 bf16"},
    {"configs_min/synthetic/12-full-12-window-8x64.json", "12xGQA8x64w128 12xGQA8x64 | q8 bf16"},
    {"configs_min/synthetic/20-full-30-window-8x64.json", "20xGQA8x64 30xGQA8x64w128 | q8 bf16"},
    {"configs_min/synthetic/32-full-8x128.json", "32xGQA8x128 | q8 bf16"},
    {"configs_min/synthetic/61-latent-576.json", "61xMLA512+64 | q128 bf16"},
    {"deepseek-ai--DeepSeek-R1.json", "61xMLA512+64 | q128 bf16 max163840 mtp1xMLA512+64"},
    {"deepseek-ai--DeepSeek-V2-Lite.json", "27xMLA512+64 | q16 bf16 max163840"},
    {"deepseek-ai--DeepSeek-V3.2.json",
     "61xMLA512+64+I128 | q128 bf16 max163840 mtp1xMLA512+64+I128"},
    {"deepseek-ai--DeepSeek-V3.json", "61xMLA512+64 | q128 bf16 max163840 mtp1xMLA512+64"},
    {"deepseek-ai--DeepSeek-V4-Flash.json", "refused: compress_ratios"},
    {"drafts/SpecForge--deepseek-v2-lite-eagle3.json",
     "1xGQA16x128 | q16 bf16 max163840 drafter:eagle3/0"},
    {"drafts/SpecForge--deepseek-v3-671b-eagle3.json",
     "1xGQA8x128 | q56 fp16 max163840 drafter:eagle3/0"},
    {"drafts/SpecForge--gemma3-1b-eagle3.json", "1xGQA1x256 | q4 bf16 max32768 drafter:eagle3/0"},
    {"drafts/SpecForge--gpt-oss-20B-eagle3.json", "1xGQA8x64 | q64 bf16 max4096 drafter:eagle3/0"},
    {"drafts/SpecForge--kimi-k3-dspark.json", "5xGQA16x64 | q64 bf16 max65536 drafter:dspark/7"},
    {"drafts/SpecForge--ling-flash-2.0-eagle3.json",
     "1xGQA8x128 | q32 bf16 max32768 drafter:eagle3/0"},
    {"drafts/SpecForge--llama3-70B-ealge3.json", "1xGQA8x128 | q64 fp16 max4096 drafter:eagle3/0"},
    {"drafts/SpecForge--llama3-8B-eagle3.json", "1xGQA8x128 | q32 fp16 max2048 drafter:eagle3/0"},
    {"drafts/SpecForge--llama4-scout-17B-16E-eagle3.json",
     "1xGQA8x128 | q40 bf16 max2048 drafter:eagle3/0"},
    {"drafts/SpecForge--longcat-flash-eagle3.json",
     "1xGQA16x128 | q64 bf16 max131072 drafter:eagle3/0"},
    {"drafts/SpecForge--phi4-eagle3.json", "1xGQA10x128 | q40 bf16 max16384 drafter:eagle3/0"},
    {"drafts/SpecForge--qwen2-5-vl-7b-eagle3.json",
     "1xGQA4x128 | q28 bf16 max8192 drafter:eagle3/0"},
    {"drafts/SpecForge--qwen2.5-0.5b-dflash.json",
     "5xGQA2x64 | q14 bf16 max32768 drafter:dflash/16"},
    {"drafts/SpecForge--qwen2.5-0.5b-eagle3.json",
     "1xGQA2x64 | q14 bf16 max32768 drafter:eagle3/0"},
    {"drafts/SpecForge--qwen2.5-7b-eagle3.json", "1xGQA4x128 | q28 bf16 max32768 drafter:eagle3/0"},
    {"drafts/SpecForge--qwen2.5-vl-32b-eagle3.json",
     "1xGQA4x128 | q28 bf16 max8192 drafter:eagle3/0"},
    {"drafts/SpecForge--qwen3-235B-A22B-eagle3.json",
     "1xGQA4x128 | q64 bf16 max40960 drafter:eagle3/0"},
    {"drafts/SpecForge--qwen3-30B-A3B-eagle3.1.json",
     "1xGQA4x128 | q32 bf16 max2048 drafter:eagle3/0"},
    {"drafts/SpecForge--qwen3-30B-A3B-eagle3.json",
     "1xGQA4x128 | q32 bf16 max2048 drafter:eagle3/0"},
    {"drafts/SpecForge--qwen3-32b-eagle3.json", "1xGQA8x128 | q64 bf16 max40960 drafter:eagle3/0"},
    {"drafts/SpecForge--qwen3-4b-dflash.json", "5xGQA8x128 | q32 bf16 max40960 drafter:dflash/16"},
    {"drafts/SpecForge--qwen3-4b-dspark.json", "5xGQA8x128 | q32 bf16 max40960 drafter:dspark/7"},
    {"drafts/SpecForge--qwen3-4b-eagle3.json", "1xGQA8x128 | q32 bf16 max40960 drafter:eagle3/0"},
    {"drafts/SpecForge--qwen3-8b-dflash.json", "5xGQA8x128 | q32 bf16 max40960 drafter:dflash/16"},
    {"drafts/SpecForge--qwen3-8b-dspark.json", "5xGQA8x128 | q32 bf16 max40960 drafter:dspark/7"},
    {"drafts/SpecForge--qwen3-8b-eagle3.json", "1xGQA8x128 | q32 bf16 max40960 drafter:eagle3/0"},
    {"drafts/SpecForge--qwen3-8b-peagle.json", "4xGQA8x128 | q32 bf16 max40960 drafter:peagle/0"},
    {"drafts/SpecForge--qwen3-coder-30B-A3B-instruct-eagle3.json",
     "1xGQA4x128 | q32 bf16 max2048 drafter:eagle3/0"},
    {"drafts/SpecForge--qwen3-coder-480B-A35B-instruct-eagle3.json",
     "1xGQA8x128 | q96 bf16 max262144 drafter:eagle3/0"},
    {"drafts/SpecForge--qwen3-coder-next-eagle3.json",
     "1xGQA4x128 | q16 bf16 max4096 drafter:eagle3/0"},
    {"drafts/SpecForge--qwen3-next-80b-a3b-eagle3.json",
     "1xGQA2x256 | q16 bf16 max262144 drafter:eagle3/0"},
    {"drafts/SpecForge--qwen3.5-35b-a3b-eagle3.json",
     "1xGQA2x256 | q16 bf16 max262144 drafter:eagle3/0"},
    {"drafts/SpecForge--qwen3.5-4b-dflash.json",
     "5xGQA8x128 | q32 bf16 max262144 drafter:dflash/16"},
    {"drafts/SpecForge--qwen3.5-4b-domino.json",
     "5xGQA8x128 | q32 bf16 max262144 drafter:domino/16"},
    {"drafts/SpecForge--qwen3.6-27b-dflash.json",
     "4xGQA8x128w2048 1xGQA8x128 | q32 bf16 max262144 drafter:dflash/16"},
    {"drafts/SpecForge--qwen3.6-27b-domino-full-attention.json",
     "5xGQA8x128 | q32 bf16 max262144 drafter:domino/16"},
    {"drafts/SpecForge--qwen3.6-27b-dspark.json",
     "5xGQA8x128 | q32 bf16 max262144 drafter:dspark/16"},
    {"drafts/SpecForge--qwq-32B-eagle3.json", "1xGQA8x128 | q40 bf16 max40960 drafter:eagle3/0"},
    {"google--gemma-3-27b-it.json", "52xGQA16x128w1024 10xGQA16x128 | q32 bf16 max131072"},
    {"google--gemma-4-26B-A4B.json", "25xGQA8x256w1024 5xGQA2x512 | q16 bf16 max262144"},
    {"meta-llama--Llama-2-7b-hf.json", "32xGQA32x128 | q32 fp16 max4096"},
    {"meta-llama--Llama-3.1-70B-Instruct.json", "80xGQA8x128 | q64 bf16 max131072"},
    {"meta-llama--Llama-3.1-8B-Instruct.json", "32xGQA8x128 | q32 bf16 max131072"},
    {"meta-llama--Llama-3.2-1B-Instruct.json", "16xGQA8x64 | q32 bf16 max131072"},
    {"meta-llama--Llama-3.2-3B-Instruct.json", "28xGQA8x128 | q24 bf16 max131072"},
    {"meta-llama--Llama-4-Maverick-17B-128E-Instruct.json",
     "36xGQA8x128c8192 12xGQA8x128 | q40 bf16 max1048576"},
    {"meta-llama--Llama-4-Scout-17B-16E-Instruct.json",
     "36xGQA8x128c8192 12xGQA8x128 | q40 bf16 max10485760"},
    {"meta-llama--Meta-Llama-3.1-405B.json", "126xGQA8x128 | q128 bf16 max131072"},
    {"meta-llama--Meta-Llama-3.1-70B.json", "80xGQA8x128 | q64 bf16 max131072"},
    {"meta-llama--Meta-Llama-3.1-8B.json", "32xGQA8x128 | q32 bf16 max131072"},
    {"mistralai--Devstral-Small-2-24B-Instruct-2512.json", "40xGQA8x128 | q32 bf16 max393216"},
    {"mistralai--Mistral-7B-Instruct-v0.3.json", "32xGQA8x128 | q32 bf16 max32768"},
    {"mistralai--Mistral-Nemo-Instruct-2407.json", "40xGQA8x128 | q32 bf16 max131072"},
    {"mistralai--Mixtral-8x22B-v0.1.json", "56xGQA8x128 | q48 bf16 max65536"},
    {"mistralai--Mixtral-8x7B-v0.1.json", "32xGQA8x128 | q32 bf16 max32768"},
    {"moonshotai--Kimi-K2-Instruct.json", "61xMLA512+64 | q64 bf16 max131072"},
    {"moonshotai--Kimi-K2.5.json", "61xMLA512+64 | q64 bf16 max262144"},
    {"moonshotai--Kimi-K3.json",
     "69xKDA(C36864 K4 M1572864 H96) 24xMLA512+64 | q96 bf16 max1048576"},
    {"nvidia--DeepSeek-V3.1-NVFP4.json", "61xMLA512+64 | q128 bf16 max163840 mtp1xMLA512+64"},
    {"nvidia--DeepSeek-V3.2-NVFP4.json",
     "61xMLA512+64+I128 | q128 bf16 max163840 mtp1xMLA512+64+I128"},
    {"nvidia--DeepSeek-V4-Flash-NVFP4.json", "refused: compress_ratios"},
    {"nvidia--GLM-5-NVFP4.json", "78xMLA512+64+I128 | q64 bf16 max202752 mtp1xMLA512+64+I128"},
    {"nvidia--GLM-5.1-NVFP4.json",
     "78xMLA512+64+I128 | q64 bf16 max202752 mtp1xMLA512+64+I128 kv:fp8_e4m3"},
    {"nvidia--GLM-5.2-NVFP4.json",
     "21xMLA512+64+I128 57xMLA512+64 | q64 bf16 max1048576 mtp1xMLA512+64+I128 kv:fp8_e4m3"},
    {"nvidia--Gemma-4-26B-A4B-NVFP4.json",
     "25xGQA8x256w1024 5xGQA2x512 | q16 bf16 max262144 kv:fp8_e4m3"},
    {"nvidia--Kimi-K2.5-NVFP4.json", "61xMLA512+64 | q64 bf16 max262144 kv:fp8_e4m3"},
    {"nvidia--Kimi-K2.6-NVFP4.json", "61xMLA512+64 | q64 bf16 max262144 kv:fp8_e4m3"},
    {"nvidia--Kimi-K2.7-Code-NVFP4.json", "61xMLA512+64 | q64 bf16 max262144 kv:fp8_e4m3"},
    {"nvidia--Llama-3.1-70B-Instruct-FP8.json", "80xGQA8x128 | q64 bf16 max131072"},
    {"nvidia--MiniMax-M2.5-NVFP4.json",
     "62xGQA8x128 | q48 bf16 max196608 mtp3xGQA8x128 kv:fp8_e4m3"},
    {"nvidia--MiniMax-M2.7-NVFP4.json",
     "62xGQA8x128 | q48 bf16 max196608 mtp3xGQA8x128 kv:fp8_e4m3"},
    {"nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.json",
     "23xM2(C6144 K4 M524288 H64 G8x256 fp32) 23xnone 6xGQA2x128 | q32 bf16 max262144"},
    {"nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4.json",
     "23xM2(C6144 K4 M524288 H64 G8x256 fp32) 23xnone 6xGQA2x128 | q32 bf16 max262144"},
    {"nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8.json",
     "40xM2(C10240 K4 M1048576 H128 G8x256 fp32) 40xnone 8xGQA2x128 | q32 bf16 max262144 "
     "mtp1xGQA2x128"},
    {"nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4.json",
     "40xM2(C10240 K4 M1048576 H128 G8x256 fp32) 40xnone 8xGQA2x128 | q32 bf16 max262144 "
     "mtp1xGQA2x128"},
    {"nvidia--NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4.json",
     "23xM2(C6144 K4 M524288 H64 G8x256 fp32) 23xnone 6xGQA2x128 | q32 bf16 max1048576 "
     "mtp1xGQA2x128"},
    {"nvidia--Nemotron-H-56B-Base-8K.json",
     "54xM2(C20480 K4 M4194304 H256 G8x512) 54xnone 10xGQA8x128 | q64 bf16 max8192"},
    {"nvidia--Qwen3-235B-A22B-NVFP4.json", "94xGQA4x128 | q64 bf16 max40960"},
    {"nvidia--Qwen3.5-122B-A10B-NVFP4.json",
     "36xGDN(C12288 K4 M1048576 H64 fp32) 12xGQA2x256 | q32 bf16 max262144 mtp1xGQA2x256 "
     "kv:fp8_e4m3"},
    {"nvidia--Qwen3.5-397B-A17B-NVFP4.json",
     "45xGDN(C12288 K4 M1048576 H64 fp32) 15xGQA2x256 | q32 bf16 max262144 mtp1xGQA2x256 "
     "kv:fp8_e4m3"},
    {"nvidia--Qwen3.6-27B-NVFP4.json",
     "48xGDN(C10240 K4 M786432 H48 fp32) 16xGQA4x256 | q24 bf16 max262144 mtp1xGQA4x256 "
     "kv:fp8_e4m3"},
    {"nvidia--Qwen3.6-35B-A3B-NVFP4.json",
     "30xGDN(C8192 K4 M524288 H32 fp32) 10xGQA2x256 | q16 bf16 max262144 mtp1xGQA2x256"},
    {"openai--gpt-oss-120b.json", "18xGQA8x64w128 18xGQA8x64 | q64 max131072"},
    {"openai--gpt-oss-20b.json", "12xGQA8x64w128 12xGQA8x64 | q64 max131072"},
    {"sgl-project--DeepSeek-V4-Flash-FP8.json", "refused: compress_ratios"},
    {"zai-org--GLM-5-FP8.json", "78xMLA512+64+I128 | q64 bf16 max202752 mtp1xMLA512+64+I128"},
    {"zai-org--GLM-5.1-FP8.json", "78xMLA512+64+I128 | q64 bf16 max202752 mtp1xMLA512+64+I128"},
    {"zai-org--GLM-5.1.json", "78xMLA512+64+I128 | q64 bf16 max202752 mtp1xMLA512+64+I128"},
    {"zai-org--GLM-5.2-FP8.json",
     "21xMLA512+64+I128 57xMLA512+64 | q64 bf16 max1048576 mtp1xMLA512+64+I128"},
    {"zai-org--GLM-5.2.json",
     "21xMLA512+64+I128 57xMLA512+64 | q64 bf16 max1048576 mtp1xMLA512+64+I128"},
    {"zai-org--GLM-5.json", "78xMLA512+64+I128 | q64 bf16 max202752 mtp1xMLA512+64+I128"},
};

bool have_configs() {
  if (std::filesystem::is_directory(KVPOOL_SHARED_DIR)) {
    return true;
  }
  WARN("skipped: no configs at " << KVPOOL_SHARED_DIR);
  return false;
}

}  // namespace

TEST_CASE("every shared config parses to its layers or is refused by the right key") {
  if (!have_configs()) {
    return;
  }
  for (const auto& [name, expected] : kExpected) {
    INFO(name);
    CHECK(test::compact(io::read_model_config(std::string{KVPOOL_SHARED_DIR} + "/" + name)) ==
          expected);
  }
}

TEST_CASE("every shared config is in the table") {
  if (!have_configs()) {
    return;
  }
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{KVPOOL_SHARED_DIR}) {
    if (entry.path().extension() == ".json") {
      files.insert(std::filesystem::relative(entry.path(), KVPOOL_SHARED_DIR).generic_string());
    }
  }
  std::set<std::string> names;
  for (const auto& [name, expected] : kExpected) {
    names.insert(name);
  }
  CHECK(files == names);
}

}  // namespace kvpool
