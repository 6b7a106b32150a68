"""
Find the alignment heads of a Qwen3-ASR model from clips with known word times.

    python -m wlk_qwen3_simul.detect_heads MODEL --manifest CLIPS.jsonl --output heads.json

Each clip costs one forward: the decoder is given the transcript, and the attention peak of every
head is compared with the spoken word.  Each token is scored at two steps, the one that predicts it
and the one whose input it is.  The file contains the better of the two conventions, and the heads
whose score, corrected for chance, is close to the best.  A hundred clips of ten words are enough.
"""
