from wlk_core.audio import to_float32 as to_float32
from wlk_core.backend import Backend as Backend
from wlk_core.backend import BackendSpec as BackendSpec
from wlk_core.errors import AudioFormatError as AudioFormatError
from wlk_core.errors import BackendError as BackendError
from wlk_core.errors import BackendUnavailable as BackendUnavailable
from wlk_core.errors import ClockError as ClockError
from wlk_core.errors import ConcurrentCallError as ConcurrentCallError
from wlk_core.errors import ModelNotFoundError as ModelNotFoundError
from wlk_core.errors import OptionError as OptionError
from wlk_core.errors import StreamBroken as StreamBroken
from wlk_core.errors import StreamClosed as StreamClosed
from wlk_core.errors import WLKError as WLKError
from wlk_core.hookspecs import hookimpl as hookimpl
from wlk_core.processor import EPS as EPS
from wlk_core.processor import SAMPLE_RATE as SAMPLE_RATE
from wlk_core.processor import OnlineProcessor as OnlineProcessor
from wlk_core.processor import StreamStats as StreamStats
from wlk_core.processor import SupportsCatchUp as SupportsCatchUp
from wlk_core.processor import SupportsSpeakerTurns as SupportsSpeakerTurns
from wlk_core.registry import load_backend as load_backend
from wlk_core.tokens import ASRToken as ASRToken
from wlk_core.tokens import ChangeSpeaker as ChangeSpeaker
from wlk_core.tokens import Emission as Emission
from wlk_core.tokens import Silence as Silence
from wlk_core.tokens import Transcript as Transcript

__version__: str
