"""ONNX files with the metadata of streaming models, small enough to write by hand."""

from __future__ import annotations

import numpy as np

FLOAT, INT64, INTS = 1, 7, 7  # ONNX types of tensors, and of an attribute
BEEP_FRAMES = 8  # feature frames of 10 ms per encoder frame
LOUD = -6.0  # mean mel power, in nepers
BEEP_CACHES = {"cache_last_channel": (1, 2, 3), "cache_last_time": (1, 3, 2)}


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


def metadata(**values):
    """Encode the metadata of an ONNX file; later entries replace earlier ones."""
    entries = (field(1, key) + field(2, str(value)) for key, value in values.items())
    return b"".join(field(14, entry) for entry in entries)


def port(name, *sizes, kind=FLOAT):
    """Encode the ValueInfoProto of a tensor with a leading batch dimension."""
    shape = b"".join(field(1, field(1, size)) for size in sizes)
    shape = field(1, field(2, "N")) + shape
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))


def node(kind, inputs, output, **attributes):
    """Encode the NodeProto of an operator whose attributes are lists of numbers."""
    message = b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, kind)
    for name, values in attributes.items():
        numbers = b"".join(field(8, each) for each in values)
        message += field(5, field(1, name) + numbers + field(20, INTS))
    return message


def constant(name, array):
    """Encode the TensorProto of an array."""
    sizes = b"".join(field(1, size) for size in array.shape)
    return sizes + field(2, FLOAT) + field(8, name) + field(9, array.astype("<f4").tobytes())


def write_beeps(folder):
    """Write a CTC model in the layout of NeMo that emits " beep" for each burst of sound."""
    weights = np.zeros((3, 80, BEEP_FRAMES))
    weights[0] = 1 / weights[0].size  # the mean of a frame; below LOUD, the blank wins
    caches = [port(name, *sizes) for name, sizes in BEEP_CACHES.items()]
    lengths = [port(name, kind=INT64) for name in ("length", "cache_last_channel_len")]
    names = ["length", *BEEP_CACHES, "cache_last_channel_len"]
    nodes = [
        node("Conv", ["audio_signal", "w", "b"], "c", strides=[BEEP_FRAMES]),
        node("Transpose", ["c"], "logprobs", perm=[0, 2, 1]),
        *(node("Identity", [name], f"next_{name}") for name in names),
    ]
    outputs = [port(f"next_{name}", *sizes) for name, sizes in BEEP_CACHES.items()]
    outputs = [port("next_length", kind=INT64), *outputs]
    outputs += [port("next_cache_last_channel_len", kind=INT64)]
    window = 3 * BEEP_FRAMES - 1  # two encoder frames, and part of the next
    graph = b"".join(field(1, each) for each in nodes) + field(2, "beeps")
    graph += field(5, constant("w", weights)) + field(5, constant("b", np.array([0, -99, LOUD])))
    for each in (port("audio_signal", 80, window), lengths[0], *caches, lengths[1]):
        graph += field(11, each)
    for each in (port("logprobs", 2, 3), *outputs):
        graph += field(12, each)
    sizes = {
        f"{name}_dim{number}": size
        for name, dimensions in BEEP_CACHES.items()
        for number, size in enumerate(dimensions, start=1)
    }
    declared = metadata(
        model_type="EncDecCTCModelBPE",
        window_size=window,
        chunk_shift=2 * BEEP_FRAMES,
        subsampling_factor=BEEP_FRAMES,
        vocab_size=2,  # without the blank
        **sizes,
    )
    model = field(1, 8) + field(7, graph) + field(8, field(2, 13)) + declared  # opset 13
    (folder / "model.onnx").write_bytes(model)
    (folder / "tokens.txt").write_text("▁beep 0\n<unk> 1\n<blk> 2\n", encoding="utf-8")
