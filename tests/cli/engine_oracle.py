# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""Engines' arithmetic once more, from the rules of docs/engines.md alone.

Shares no code with kvplan: reads a config, predicts the figures of a case, as exact fractions
where the engines do not themselves use floating point. Only what `engine_sweep_test.py` asks.
"""

import json
import math
from fractions import Fraction
from pathlib import Path


def up(a, b):
    """a / b, rounded up."""
    return -(-a // b)


class Config:
    """A config file: the text model's fields over the top level's, overrides over both."""

    def __init__(self, path, overrides=None):
        text = Path(path).read_text(encoding="utf-8")
        top = json.loads(text, parse_constant=lambda name: None)
        self.fields = dict(top)
        self.fields.update(top.get("text_config") or top.get("llm_config") or {})
        self.fields.update(overrides or {})

    def get(self, *keys, default=None):
        for key in keys:
            if self.fields.get(key) is not None:
                return self.fields[key]
        return default


FULL, SLIDING, CHUNKED, STATE, NONE = "full", "sliding", "chunked", "state", "none"


def kinds_of(c):
    depth = c.get("decoder_layers") if c.get("is_encoder_decoder") else c.get("num_hidden_layers")
    window = c.get("sliding_window")
    if c.get("use_sliding_window") is False:
        window = None
    if c.get("hybrid_override_pattern"):
        return [{"M": STATE, "*": FULL}.get(x, NONE) for x in c.get("hybrid_override_pattern")]
    if c.get("linear_attn_config"):
        full = c.get("linear_attn_config")["full_attn_layers"]
        return [FULL if i + 1 in full else STATE for i in range(depth)]
    if c.get("hybrid_layer_pattern"):
        return [FULL if x == 0 else SLIDING for x in c.get("hybrid_layer_pattern")]
    if c.get("block_configs"):
        return [NONE if b["attention"].get("no_op") or b["attention"].get("replace_with_linear")
                else FULL for b in c.get("block_configs")]
    if c.get("layer_types"):
        names = {"full_attention": FULL, "attention": FULL, "sliding_attention": SLIDING,
                 "chunked_attention": CHUNKED, "deepseek_sparse_attention": FULL}
        return [names.get(x, STATE) for x in c.get("layer_types")]
    if c.get("full_attention_interval") and c.get("linear_num_value_heads"):
        return [FULL if (i + 1) % c.get("full_attention_interval") == 0 else STATE
                for i in range(depth)]
    if c.get("attention_chunk_size") and str(c.get("model_type")).startswith("llama4"):
        rope = c.get("no_rope_layers") or [0 if (i + 1) % 4 == 0 else 1 for i in range(depth)]
        return [FULL if x == 0 else CHUNKED for x in rope]
    if window is None:
        return [FULL] * depth
    if c.get("sliding_window_pattern"):
        p = c.get("sliding_window_pattern")
        return [FULL if (i + 1) % p == 0 else SLIDING for i in range(depth)]
    if c.get("model_type") == "gemma2":
        return [SLIDING if i % 2 == 0 else FULL for i in range(depth)]
    if c.get("use_sliding_window") and c.get("max_window_layers") is not None:
        return [FULL if i < c.get("max_window_layers") else SLIDING for i in range(depth)]
    return [SLIDING] * depth


class Layer:
    """One cache of one layer, over all ranks."""

    def __init__(self, kind, **fields):
        self.kind = kind
        self.draft = False
        self.extent = None
        self.__dict__.update(fields)


def state_of(c):
    if c.get("linear_attn_config"):
        s = c.get("linear_attn_config")
        width = s["num_heads"] * s["head_dim"]
        return dict(channels=3 * width, kernel=s["short_conv_kernel_size"],
                    matrix=width * s["head_dim"], groups=0, group_channels=0)
    if c.get("linear_num_value_heads"):
        key = c.get("linear_num_key_heads") * c.get("linear_key_head_dim")
        value = c.get("linear_num_value_heads") * c.get("linear_value_head_dim")
        return dict(channels=2 * key + value, kernel=c.get("linear_conv_kernel_dim"),
                    matrix=value * c.get("linear_key_head_dim"), groups=0, group_channels=0)
    if c.get("conv_L_cache"):
        return dict(channels=c.get("hidden_size"), kernel=c.get("conv_L_cache"), matrix=0,
                    groups=0, group_channels=0)
    inner = (c.get("mamba_num_heads", "mamba_n_heads") * c.get("mamba_head_dim", "mamba_d_head"))
    size, groups = c.get("ssm_state_size", "mamba_d_state"), c.get("n_groups", "mamba_n_groups")
    return dict(channels=inner + 2 * groups * size, kernel=c.get("conv_kernel", "mamba_d_conv"),
                matrix=inner * size, groups=groups, group_channels=2 * size)


def layers_of(c):
    heads = c.get("num_attention_heads", "decoder_attention_heads")
    width = c.get("hidden_size", "d_model")
    kv = c.get("num_key_value_heads", default=heads)
    dim = c.get("head_dim", default=width // heads)
    out = []
    kinds = kinds_of(c)
    shared = c.get("num_kv_shared_layers", default=0)
    for i, kind in enumerate(kinds):
        layer = []
        if kind == STATE:
            layer.append(Layer(STATE, **state_of(c)))
        elif kind != NONE and i < len(kinds) - shared:
            extent = {SLIDING: c.get("sliding_window"), CHUNKED: c.get("attention_chunk_size"),
                      FULL: None}[kind]
            if c.get("kv_lora_rank"):
                layer.append(Layer("latent", span=kind, extent=extent, heads=heads,
                                   latent=c.get("kv_lora_rank"), rope=c.get("qk_rope_head_dim"),
                                   nope=c.get("qk_nope_head_dim"), value=c.get("v_head_dim")))
                types = c.get("indexer_types")
                if c.get("index_head_dim") and (not types or types[i] == "full"):
                    layer.append(Layer("indexer", span=FULL, dim=c.get("index_head_dim")))
            else:
                h, dk, dv = kv, dim, c.get("v_head_dim", default=dim)
                if kind == SLIDING:
                    h = c.get("swa_num_key_value_heads", default=h)
                    dk = c.get("swa_head_dim", default=dk)
                    dv = c.get("swa_v_head_dim", default=dv)
                if kind == FULL and c.get("global_head_dim"):
                    dk = dv = c.get("global_head_dim")
                if kind == FULL:
                    h = c.get("num_global_key_value_heads", default=h)
                if c.get("block_configs"):
                    h = heads // c.get("block_configs")[i]["attention"]["n_heads_in_group"]
                layer.append(Layer("kv", span=kind, extent=extent, heads=h, dk=dk, dv=dv))
                if c.get("is_encoder_decoder"):
                    layer.append(Layer("kv", span="cross", extent=c.get("max_source_positions"),
                                       heads=h, dk=dk, dv=dv))
        out.append(layer)
    return out


def copied_layer(c):
    best, rank = [], 0
    for layer in layers_of(c):
        worth = 0
        for cache in layer:
            if cache.kind in ("kv", "latent"):
                worth += 10 if cache.span == FULL else 1
            elif cache.kind == "indexer":
                worth += 1
        if worth > rank:
            best, rank = layer, worth
    return best


BITS = {"turboquant_3bit_nc": (3, 3), "turboquant_k3v4_nc": (3, 4), "turboquant_4bit_nc": (4, 4),
        "turboquant_k8v4": (8, 4)}
BLOCKS = {"q8_0": 34, "q5_1": 24, "q5_0": 22, "q4_1": 20, "q4_0": 18, "iq4_nl": 18}


def pair_bytes(dtype, dk, dv):
    """K and V bytes of one token in one head."""
    if dtype in ("bf16", "fp16"):
        return 2 * dk, 2 * dv
    if dtype in ("fp8", "int8"):
        return dk, dv
    if dtype == "nvfp4":
        return up(dk, 2) + up(dk, 16), up(dv, 2) + up(dv, 16)
    if dtype.endswith("_per_token_head"):
        return dk + 4, dv + 4
    kb, vb = BITS[dtype]
    key = dk if kb == 8 else up(kb * dk, 8) + 2
    value = up(vb * dv, 8) + 4
    return key, value + (key + value) % 2


def latent_bytes(dtype, latent, rope):
    if dtype == "fp8_ds_mla":
        return latent + 4 * latent // 128 + 2 * rope
    if dtype == "nvfp4":
        return up(latent + rope, 2) + up(latent + rope, 16)
    return (latent + rope) * (2 if dtype in ("bf16", "fp16") else 1)


def token_bytes(layer, dtype, tp):
    """K and V bytes of one token on one rank."""
    if layer.kind == "indexer":
        return layer.dim + 4 * up(layer.dim, 128), 0
    if layer.kind == "latent":
        return latent_bytes(dtype, layer.latent, layer.rope), 0
    if dtype == "fp8_ds_mla":
        dtype = "fp8"
    h = max(1, up(layer.heads, tp))
    key, value = pair_bytes(dtype, layer.dk, layer.dv)
    return h * key, h * value


SIZE = {"f32": 4, "bf16": 2, "f16": 2}


def conv_column(layer, tp, dtype):
    """Bytes of a convolution column on one rank; groups that tp does not divide are replicated."""
    own = layer.channels - layer.groups * layer.group_channels
    return (own // tp + up(layer.groups, tp) * layer.group_channels) * SIZE[dtype]


def state_bytes(layer, d, extra):
    tp = d["tp"]
    return (conv_column(layer, tp, d["conv_state_dtype"]) * (layer.kernel - 1 + extra)
            + layer.matrix // tp * SIZE[d["state_dtype"]])


def draft_layers(c, drafter, folder):
    if not drafter:
        return []
    if drafter.get("config"):
        found = layers_of(Config(Path(folder) / drafter["config"]))
    else:
        found = [copied_layer(c) for _ in range(drafter["num_layers"])]
    out = []
    for caches in found:
        for cache in caches:
            copy = Layer(cache.kind)
            copy.__dict__.update(cache.__dict__)
            copy.draft = True
            out.append(copy)
    return out


def stage_of(index, depth, stages):
    base, extra = divmod(depth, stages)
    sizes = [base + (1 if stages - 1 - extra <= s < stages - 1 else 0) for s in range(stages)]
    for stage, size in enumerate(sizes):
        if index < size:
            return stage
        index -= size
    return stages - 1


def vllm(c, case, folder):
    d = dict({"dcp": 1, "pp": 1, "tp": 1, "prefix_caching": True, "token_report": "concurrency",
              "max_num_batched_tokens": 8192, "max_concurrent_batches": 1,
              "hybrid_kv_manager": True, "state_dtype": "f32", "conv_state_dtype": "bf16"},
             **{k: v for k, v in case["deployment"].items() if v is not None})
    tp, dtype, pp = d["tp"], d["kv_dtype"], d["pp"]
    drafted = (case["drafter"] or {}).get("num_draft_tokens") or 0
    model = layers_of(c)
    flat = []
    for i, caches in enumerate(model):
        for cache in caches:
            cache.stage = stage_of(i, len(model), pp)
            cache.index = i
            flat.append(cache)
    target = list(flat)
    for cache in draft_layers(c, case["drafter"], folder):
        cache.stage, cache.index = pp - 1, None
        flat.append(cache)
    if not d["hybrid_kv_manager"]:
        for cache in flat:
            if cache.kind != STATE and cache.span in (SLIDING, CHUNKED):
                cache.span, cache.extent = FULL, None
    hybrid = any(x.kind == STATE for x in target)

    def bytes_of(cache):
        packed = dtype
        if dtype in BITS and not hybrid and cache.index is not None and (
                cache.index < 2 or cache.index >= len(model) - 2):
            packed = "bf16"
        return sum(token_bytes(cache, packed, tp))

    block = d["tokens_per_block"]
    figures = {}
    state = max([state_bytes(x, d, drafted) for x in target if x.kind == STATE], default=0)
    attention = max([bytes_of(x) for x in target if x.kind in ("kv", "latent")], default=0)
    if state and attention:
        block = max(block, block * up(state, block * attention))
        page = block * attention
        figures["state_padding_percent"] = (page - state) / state * 100
    figures["tokens_per_block"] = block

    def identity(x):
        if x.kind == STATE:
            return (STATE, x.channels, x.kernel, x.matrix)
        if x.kind == "kv":
            return ("kv", x.span, x.extent, x.heads and max(1, up(x.heads, tp)), x.dk, x.dv,
                    bytes_of(x))
        if x.kind == "latent":
            return ("latent", x.span, x.extent, x.latent, x.rope)
        return ("indexer", x.dim)

    def page_of(x):
        return state_bytes(x, d, drafted) if x.kind == STATE else bytes_of(x) * block

    full = all(x.kind != STATE and x.span == FULL for x in flat)
    one_span = all(x.kind != STATE for x in flat) and len({(x.span, x.extent) for x in flat}) == 1
    one_state = all(x.kind == STATE for x in flat) and len({identity(x) for x in flat}) == 1
    groups = []
    if full or one_span or one_state:
        groups.append((flat[0], block, flat))
        per_id = max(sum(page_of(x) for x in flat if x.stage == s) for s in range(pp))
        figures["padding_layers"] = 0
    else:
        buckets = {}
        for x in flat:
            buckets.setdefault(identity(x), []).append(x)
        biggest = max(page_of(x) for x in flat)
        counts = [len(b) for b in buckets.values()]
        size = max(counts) if max(counts) < 1.5 * min(counts) else min(counts)
        for members in buckets.values():
            count = up(len(members), size)
            padding = count * size - len(members)
            if padding and "padding_layers" not in figures:
                figures["padding_layers"] = padding
                figures["padding_layers_percent"] = padding / len(members) * 100
            own = page_of(members[0])
            tokens = block * (biggest // own) if biggest % own == 0 else block
            for g in range(count):
                groups.append((members[0], tokens, members[g::count]))
        figures.setdefault("padding_layers", 0)
        per_id = biggest * max(sum(1 for x in members if x.stage == s)
                               for _, _, members in groups for s in range(pp))

    flight = d["max_num_batched_tokens"] * d["max_concurrent_batches"]

    def blocks(length):
        total = 0
        for kind, tokens, _ in groups:
            if kind.kind == STATE:
                total += drafted + (2 if d["prefix_caching"] else 1)
            elif kind.span == FULL:
                total += up(up(length, d["dcp"]), tokens)
            elif kind.span == SLIDING:
                total += up(min(kind.extent - 1 + flight, length), tokens) + 1
            elif kind.span == CHUNKED:
                total += up(min(kind.extent + flight, length), tokens)
            else:
                total += up(d.get("encoder_budget_tokens") or kind.extent, tokens)
        return total

    length = d.get("max_model_len")
    smallest = min([t for k, t, _ in groups if k.kind != STATE], default=0)

    def printed(count):
        if d["token_report"] == "blocks":
            return count // len(groups) * smallest * d["dcp"]
        return math.trunc(count / blocks(length) * length)

    key, value = next(iter(case["given"].items()))
    if key == "max_model_len":
        figures["needed_gib"] = Fraction(blocks(value) * per_id, 1 << 30)
        return figures
    count = {"num_blocks": value, "kv_budget_bytes": value // per_id}.get(key)
    if key == "kv_tokens":
        count = 0
        while printed(count) < value:
            count += 1
    figures["num_blocks"] = count
    figures["kv_tokens"] = printed(count)
    figures["max_concurrency"] = count / blocks(length)
    fitting = 0
    low, high = 0, length
    while low < high:
        middle = (low + high + 1) // 2
        if blocks(middle) <= count:
            low = middle
        else:
            high = middle - 1
    fitting = low
    figures["max_len_that_fits"] = fitting
    return figures


def sglang(c, case, folder):
    d = dict({"tp": 1, "dp": 1, "swa_full_ratio": 0.8, "state_dtype": "f32",
              "conv_state_dtype": "bf16", "tokens_per_block": 1},
             **{k: v for k, v in case["deployment"].items() if v is not None})
    if d.get("dp_attention"):
        d["tp"] //= d["dp"]
    tp, dtype, page = d["tp"], d["kv_dtype"], d["tokens_per_block"]
    target = [x for caches in layers_of(c) for x in caches]
    draft = draft_layers(c, case["drafter"], folder)
    tokens = case["given"]["kv_tokens"]
    gib = 1 << 30
    figures = {"allocated_slots": tokens + page}

    def total(layers, part):
        return sum(token_bytes(x, dtype, tp)[part] for x in layers)

    attention = [x for x in target if x.kind != STATE]
    bounded = [x for x in attention if x.span in (SLIDING, CHUNKED)]
    full = [x for x in attention if x.span not in (SLIDING, CHUNKED)]
    if not full:
        full, bounded = bounded, []
    latent = [x for x in full if x.kind == "latent"]
    if latent:
        figures["mla_gib"] = Fraction((tokens + page) * total(latent, 0), gib)
        figures["pool_gib"] = Fraction((tokens + page) * total(full, 0), gib)
    else:
        figures["k_gib"] = Fraction((tokens + page) * total(full, 0), gib)
        figures["v_gib"] = Fraction((tokens + page) * total(full, 1), gib)
    if bounded:
        swa = math.floor(tokens * d["swa_full_ratio"]) // page * page
        figures["swa_tokens"] = swa
        figures["swa_k_gib"] = Fraction((swa + page) * total(bounded, 0), gib)
        figures["swa_v_gib"] = Fraction((swa + page) * total(bounded, 1), gib)
    if draft:
        figures["draft_k_gib"] = Fraction((tokens + page) * total(draft, 0), gib)
        figures["draft_v_gib"] = Fraction((tokens + page) * total(draft, 1), gib)
    states = [x for x in target if x.kind == STATE]
    if states and d.get("max_state_slots"):
        slots = d["max_state_slots"] + 1
        column = [conv_column(x, tp, d["conv_state_dtype"]) for x in states]
        matrix = sum(x.matrix // tp for x in states) * SIZE[d["state_dtype"]]
        conv = sum(b * (x.kernel - 1) for b, x in zip(column, states))
        figures["state_conv_gib"] = Fraction(slots * conv, gib)
        figures["state_ssm_gib"] = Fraction(slots * matrix, gib)
        drafted = (case["drafter"] or {}).get("num_draft_tokens")
        if drafted and d.get("max_running_requests"):
            copies = d["max_running_requests"] + 1
            figures["spec_state_ssm_gib"] = Fraction(copies * drafted * matrix, gib)
            figures["spec_state_conv_gib"] = Fraction(
                copies * sum(b * (drafted + x.kernel - 2) for b, x in zip(column, states)), gib)
    return figures


def trtllm(c, case, _folder):
    d = {k: v for k, v in case["deployment"].items() if v is not None}
    tp, dtype = d.get("tp", 1), d["kv_dtype"]
    per_token = 0
    for caches in layers_of(c):
        for x in caches:
            if x.kind == "kv":
                elements = 2 * max(1, up(x.heads, tp)) * x.dk
                per_token += (up(elements, 2) + up(elements, 16) if dtype == "nvfp4" else
                              elements * (2 if dtype in ("bf16", "fp16") else 1))
            elif x.kind != STATE:
                per_token += sum(token_bytes(x, dtype, tp))
    block = d["tokens_per_block"]
    key, value = next(iter(case["given"].items()))
    count = {"num_blocks": value, "kv_budget_bytes": up(value, block * per_token),
             "kv_tokens": value // block}[key]
    return {"num_blocks": count, "kv_tokens": count * block,
            "pool_bytes": count * block * per_token,
            "pool_gib": Fraction(count * block * per_token, 1 << 30)}


def llama(c, case, folder):
    d = dict({"n_seq_max": 1, "kv_unified": False, "n_ubatch": 512, "rollback_states": 0,
              "k_dtype": "f16", "v_dtype": "f16"},
             **{k: v for k, v in case["deployment"].items() if v is not None})
    ik = case["engine"] == "ik_llamacpp"
    streams = 1 if d["kv_unified"] else d["n_seq_max"]
    mode = d.get("mla_mode", "expanded" if ik else "latent")
    mib = 1 << 20

    def row(dtype, elements):
        if dtype in BLOCKS:
            return elements // 32 * BLOCKS[dtype]
        return elements * (4 if dtype == "f32" else 2)

    def rows(x):
        if x.kind == "latent":
            if mode == "expanded":
                return (row(d["k_dtype"], x.heads * (x.nope + x.rope)),
                        row(d["v_dtype"], x.heads * x.value))
            copy = row(d["v_dtype"], x.latent) if mode == "latent_and_copy" else 0
            return row(d["k_dtype"], x.latent + x.rope), copy
        return row(d["k_dtype"], x.heads * x.dk), row(d["v_dtype"], x.heads * x.dv)

    target = [x for caches in layers_of(c) for x in caches if x.kind != "indexer"]
    cells = case["given"]["cells"]
    attention = [x for x in target if x.kind != STATE]
    bounded = [] if ik else [x for x in attention if x.span in (SLIDING, CHUNKED)]
    full = [x for x in attention if x not in bounded]
    figures = {"k_mib": Fraction(streams * cells * sum(rows(x)[0] for x in full), mib),
               "v_mib": Fraction(streams * cells * sum(rows(x)[1] for x in full), mib)}
    figures["kv_mib"] = figures["k_mib"] + figures["v_mib"]
    if bounded:
        window = max(x.extent for x in bounded)
        wanted = min(cells, window * (d["n_seq_max"] if d["kv_unified"] else 1) + d["n_ubatch"])
        ring = up(wanted, 256) * 256
        figures["swa_cells"] = ring
        figures["swa_k_mib"] = Fraction(streams * ring * sum(rows(x)[0] for x in bounded), mib)
        figures["swa_kv_mib"] = Fraction(streams * ring * sum(sum(rows(x)) for x in bounded), mib)
    states = [x for x in target if x.kind == STATE]
    if states:
        held = d["n_seq_max"] * (1 + d["rollback_states"])
        figures["recurrent_cells"] = held
        figures["recurrent_r_mib"] = Fraction(
            held * 4 * sum(x.channels * (x.kernel - 1) for x in states), mib)
        figures["recurrent_s_mib"] = Fraction(held * 4 * sum(x.matrix for x in states), mib)
    draft = [x for x in draft_layers(c, case["drafter"], folder) if x.kind != "indexer"]
    if draft and not any(x.span in (SLIDING, CHUNKED) for x in draft):
        figures["draft_kv_mib"] = Fraction(streams * cells * sum(sum(rows(x)) for x in draft), mib)
    return figures


def predict(case, folder):
    """Figures of a case, by name."""
    config = Config(Path(folder) / case["model"], case.get("model_overrides"))
    engine = case["engine"]
    rules = {"vllm": vllm, "sglang": sglang, "trtllm": trtllm}.get(engine, llama)
    return rules(config, case, folder)


def as_printed(value):
    """A figure as a case states it: whole numbers as they are, others with four decimals."""
    return value if isinstance(value, int) else f"{float(value):.4f}"
