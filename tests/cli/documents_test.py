# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""What kvplan writes: JSON documents, reports, exit codes, and what they do not depend on."""

import json
import os
import pathlib
import re
import subprocess
import time
import unittest

import jsonschema

from kvplan_case import CONFIGS, DSPARK, KIMI, LLAMA, LLAMA_70B, SOURCE_DIR, KvplanCase

DEMO = [KIMI, "--drafter", DSPARK, "-tp", "16", "--gpu", "gb200", "--page-size", "64"]


class Documents(KvplanCase):
    def test_exit_0_1_and_3_give_one_document_and_nothing_else(self):
        for code, arguments in [(0, [LLAMA, "--gpu", "h200"]),
                                (1, [LLAMA_70B, "--gpu", "h100"]),
                                (3, [KIMI, "--gpu", "b200", "--kv-cache-dtype", "fp4_mla"]),
                                (3, [str(self.scratch / "none.json"), "--gpu", "h200"])]:
            with self.subTest(arguments=arguments):
                outcome = self.kvplan("plan", *arguments, "--json")
                self.assertEqual(outcome.code, code, outcome.err)
                document = outcome.document()
                self.assertEqual(document["schema"], "kvpool.plan/1")
                self.assertEqual(document["fits"], code == 0)
                if code < 3:
                    self.assertEqual(outcome.err, "")

    def test_documents_follow_the_published_schema(self):
        schema = json.loads((SOURCE_DIR / "docs/schema/kvpool.plan-1.schema.json").read_text())
        validator = jsonschema.validators.validator_for(schema)(schema)
        for arguments in [DEMO, [*DEMO, "--draft-page-size", "32"], [LLAMA, "--gpu", "h200"],
                          [LLAMA_70B, "--gpu", "h100"], [LLAMA, "--kv-budget", "1GiB"],
                          [str(CONFIGS / "gemma-3-27b.json"), "-pp", "4", "--gpu", "h200"],
                          [KIMI, "--gpu", "b200", "--kv-cache-dtype", "fp4_mla"],
                          [KIMI, "--gpu", "b200", "--kernel-set", "kvpool"],
                          [str(self.scratch / "none.json"), "--gpu", "h200"]]:
            with self.subTest(arguments=arguments):
                validator.validate(self.plan(*arguments))

    def test_a_refusal_says_what_is_accepted_and_what_is_missing(self):
        document = self.plan(KIMI, "--gpu", "b200", "--kv-cache-dtype", "fp4_mla")
        self.assertTrue(any(r["accepted"] and r["least_that_works"]
                            for r in document["refusals"]))
        document = self.plan(LLAMA_70B, "--gpu", "h100")
        self.assertTrue(any(r["missing_bytes"] > 0 for r in document["refusals"]))

    def test_an_input_error_names_file_and_message(self):
        path = self.write("broken.json", '{"model_type": "llama", ')
        outcome = self.kvplan("plan", path, "--gpu", "h200", "--json")
        self.assertEqual(outcome.code, 3)
        self.assertEqual(outcome.document()["error"]["file"], path)
        self.assertIn(path, outcome.err)

    def test_the_demo_keeps_the_draft_page_and_tells_what_32_would_lose(self):
        document = self.plan(*DEMO)
        self.assertTrue(document["fits"])
        draft = next(p for p in document["pools"] if p["role"] == "draft")
        self.assertEqual((draft["tokens_per_block"], draft["page_bytes"]), (64, 81920))
        lost = self.kvplan("plan", *DEMO, "--draft-page-size", "32")
        self.assertEqual(lost.code, 0, lost.err)
        self.assertRegex(lost.out, r"lost +k3_drafter_attn_qknorm: \+306 us per step")
        self.assertNotIn("lost", self.kvplan("plan", *DEMO).out)

    def test_a_pipe_from_plan_to_verify_agrees(self):
        plan = self.write("plan.json", self.kvplan("plan", *DEMO, "--json").raw)
        pools = self.plan(*DEMO)["pools"]
        address = 1 << 32
        allocations = []
        for pool in pools:
            allocations.append({"pool": pool["role"], "address": address, "bytes": pool["bytes"]})
            address += 1 << 40
        good = self.write("good.json", json.dumps(allocations))
        outcome = self.kvplan("verify", plan, "--allocations", good)
        self.assertEqual(outcome.code, 0, outcome.out + outcome.err)
        self.assertTrue(outcome.out.startswith("AGREES"))
        document = self.kvplan("verify", plan, "--allocations", good, "--json").document()
        self.assertEqual((document["schema"], document["agrees"]), ("kvpool.verify/1", True))

        allocations[1]["bytes"] //= 2
        bad = self.write("bad.json", json.dumps(allocations))
        outcome = self.kvplan("verify", plan, "--allocations", bad, "--json")
        self.assertEqual(outcome.code, 1, outcome.err)
        wrong = [p for p in outcome.document()["pools"] if not p["agrees"]]
        self.assertEqual([p["pool"] for p in wrong], ["draft"])
        self.assertEqual(wrong[0]["difference_bytes"],
                         wrong[0]["held_bytes"] - wrong[0]["charged_bytes"])
        self.assertTrue(self.kvplan("verify", plan, "--allocations", bad).out.startswith(
            "DISAGREES"))

    def test_verify_compares_the_asked_pipeline_stage(self):
        raw = self.kvplan("plan", str(CONFIGS / "gemma-3-27b.json"), "--pp", "3", "--gpu", "h200",
                          "--json").raw
        plan = self.write("plan.json", raw)
        ranks = json.loads(raw)["ranks"]
        self.assertEqual(len(ranks), 3)
        held = []
        for rank in ranks:
            bytes_of = {}
            for pool in rank["pools"]:
                bytes_of[pool["role"]] = bytes_of.get(pool["role"], 0) + pool["bytes"]
            held.append(self.write(f"held{rank['stage']}.json", json.dumps(
                [{"pool": role, "address": (i + 1) << 41, "bytes": size}
                 for i, (role, size) in enumerate(bytes_of.items())])))
        self.assertGreater(len({pathlib.Path(path).read_text() for path in held}), 1)
        for stage, path in enumerate(held):
            outcome = self.kvplan("verify", plan, "--allocations", path, "--stage", stage)
            self.assertEqual(outcome.code, 0, outcome.out + outcome.err)
            self.assertIn(f"stage {stage} of 0 to 2 was compared\n", outcome.out)
            document = self.kvplan("verify", plan, "--allocations", path, "--stage", stage,
                                   "--json").document()
            self.assertEqual((document["agrees"], document["stage"]), (True, stage))
        codes = {self.kvplan("verify", plan, "--allocations", path, "--stage", 0).code
                 for path in held}
        self.assertEqual(codes, {0, 1})
        outcome = self.kvplan("verify", plan, "--allocations", held[0])
        self.assertRegex(outcome.out, r"stage \d of 0 to 2 was compared, which holds the fewest "
                                      r"tokens; --stage N compares another")
        self.assert_usage(self.kvplan("verify", plan, "--allocations", held[0], "--stage", 3),
                          "there is no stage 3", "0 to 2")
        self.assert_usage(self.kvplan("verify", plan, "--allocations", held[0], "--stage", "x"),
                          "--stage")

    def test_verify_refuses_bad_files(self):
        plan = self.write("plan.json", self.kvplan("plan", LLAMA, "--gpu", "h200", "--json").raw)
        good = self.write("good.json", "[]")
        for first, second in [(plan, self.scratch / "none.json"), (self.scratch / "none.json", good),
                              (good, good), (plan, plan)]:
            outcome = self.kvplan("verify", first, "--allocations", second, "--json")
            self.assertEqual(outcome.code, 3, outcome.err)
            self.assertIn("error", outcome.document())

    def test_kernels_documents(self):
        document = self.kvplan("kernels", "--json").document()
        self.assertEqual(document["schema"], "kvpool.kernels/1")
        self.assertIn("k3_drafter_attn_qknorm", [row["name"] for row in document["rows"]])
        outcome = self.kvplan("kernels", *DEMO, "--json")
        self.assertEqual(outcome.code, 0, outcome.err)
        uses = {use["user"]: use for use in outcome.document()["uses"]}
        rows = {row["row"]: row for row in uses["dspark"]["rows"]}
        self.assertEqual((uses["target"]["query_heads"], uses["dspark"]["head_dim"]), (6, 64))
        self.assertTrue(rows["k3_drafter_attn_qknorm"]["runs"])
        self.assertFalse(rows["dspark_mla_trtllm_gen"]["runs"])
        self.assertIn("latent", rows["dspark_mla_trtllm_gen"]["why_not"])
        self.assertEqual(rows["k3_drafter_attn_qknorm"]["page"], "kept")
        error = self.kvplan("kernels", self.scratch / "none.json", "--json")
        self.assertEqual(error.code, 3)
        self.assertIn("message", error.document()["error"])


    def test_the_bundled_kernels_have_rows(self):
        rows = self.kvplan("kernels", "--json").document()["rows"]
        bundled = [row for row in rows if row["kernel_set"] == "kvpool"]
        self.assertEqual([row["name"] for row in bundled],
                         ["kvpool_append", "kvpool_simple_decode", "kvpool_simple_prefill",
                          "kvpool_simple_block", "kvpool_packed_decode", "kvpool_packed_block"])
        for row in bundled:
            packed = row["name"].startswith("kvpool_packed_")
            self.assertEqual((row["provider"], row["evidence"], row["accepts"], row["necessity"]),
                             ("kvpool", "tested_here", "multiples of 16" if packed else "any",
                              "preferred" if packed else "required"))
            self.assertEqual(row["limits"]["kv_dtypes"],
                             ["bf16", "fp16"] if packed else ["bf16", "fp16", "fp32"])
            if packed:
                self.assertEqual(row["cost_of_loss"]["unit"], "us_per_layer")
                self.assertIn("H200", row["cost_of_loss"]["conditions"])
        self.assertIn("kvpool_simple_block", self.kvplan("kernels").out)

    def test_the_kernel_set_kvpool_keeps_target_pages_and_the_draft_pool_follows(self):
        for page in (16, 32, 64, 128):
            with self.subTest(page=page):
                document = self.plan(KIMI, "--drafter", DSPARK, "--tp", "16", "--gpu", "h200",
                                     "--kernel-set", "kvpool", "--page-size", str(page))
                self.assertEqual(document["refusals"], [])
                pages = {p["role"]: p["tokens_per_block"] for p in document["pools"]}
                self.assertEqual((pages["target"], pages["draft"]), (page, page))
                ledger = {line["name"]: line for line in document["ledger"]}
                # The drafter's block: 7 tokens of 6 heads, in a tile of 48. Of 264 blocks two results of
                # 48 x (64 + 2) words, and four plans, in granules of 2 MiB.
                self.assertEqual(ledger["workspaces"]["bytes"], 4 * 2 ** 21)

    def test_the_kernel_set_kvpool_refuses_what_its_kernels_do_not_read(self):
        document = self.plan(LLAMA, "--gpu", "h200", "--kernel-set", "kvpool",
                             "--kv-cache-dtype", "fp8_e4m3")
        refusal = next(r for r in document["refusals"] if r["id"] == "kernel_set")
        self.assertIn("kvpool_append needs a bf16, fp16 or fp32 cache, this is fp8_e4m3",
                      refusal["what"])

    def test_the_kernel_set_kvpool_refuses_gpus_that_nothing_is_compiled_for(self):
        for gpu, architecture in (("a100-80", "sm_80"), ("b200", "sm_100")):
            document = self.plan(LLAMA, "--gpu", gpu, "--kernel-set", "kvpool")
            refusal = next(r for r in document["refusals"] if r["id"] == "kernel_set")
            self.assertIn(f"kvpool_append needs sm_90, this is {architecture}", refusal["what"])
        rows = self.kvplan("kernels", "--kernel-set", "kvpool", "--json").document()["rows"]
        self.assertEqual([row["limits"]["architectures"] for row in rows], [["sm_90"]] * len(rows))

    def test_kernel_rows_are_those_of_the_asked_set(self):
        everything = self.kvplan("kernels", "--json").document()["rows"]
        known = [row for row in everything if row["kernel_set"] != "kvpool"]
        self.assertEqual(self.kvplan("kernels", "--kernel-set", "exact", "--json").document()["rows"],
                         known)
        bundled = self.kvplan("kernels", "--kernel-set", "kvpool")
        self.assertEqual(bundled.code, 0, bundled.err)
        self.assertIn("kvpool_append", bundled.out)
        self.assertEqual(self.kvplan("kernels", "--kernel-set", "kvpool", "--json").document()[
            "rows"], [row for row in everything if row["kernel_set"] == "kvpool"])
        self.assertIn("kernel set exact (as trtllm", self.kvplan(
            "plan", LLAMA, "--gpu", "h200", "--kernel-set", "exact").out)

    def test_a_back_end_that_does_not_run_here_is_refused(self):
        drafter = self.write("dflash.json", pathlib.Path(DSPARK).read_text())
        outcome = self.kvplan("plan", KIMI, "--drafter", drafter, "--drafter-kind", "dflash", "-tp",
                              "16", "--gpu", "gb200", "--drafter-backend", "FA4", "--json")
        self.assertEqual(outcome.code, 3, outcome.err)
        refusal = next(r for r in outcome.document()["refusals"] if r["id"] == "drafter_backend")
        self.assertIn("dflash_fa4 needs sm_90, this is sm_100", refusal["what"])
        self.assertEqual(refusal["accepted"], ["TRTLLM", "VANILLA"])

    def test_the_headline_and_the_column_fit_say_what_planning_says(self):
        arguments = [KIMI, "-tp", "16", "--kv-budget", "20GiB", "--max-num-seqs", "3",
                     "--max-model-len", "100000"]
        text = self.kvplan("plan", *arguments).out
        self.assertTrue(text.startswith("FITS: 3 sequences of 100,000 tokens in "), text[:80])
        # The costs of one sequence in whole pages, three times.
        rows = [re.split(r" {2,}", line.strip()) for line in text[text.index("What fits"):]
                .splitlines() if re.match(r"^ +[\d,]+ {2,}", line)]
        row = next(row for row in rows if row[0] == "100,000")
        one = sum(int(cell.removesuffix(" B").replace(",", "")) for cell in row[1:-2])
        self.assertIn(f" in {3 * one / 2**30:.2f} GiB of a KV budget of 20.00 GiB", text)
        # As many fit as the column says, and one more does not.
        for row in rows:
            length, most = row[0].replace(",", ""), int(row[-1].replace(",", ""))
            fits = [self.plan(KIMI, "-tp", "16", "--kv-budget", "20GiB", "--max-num-seqs", n,
                              "--max-model-len", length)["fits"] for n in (most, most + 1)]
            self.assertEqual(fits, [True, False], row)

    def test_the_readme_shows_what_is_printed(self):
        demo = ["plan", str(SOURCE_DIR / "examples/configs/kimi-k3.json"), "--drafter",
                str(SOURCE_DIR / "examples/configs/kimi-k3-dspark-96x16.json"), "--tp", "16",
                "--gpu", "gb200", "--page-size", "64", "--draft-page-size", "32"]
        printed = self.kvplan(*demo).out.splitlines()
        readme = (SOURCE_DIR / "README.md").read_text()
        excerpt = readme.split("```text\n")[1].split("```")[0].splitlines()
        self.assertTrue(excerpt[0].startswith("FITS: "))
        for line in excerpt:
            self.assertIn(line, printed)


class Surroundings(KvplanCase):
    def test_environment_locale_time_zone_and_folder_do_not_matter(self):
        first = self.kvplan("plan", *DEMO, "--json").raw
        report = self.kvplan("plan", *DEMO).raw
        for env in [{}, {"LC_ALL": "de_DE.UTF-8"}, {"LC_ALL": "tr_TR.UTF-8", "LANG": "C"},
                    {"TZ": "Asia/Kathmandu"}, {"KVPOOL_TP": "8", "TP": "8"}]:
            with self.subTest(env=env):
                self.assertEqual(self.kvplan("plan", *DEMO, "--json", env=env).raw, first)
                self.assertEqual(self.kvplan("plan", *DEMO, env=env, cwd=self.scratch).raw, report)

    def test_no_escape_codes_without_a_terminal_and_plain_ascii(self):
        for command in [["plan", *DEMO], ["explain", *DEMO], ["kernels"], ["kernels", *DEMO]]:
            outcome = self.kvplan(*command, env={**os.environ, "TERM": "xterm-256color"})
            self.assertNotIn("\x1b", outcome.out)
            self.assertTrue(outcome.out.isascii())
            self.assertFalse([l for l in outcome.out.splitlines() if l != l.rstrip()])

    def test_lines_are_at_most_120_columns(self):
        for command in [["plan", *DEMO], ["explain", *DEMO], ["kernels"], ["kernels", *DEMO],
                        ["plan", LLAMA_70B, "--gpu", "h100"],
                        ["plan", str(CONFIGS / "gpt-oss-120b.json"), "-tp", "4", "--gpu", "h200"],
                        ["plan", str(CONFIGS / "gemma-3-27b.json"), "-pp", "4", "--gpu", "h200"]]:
            with self.subTest(command=command):
                lines = self.kvplan(*command).out.splitlines()
                self.assertLessEqual(max(map(len, lines)), 120, max(lines, key=len))

    def test_colour_on_a_terminal_only_and_not_with_no_color(self):
        import pty

        def run(env):
            main, other = pty.openpty()
            process = subprocess.Popen([os.environ["KVPLAN"], "plan", LLAMA, "--gpu", "h200"],
                                       stdout=other, stderr=subprocess.DEVNULL, env=env)
            os.close(other)
            text = b""
            try:
                while chunk := os.read(main, 65536):
                    text += chunk
            except OSError:
                pass
            os.close(main)
            process.wait()
            return text

        self.assertIn(b"\x1b[", run({"TERM": "xterm"}))
        self.assertNotIn(b"\x1b", run({"TERM": "xterm", "NO_COLOR": "1"}))
        self.assertNotIn(b"\x1b", run({"TERM": "dumb"}))

    def test_a_full_disk_is_exit_4(self):
        with open("/dev/full", "wb") as full:
            outcome = self.kvplan("plan", LLAMA, "--gpu", "h200", "--json", stdout=full)
        self.assertEqual(outcome.code, 4)
        self.assertIn("standard output", outcome.err)

    def test_nothing_of_cuda_is_linked(self):
        libraries = subprocess.run(["ldd", os.environ["KVPLAN"]], capture_output=True, text=True,
                                   check=True).stdout
        self.assertNotIn("libcuda", libraries)

    def test_start_up_time_is_printed(self):
        times = []
        for _ in range(5):
            start = time.perf_counter()
            self.kvplan("plan", *DEMO, "--json")
            times.append(time.perf_counter() - start)
        print(f"\nkvplan plan --json, cold: {min(times) * 1e3:.1f} ms (best of {len(times)})")


class Monotonicity(KvplanCase):
    def test_more_memory_never_fits_less(self):
        # A hybrid, a windowed and a plain model, in steps that are no multiple of anything.
        for name, extra in [("llama-3.1-8b", []), ("gpt-oss-20b", []),
                            ("kimi-k3", ["--drafter", DSPARK, "-tp", "16"]),
                            ("gemma-3-27b", ["--max-num-seqs", "2"])]:
            before = (0, 0, 0, 0)
            for step in range(24):
                budget = 900_000_001 + step * 1_234_567_891
                document = self.plan(str(CONFIGS / f"{name}.json"), "--gpu", "gb200", *extra,
                                     "--kv-budget", budget, "--max-model-len", "100000")
                capacity = document["capacity"]
                now = (int(document["fits"]), capacity["tokens"], capacity["sequences"],
                       capacity["max_len"])
                for less, more in zip(before, now):
                    self.assertLessEqual(less, more, (name, budget, before, now))
                before = now
            self.assertEqual(before[0], 1, name)


if __name__ == "__main__":
    unittest.main()
