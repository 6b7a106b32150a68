"""A model with the inputs and outputs of smart-turn v3, small enough to write by hand."""

from __future__ import annotations

import numpy as np

_FLOAT = 1  # the ONNX type of tensors


def varint(number):
    """Encode a number as a protobuf varint."""
    low, high = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(high) if high else bytes([low])


def field(number, value):
    """Encode a field of a protobuf message: an integer, a string, or another message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def port(name, *sizes):
    """Encode the ValueInfoProto of a float tensor."""
    shape = b"".join(field(1, field(1, size)) for size in sizes)
    return field(1, name) + field(2, field(1, field(1, _FLOAT) + field(2, shape)))


def node(kind, inputs, output):
    """Encode the NodeProto of an operator without attributes."""
    return b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, kind)


def constant(name, array):
    """Encode the TensorProto of an array."""
    sizes = b"".join(field(1, size) for size in array.shape)
    return sizes + field(2, _FLOAT) + field(8, name) + field(9, array.astype("<f4").tobytes())


def tiny_model(*, slope=1.0, bias=0.0, bands=80, last="Sigmoid"):
    """Return a model whose logit is the mean of the features times *slope*, plus *bias*."""
    weights = np.full((bands * 800, 1), slope / (bands * 800))
    nodes = [
        node("Flatten", ["input_features"], "flat"),
        node("Gemm", ["flat", "weights", "bias"], "mean"),
        node(last, ["mean"], "logits"),
    ]
    graph = b"".join(field(1, each) for each in nodes) + field(2, "tiny")
    graph += field(5, constant("weights", weights)) + field(5, constant("bias", np.array([bias])))
    graph += field(11, port("input_features", 1, bands, 800)) + field(12, port("logits", 1, 1))
    return field(1, 8) + field(7, graph) + field(8, field(2, 13))
