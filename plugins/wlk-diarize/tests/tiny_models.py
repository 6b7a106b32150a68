"""Models with the interfaces of the published ones, small enough to write by hand."""

from __future__ import annotations

import numpy as np

_FLOAT, _INT, _INTS = 1, 2, 7  # ONNX types of tensors and attributes
_LEVEL = 0.02  # amplitude below which nobody is speaking


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
    """Encode the ValueInfoProto of a float tensor; a size is a number or a name."""
    shape = b"".join(field(1, field(1 if isinstance(size, int) else 2, size)) for size in sizes)
    return field(1, name) + field(2, field(1, field(1, _FLOAT) + field(2, shape)))


def node(kind, inputs, output, **attributes):
    """Encode the NodeProto of an operator; an attribute is a number or a list of numbers."""
    message = b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, kind)
    for name, value in attributes.items():
        values = (
            [field(8, each) for each in value] if isinstance(value, list) else [field(3, value)]
        )
        kinds = _INTS if isinstance(value, list) else _INT
        message += field(5, field(1, name) + b"".join(values) + field(20, kinds))
    return message


def constant(name, array):
    """Encode the TensorProto of an array."""
    sizes = b"".join(field(1, size) for size in array.shape)
    return sizes + field(2, _FLOAT) + field(8, name) + field(9, array.astype("<f4").tobytes())


def model(nodes, source, target, constants=()):
    """Encode a model of opset 13."""
    graph = b"".join(field(1, each) for each in nodes) + field(2, "tiny")
    graph += b"".join(field(5, each) for each in constants)
    graph += field(11, source) + field(12, target)
    return field(1, 8) + field(7, graph) + field(8, field(2, 13))


def segmentation(classes=7):
    """Return a model that finds one speaker in samples above 0, and another one below."""
    weights = np.zeros((classes, 1, 991))
    weights[1], weights[2] = 1 / 991, -1 / 991
    least = np.array([_LEVEL, 0.0, 0.0, *[-1.0] * (classes - 3)])
    nodes = [
        node("Conv", ["x", "w", "b"], "c", strides=[270]),
        node("Transpose", ["c"], "y", perm=[0, 2, 1]),
    ]
    ports = port("x", 1, 1, "samples"), port("y", 1, "frames", classes)
    return model(nodes, *ports, [constant("w", weights), constant("b", least)])


def embedding(name="features"):
    """Return a model whose embedding is the squared variance of each mel band."""
    nodes = [
        node("Mul", [name, name], "power"),
        node("ReduceMean", ["power"], "variance", axes=[1], keepdims=0),
        node("Mul", ["variance", "variance"], "embs"),
    ]
    return model(nodes, port(name, 1, "frames", 80), port("embs", 1, 80))
