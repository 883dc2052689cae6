"""Models of given shapes with random weights, for comparisons of speed and for tests of what a kind of layer needs.

A model is a GGUF file in Q8_0 with the tokenizer of another model. Vectors are constants, and the random values of a matrix keep
the size of its products, so that no engine meets values that trained weights never give.
"""
import dataclasses
import random
import struct

import tiny_model as gguf

# Values of vectors and of tensors with a value per head; 1 elsewhere. They let a state decay by about 2 % a token.
CONSTANTS = {"ssm_a": -1.0, "ssm_dt.bias": -4.0, "ssm_conv1d.bias": 0.0}
# Its scores have no other scale.
QUERY_NORMS = {"gemma3n": 0.25, "gemma4": 0.25}


@dataclasses.dataclass(frozen=True)
class Shape:
    """Of a model: `feed_forward` is that of an expert where there are experts; layers outside `attention` have a recurrence."""
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_size: int
    feed_forward: int
    architecture: str = "llama"
    experts: int = 0
    experts_used: int = 0
    dense_layers: int = 0  # the first ones, without experts
    shared_expert: bool = False
    attention: tuple = ()
    networks: tuple = ()   # layers that are a feed-forward alone; the others then have none
    window: int = 0        # of all layers but each sixth (Llama 4: each fourth), or those outside `full`
    full: tuple = ()       # layers without a window, whose heads have `full_head_size`
    full_head_size: int = 0
    shared_kv: int = 0     # last layers that read keys and values of others
    layer_inputs: int = 0  # values that each layer has of its own
    streams: int = 0       # of the residual stream
    latent_rank: int = 0   # of keys and values; `head_size` is that of values, keys have `rotating` dimensions more
    rotating: int = 0
    taps: int = 0          # of a recurrence's convolution
    state_heads: int = 0
    state_size: int = 0
    state_head_size: int = 0
    state_groups: int = 0

    def attends(self, layer):
        return not self.attention or layer in self.attention

    def has_experts(self, layer):
        return self.experts and layer >= self.dense_layers

    def head_size_of(self, layer):
        return self.full_head_size if self.full_head_size and layer in self.full else self.head_size


def float_key(name, value):
    return gguf.key(name, 6, struct.pack("<f", value))


def u32_array(name, values):
    return gguf.key(name, 9, struct.pack("<IQ", 4, len(values)) + struct.pack(f"<{len(values)}I", *values))


def mixer_tensors(shape, layer):
    """The part of a layer that reads other tokens."""
    head_size = shape.head_size_of(layer)
    width, kv, query = shape.width, shape.kv_heads * head_size, shape.heads * head_size
    inner = shape.state_heads * shape.state_head_size
    states = 2 * shape.state_groups * shape.state_size
    out = {}
    if shape.latent_rank:
        out |= {"attn_q.weight": (width, query + shape.heads * shape.rotating), "attn_output.weight": (query, width),
                "attn_kv_a_mqa.weight": (width, shape.latent_rank + shape.rotating),
                "attn_kv_a_norm.weight": (shape.latent_rank,), "attn_kv_b.weight": (shape.latent_rank, 2 * query)}
    elif shape.attends(layer):
        gated = 2 if shape.architecture == "qwen35" else 1
        out |= {"attn_q.weight": (width, gated * query), "attn_k.weight": (width, kv), "attn_v.weight": (width, kv),
                "attn_output.weight": (query, width)}
        if shape.architecture in ("qwen3moe", "lfm2", "qwen35", "gemma3", "gemma3n", "gemma4"):
            out |= {"attn_q_norm.weight": (head_size,), "attn_k_norm.weight": (head_size,)}
    elif shape.architecture == "lfm2":
        out |= {"shortconv.in_proj.weight": (width, 3 * width), "shortconv.out_proj.weight": (width, width),
                "shortconv.conv.weight": (shape.taps, width)}
    elif shape.architecture in ("granitehybrid", "nemotron_h_moe"):
        out |= {"ssm_in.weight": (width, 2 * inner + states + shape.state_heads), "ssm_out.weight": (inner, width),
                "ssm_conv1d.weight": (shape.taps, inner + states), "ssm_conv1d.bias": (inner + states,),
                "ssm_dt.bias": (shape.state_heads,), "ssm_a": (1, shape.state_heads), "ssm_d": (1, shape.state_heads),
                "ssm_norm.weight": (inner // shape.state_groups, shape.state_groups)}
    else:
        out |= {"attn_qkv.weight": (width, states + inner), "attn_gate.weight": (width, inner),
                "ssm_beta.weight": (width, shape.state_heads), "ssm_alpha.weight": (width, shape.state_heads),
                "ssm_conv1d.weight": (shape.taps, states + inner), "ssm_dt.bias": (shape.state_heads,),
                "ssm_a": (shape.state_heads,), "ssm_norm.weight": (shape.state_head_size,), "ssm_out.weight": (inner, width)}
    return out


def network_tensors(shape, layer):
    """The feed-forward of a layer, or its experts."""
    width, inner = shape.width, shape.feed_forward
    both = {"up": (width, inner), "down": (inner, width)}
    parts = both if shape.networks else {"gate": (width, inner), **both}
    if not shape.has_experts(layer):
        return {f"ffn_{part}.weight": of for part, of in parts.items()}
    out = {"ffn_gate_inp.weight": (width, shape.experts)}
    if shape.networks:
        out["exp_probs_b.bias"] = (shape.experts,)
    if shape.shared_expert:
        out |= {f"ffn_{part}_shexp.weight": of for part, of in parts.items()}
    return out | {f"ffn_{part}_exps.weight": (*of, shape.experts) for part, of in parts.items()}


def layer_tensors(shape, layer):
    """{name without "blk.N.": shape, with the columns first} of one layer."""
    width = shape.width
    if shape.networks:
        part = network_tensors if layer in shape.networks else mixer_tensors
        return {"attn_norm.weight": (width,)} | part(shape, layer)
    gemma = ("post_attention_norm", "ffn_norm", "post_ffw_norm")
    norms = ("attn_norm", *{"qwen35": ("post_attention_norm",), "gemma3": gemma, "gemma3n": gemma, "gemma4": gemma}
             .get(shape.architecture, ("ffn_norm",)))
    out = {f"{norm}.weight": (width,) for norm in norms} | mixer_tensors(shape, layer)
    if shape.layer_inputs:
        out |= {"inp_gate.weight": (width, shape.layer_inputs), "proj.weight": (shape.layer_inputs, width),
                "post_norm.weight": (width,)}
    if shape.streams:
        streams = shape.streams
        out |= {"altup_router.weight": (width, streams), "altup_router_norm.weight": (width,),
                "altup_predict_coef.weight": (streams, streams ** 2), "altup_correct_coef.weight": (streams, streams),
                "altup_correct_scale.weight": (width,), "laurel_l.weight": (width, 32), "laurel_r.weight": (32, width),
                "laurel_post_norm.weight": (width,)}
    return out | network_tensors(shape, layer)


def outer_tensors(shape, tokens):
    """The same of the tensors outside of layers."""
    width, inputs = shape.width, shape.layers * shape.layer_inputs
    last = "token_embd_norm.weight" if shape.architecture == "lfm2" else "output_norm.weight"
    out = {"token_embd.weight": (width, tokens), last: (width,)}
    if inputs:
        out |= {"per_layer_token_embd.weight": (inputs, tokens), "per_layer_model_proj.weight": (width, inputs),
                "per_layer_proj_norm.weight": (shape.layer_inputs,)}
    if shape.streams:
        out |= {f"{name}.weight": (width, width, shape.streams - 1) for name in ("altup_proj", "altup_unembd_proj")}
    return out


def keys_of(shape):
    arch = shape.architecture
    head = shape.full_head_size or shape.head_size
    rotated = shape.rotating or (head // 4 if arch == "qwen35" else head)
    keys = [gguf.key("general.architecture", 8, gguf.text(arch)), gguf.u32(f"{arch}.block_count", shape.layers),
            gguf.u32(f"{arch}.context_length", 8192), gguf.u32(f"{arch}.embedding_length", shape.width),
            gguf.u32(f"{arch}.attention.head_count", shape.heads),
            gguf.u32(f"{arch}.rope.dimension_count", rotated),
            gguf.u32(f"{arch}.attention.key_length", head + shape.rotating), gguf.u32(f"{arch}.attention.value_length", head),
            float_key(f"{arch}.attention.layer_norm_rms_epsilon", 1e-5)]
    if shape.networks:
        keys.append(u32_array(f"{arch}.feed_forward_length",
                              [shape.feed_forward if i in shape.networks else 0 for i in range(shape.layers)]))
    else:
        keys.append(gguf.u32(f"{arch}.feed_forward_length", shape.feed_forward))
    if arch in ("lfm2", "granitehybrid", "nemotron_h_moe"):
        keys.append(u32_array(f"{arch}.attention.head_count_kv",
                              [shape.kv_heads if shape.attends(i) else 0 for i in range(shape.layers)]))
    else:
        keys.append(gguf.u32(f"{arch}.attention.head_count_kv", shape.kv_heads))
    if shape.experts:
        keys += [gguf.u32(f"{arch}.expert_count", shape.experts), gguf.u32(f"{arch}.expert_used_count", shape.experts_used),
                 gguf.u32(f"{arch}.expert_feed_forward_length", shape.feed_forward)]
    if shape.shared_expert and arch != "llama4":
        keys.append(gguf.u32(f"{arch}.expert_shared_count", 1))
    if shape.shared_expert and shape.networks:
        keys.append(gguf.u32(f"{arch}.expert_shared_feed_forward_length", shape.feed_forward))
    if shape.window:
        keys.append(gguf.u32(f"{arch}.attention.sliding_window", shape.window))
    if shape.full:
        keys.append(gguf.key(f"{arch}.attention.sliding_window_pattern", 9, struct.pack("<IQ", 7, shape.layers)
                             + bytes(layer not in shape.full for layer in range(shape.layers))))
    if arch in ("gemma3n", "gemma4"):
        keys += [gguf.u32(f"{arch}.attention.shared_kv_layers", shape.shared_kv),
                 gguf.u32(f"{arch}.embedding_length_per_layer_input", shape.layer_inputs)]
    if shape.full_head_size:
        keys += [gguf.u32(f"{arch}.{size}_swa", shape.head_size)
                 for size in ("attention.key_length", "attention.value_length", "rope.dimension_count")]
    if shape.streams:  # gates are cut in every other layer
        cut = [1.0 if layer % 2 else float("-inf") for layer in range(shape.layers)]
        keys += [gguf.u32(f"{arch}.altup.num_inputs", shape.streams), gguf.u32(f"{arch}.altup.active_idx", 0),
                 gguf.key(f"{arch}.activation_sparsity_scale", 9, struct.pack(f"<IQ{len(cut)}f", 6, len(cut), *cut))]
    if shape.latent_rank:
        keys += [gguf.u32(f"{arch}.attention.kv_lora_rank", shape.latent_rank),
                 gguf.u32(f"{arch}.leading_dense_block_count", shape.dense_layers)]
    if arch == "lfm2":
        keys.append(gguf.u32("lfm2.shortconv.l_cache", shape.taps))
    if arch in ("granitehybrid", "qwen35", "nemotron_h_moe"):
        keys += [gguf.u32(f"{arch}.ssm.conv_kernel", shape.taps), gguf.u32(f"{arch}.ssm.state_size", shape.state_size),
                 gguf.u32(f"{arch}.ssm.group_count", shape.state_groups), gguf.u32(f"{arch}.ssm.time_step_rank", shape.state_heads),
                 gguf.u32(f"{arch}.ssm.inner_size", shape.state_heads * shape.state_head_size)]
    if arch == "granitehybrid":  # as in the published models of a billion
        keys += [float_key("granitehybrid.embedding_scale", 12), float_key("granitehybrid.residual_scale", 0.22),
                 float_key("granitehybrid.logit_scale", 6), float_key("granitehybrid.attention.scale", 1 / shape.head_size),
                 gguf.key("granitehybrid.rope.scaling.finetuned", 7, b"\0")]
    if arch == "qwen35":
        keys += [gguf.u32("qwen35.full_attention_interval", 4), u32_array("qwen35.rope.dimension_sections", [11, 11, 10, 0])]
    return keys


def random_q8(rng, shape):
    """Random values of a matrix in Q8_0 whose products keep their size: blocks of a scale and 32 bytes."""
    blocks = shape[0] * shape[1] // 32 * (shape[2] if len(shape) > 2 else 1)
    scale = struct.pack("<e", shape[0] ** -0.5 / 74)  # random bytes spread by 74
    out = bytearray(34 * blocks)
    for at in range(34):
        out[at::34] = scale[at:at + 1] * blocks if at < 2 else rng.randbytes(blocks)
    return out


def random_tensor(rng, name, shape, architecture=""):
    """(shape, type, encoded values). `name`: without "blk.N."."""
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    if len(shape) == 1 or 1 in shape or "norm" in name:
        query_norm = QUERY_NORMS.get(architecture, 1.0) if name == "attn_q_norm.weight" else 1.0
        return shape, gguf.FLOAT32, struct.pack(f"<{count}f", *[CONSTANTS.get(name, query_norm)] * count)
    floats = ("gate_inp", "conv.weight", "conv1d", "altup_router", "altup_predict", "altup_correct")
    if any(part in name for part in floats):  # float32 in published files
        values = [rng.gauss(0, shape[0] ** -0.5) for _ in range(count)]
        return shape, gguf.FLOAT32, struct.pack(f"<{count}f", *values)
    return shape, gguf.Q8_0, random_q8(rng, shape)


def write(path, shape, tokenizer_of):
    """A model of a given shape with the tokenizer of another GGUF file."""
    tokenizer_keys, tokens = gguf.read_tokenizer(tokenizer_of)
    rng = random.Random(1)
    tensors = {name: random_tensor(rng, name, of) for name, of in outer_tensors(shape, len(tokens)).items()}
    for layer in range(shape.layers):
        tensors.update((f"blk.{layer}.{name}", random_tensor(rng, name, of, shape.architecture))
                       for name, of in layer_tensors(shape, layer).items())
    partial = path.with_suffix(".part")
    gguf.write_file(partial, [*keys_of(shape), *tokenizer_keys], tensors)
    partial.rename(path)
