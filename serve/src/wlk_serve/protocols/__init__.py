"""
The interface for plugins that add a protocol: everything that their authors need.

A plugin implements the hook `wlk_protocols`, which declares protocols by name.  Each loads a
function that returns routes: a route has an address and opens sessions, and each session has an
object that speaks the protocol.  docs/protocols.md has an example.

The server stands on this package, which imports nothing of it but its errors.
"""

from __future__ import annotations

from wlk_live.vad import GateParameters
from wlk_serve.errors import RequestError, as_request_error, converted, error_response, invalid
from wlk_serve.protocols.audio import SegmentEnd, SessionAudio, StreamSegment
from wlk_serve.protocols.card import ModelCard
from wlk_serve.protocols.installed import installed_routes
from wlk_serve.protocols.options import StreamOptions, TranscriptionRequest
from wlk_serve.protocols.routes import (
    ClientProtocol,
    CloseSocket,
    Handshake,
    Message,
    Opening,
    RecordingRequest,
    RecordingRoute,
    Resumption,
    SessionInfo,
    SocketRoute,
    TcpRoute,
    header_keys,
)
from wlk_serve.protocols.webm import DAMAGED_AUDIO, WEBM_START, WebmDecoder

__all__ = [
    "DAMAGED_AUDIO",
    "WEBM_START",
    "ClientProtocol",
    "CloseSocket",
    "GateParameters",
    "Handshake",
    "Message",
    "ModelCard",
    "Opening",
    "RecordingRequest",
    "RecordingRoute",
    "RequestError",
    "Resumption",
    "SegmentEnd",
    "SessionAudio",
    "SessionInfo",
    "SocketRoute",
    "StreamOptions",
    "StreamSegment",
    "TcpRoute",
    "TranscriptionRequest",
    "WebmDecoder",
    "as_request_error",
    "converted",
    "error_response",
    "header_keys",
    "installed_routes",
    "invalid",
]
