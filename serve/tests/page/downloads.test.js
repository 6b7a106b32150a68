import assert from "node:assert/strict";
import { test } from "node:test";

import { WRITERS, captions } from "../page/downloads.js";
import { Transcript } from "../page/transcript.js";
import { clock } from "../page/words.js";

function spoken(text, { speaker = null, start = 0, step = 0.4 } = {}) {
  return text.split(" ").map((word, i) => ({
    text: ` ${word}`,
    start: start + i * step,
    end: start + i * step + 0.3,
    confidence: 0.5,
    speaker,
  }));
}

function transcriptOf(...parts) {
  const transcript = new Transcript();
  parts.forEach((words, i) => {
    const records = words.map((word) => ({ ...word, word: word.text.trim() }));
    const text = words.map((word) => word.text).join("").trim();
    transcript.apply({ type: "x.delta", item_id: i, delta: text, words: records });
    transcript.apply({ type: "x.completed", item_id: i });
  });
  return transcript;
}

const sample = () =>
  transcriptOf(spoken("Is a < b & c?", { speaker: "A" }), spoken("Yes.", { speaker: "Ann", start: 3661.5 }));

test("a text file has a line for each line of the page", () => {
  assert.equal(WRITERS.txt(sample()), "A: Is a < b & c?\nAnn: Yes.\n");
});

test("a text file has the notes of the page", () => {
  const transcript = transcriptOf(spoken("one"));
  transcript.note("3 s are missing");

  assert.equal(WRITERS.txt(transcript), "one\n[3 s are missing]\n");
});

test("subtitles have numbers, times with a comma and speakers", () => {
  const expected =
    "1\n00:00:00,000 --> 00:00:02,300\nA: Is a < b & c?\n\n2\n01:01:01,500 --> 01:01:02,500\nAnn: Yes.\n";

  assert.equal(WRITERS.srt(sample()), expected);
});

test("web subtitles have voice tags, and their text is escaped", () => {
  const expected =
    "WEBVTT\n\n00:00:00.000 --> 00:00:02.300\n<v A>Is a &lt; b &amp; c?\n\n01:01:01.500 --> 01:01:02.500\n<v Ann>Yes.\n";

  assert.equal(WRITERS.vtt(sample()), expected);
});

test("a time is rounded to milliseconds before it is divided into hours", () => {
  const end = (start) => WRITERS.srt(transcriptOf(spoken("end", { start }))).split("\n")[1].split(" ")[0];

  const times = ["00:00:00,000", "00:00:59,999", "00:01:00,000", "01:00:00,000", "100:00:00,000"];
  assert.deepEqual([0, 59.9994, 59.9996, 3599.9996, 360_000].map(end), times);
});

test("json has every word with its times, confidence and speaker", () => {
  const { text, words } = JSON.parse(WRITERS.json(sample()));

  assert.equal(text, "Is a < b & c?\nYes.");
  assert.equal(words.length, 7);
  assert.deepEqual(words.at(-1), { word: "Yes.", start: 3661.5, end: 3661.8, confidence: 0.5, speaker: "Ann" });
});

test("captions are short, have at most two rows, and lose no word", () => {
  const words = spoken(Array.from({ length: 200 }, (_, i) => `word${i}`).join(" "));
  const found = captions(words);

  for (const { text, start, end } of found) {
    assert.ok(text.split("\n").length <= 2);
    assert.ok(text.length <= 85);
    assert.ok(end > start && end - start <= 6.5);
  }
  const joined = found.map(({ text }) => text.replace("\n", " ")).join(" ");
  assert.equal(joined, words.map(({ text }) => text.trim()).join(" "));
});

test("captions do not overlap", () => {
  const found = captions([...spoken("one", { speaker: "A" }), ...spoken("two", { speaker: "B", start: 0.4 })]);

  assert.equal(found[0].end, found[1].start);
});

test("an empty transcript makes empty files", () => {
  const transcript = new Transcript();

  assert.equal(WRITERS.txt(transcript), "");
  assert.equal(WRITERS.srt(transcript), "");
  assert.equal(WRITERS.vtt(transcript), "WEBVTT\n");
});

test("a clock shows hours if there are any", () => {
  assert.deepEqual([0, 61.9, 3600].map(clock), ["0:00", "1:01", "1:00:00"]);
});
