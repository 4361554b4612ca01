"""Writes models/decoders/llama_past.onnx and llama_past.dynamo.onnx, a decoder that takes and returns its cache as
transformers' exports do, by both of PyTorch's exporters, and models/decoders/llama_past.tokens: a prompt, and what
PyTorch's generate() makes of it.

    pip install torch transformers onnx && python3 examples/write_past.py

The weights are seeded noise, large enough that the tokens do not repeat themselves.
"""
import pathlib

import onnx
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

LAYERS, NEW_TOKENS = 2, 64
PROMPT = [11, 42, 7, 58, 3]


class Decoder(torch.nn.Module):
    """One step: the cache comes and goes as tensors, two a layer."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, position_ids, *past):
        cache = DynamicCache()
        for layer in range(LAYERS):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        out = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=cache,
            use_cache=True,
        )
        present = [tensor for layer in out.past_key_values.layers for tensor in (layer.keys, layer.values)]
        return (out.logits, *present)


def main():
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=97,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config).eval()
    folder = pathlib.Path(__file__).parent / "models" / "decoders"

    prompt = torch.tensor([PROMPT])
    tokens = model.generate(prompt, do_sample=False, max_new_tokens=NEW_TOKENS, pad_token_id=0)[0].tolist()
    lines = [" ".join(map(str, PROMPT)), " ".join(map(str, tokens[len(PROMPT) :]))]
    (folder / "llama_past.tokens").write_text("\n".join(lines) + "\n")

    rows = 4  # The past has so many while it is traced.
    past = [torch.randn(1, 2, rows, 16) for _ in range(2 * LAYERS)]
    pasts = [f"past_key_values.{layer}.{name}" for layer in range(LAYERS) for name in ("key", "value")]
    presents = [name.replace("past_key_values", "present") for name in pasts]
    inputs = (torch.tensor([[1]]), torch.ones(1, rows + 1, dtype=torch.int64), torch.tensor([[rows]]), *past)
    names = {
        "input_names": ["input_ids", "attention_mask", "position_ids", *pasts],
        "output_names": ["logits", *presents],
    }
    torch.onnx.export(
        Decoder(model),
        inputs,
        str(folder / "llama_past.onnx"),
        **names,
        dynamic_axes={name: {2: "past"} for name in pasts}
        | {name: {2: "total"} for name in presents}
        | {"attention_mask": {1: "total"}},
        opset_version=17,
        dynamo=False,
    )
    path = folder / "llama_past.dynamo.onnx"
    any_size = torch.export.Dim.DYNAMIC
    torch.onnx.export(
        Decoder(model),
        inputs,
        str(path),
        **names,
        dynamic_shapes=({}, {1: any_size}, {}, tuple({2: any_size} for _ in past)),
        dynamo=True,
        external_data=False,
    )
    written = onnx.load(path)  # Half of it says where in PyTorch's sources each node comes from.
    for item in (*written.graph.node, *written.graph.input, *written.graph.output, *written.graph.value_info):
        item.ClearField("metadata_props")
    written.graph.ClearField("metadata_props")
    onnx.save(written, path)


if __name__ == "__main__":
    main()
