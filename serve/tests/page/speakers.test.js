import assert from "node:assert/strict";
import { test } from "node:test";

import { Transcript } from "../page/transcript.js";
import { textOf } from "../page/words.js";

const OFFSET = 0.1; // of the session in the transcript; sums with it are inexact
const record = (word, start, speaker, end = start + 0.3) => ({ word, start, end, confidence: 0.9, speaker });
const message = (kind, words, item) => ({
  type: `conversation.item.input_audio_transcription.${kind}`,
  item_id: item,
  [kind === "delta" ? "delta" : "text"]: words.map(({ word }) => ` ${word}`).join(""),
  words,
});

/** Return a transcript of one delta and the end of an item, for each list of records. */
function spoken(...items) {
  const transcript = new Transcript();
  items.forEach((records, item) => {
    transcript.apply(message("delta", records, item), OFFSET);
    transcript.apply(message("completed", records, item), OFFSET);
  });
  return transcript;
}

const find = (transcript, records, item = 0) => transcript.apply(message("segment", records, item), OFFSET);
const lines = (transcript) => transcript.lines.map(({ words, speaker }) => [speaker, textOf(words)]);

test("a speaker found later labels the line, which stays the same line", () => {
  const records = [record("one", 0), record("two", 0.4)];
  const transcript = spoken(records);
  const [line] = transcript.lines;
  find(transcript, records.map((each) => ({ ...each, speaker: "A" })));

  assert.deepEqual(lines(transcript), [["A", "one two"]]);
  assert.equal(transcript.lines[0], line);
});

test("two speakers found later divide the line", () => {
  const transcript = spoken([record("one", 0), record("two", 0.4), record("three", 0.8)]);
  find(transcript, [record("one", 0, "A")]);
  find(transcript, [record("two", 0.4, "B"), record("three", 0.8, "B")]);

  assert.deepEqual(lines(transcript), [["A", "one"], ["B", "two three"]]);
  assert.ok(transcript.lines.every(({ isClosed, open }) => isClosed && !open.length));
});

test("a line divided by partly known speakers is joined again", () => {
  const transcript = spoken([record("one", 0, "A"), record("two", 0.4)]);
  assert.deepEqual(lines(transcript), [["A", "one"], [null, "two"]]);
  find(transcript, [record("one", 0, "A"), record("two", 0.4, "A")]);

  assert.deepEqual(lines(transcript), [["A", "one two"]]);
});

test("speakers known at the end of an item label its first words", () => {
  const transcript = new Transcript();
  transcript.apply(message("delta", [record("one", 0)], 0));
  transcript.apply(message("completed", [record("one", 0, "A")], 0));

  assert.deepEqual(lines(transcript), [["A", "one"]]);
});

test("speakers of an item change neither later lines nor the current line", () => {
  const transcript = spoken([record("one", 0), record("two", 0.4)], [record("three", 5)]);
  transcript.note("a note");
  transcript.apply(message("delta", [record("four", 9)], 2), OFFSET);
  const [, three, note, four] = transcript.lines;
  find(transcript, [record("one", 0, "A")]);
  find(transcript, [record("two", 0.4, "B")]);
  transcript.apply(message("delta", [record("five", 9.4)], 2), OFFSET);

  assert.deepEqual(lines(transcript), [["A", "one"], ["B", "two"], [null, "three"], [null, ""], [null, "four five"]]);
  assert.deepEqual(transcript.lines.slice(2), [three, note, four]);
  assert.ok(!four.isClosed);
});

test("words with the same times get the same speaker", () => {
  const records = [record("one", 1, undefined, 1), record("two", 1, undefined, 1)];
  const transcript = spoken(records);
  find(transcript, records.map((each) => ({ ...each, speaker: "A" })));

  assert.deepEqual(lines(transcript), [["A", "one two"]]);
});

test("the pause before a line stays before its first part", () => {
  const transcript = spoken([record("one", 0)], [record("two", 9), record("three", 9.4)]);
  find(transcript, [record("two", 9, "A")], 1);
  find(transcript, [record("three", 9.4, "B")], 1);

  assert.deepEqual(transcript.lines.map(({ pause }) => Math.round(pause)), [0, 9, 0]);
});

test("segments of words that the reader has removed bring nothing back", () => {
  const transcript = spoken([record("one", 0)]);
  transcript.clear();
  find(transcript, [record("one", 0, "A")]);

  assert.deepEqual(transcript.lines, []);
});

test("a name given by the reader is shown for every line of the speaker, and an empty one takes it back", () => {
  const transcript = spoken([record("one", 0, "Speaker 1")], [record("two", 5, "Speaker 2")]);
  transcript.rename("Speaker 1", "Anna");
  find(transcript, [record("two", 5, "Speaker 1")], 1);

  assert.deepEqual(transcript.lines.map(({ speaker }) => transcript.named(speaker)), ["Anna", "Anna"]);
  assert.deepEqual(transcript.speakers, ["Speaker 1"]);
  transcript.rename("Speaker 1", "");
  assert.equal(transcript.named("Speaker 1"), "Speaker 1");
});
