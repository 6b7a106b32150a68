"""
The command that finds the alignment heads of a Qwen3-ASR from clips with known word times.

    python -m wlk_qwen3_simul.detect_heads MODEL --manifest CLIPS.jsonl --output heads.json

Each clip costs one forward: the decoder is given the transcript, and the attention peak of every
head is compared with the spoken word.  Each token is scored at two steps, the one that predicts it
and the one it is fed at.  The file holds the better of the two conventions, and the heads whose
score, corrected for chance, is close to the best.  A hundred clips of ten words each are enough.
"""
