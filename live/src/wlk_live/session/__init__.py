"""Sessions: run the audio of a file, a pipe or a live source through a stream, as events."""

from __future__ import annotations

from wlk_live.session.events import AudioGap as AudioGap
from wlk_live.session.events import Commit as Commit
from wlk_live.session.events import End as End
from wlk_live.session.events import Endpoint as Endpoint
from wlk_live.session.events import Event as Event
from wlk_live.session.events import Failure as Failure
from wlk_live.session.events import HypothesisChange as HypothesisChange
from wlk_live.session.events import Lag as Lag
from wlk_live.session.events import LatencySummary as LatencySummary
from wlk_live.session.events import Marked as Marked
from wlk_live.session.events import SilenceSpan as SilenceSpan
from wlk_live.session.events import SpeakerTurn as SpeakerTurn
from wlk_live.session.events import SpeechStarted as SpeechStarted
from wlk_live.session.events import Translation as Translation
from wlk_live.session.recordings import Transcription as Transcription
from wlk_live.session.recordings import transcribe as transcribe
from wlk_live.session.recordings import transcribe_many as transcribe_many
from wlk_live.session.session import Session as Session
from wlk_live.session.streams import astream as astream
from wlk_live.session.streams import stream as stream
from wlk_live.session.timeline import Timeline as Timeline
