import assert from "node:assert/strict";
import { test } from "node:test";

import { Transcript } from "../page/transcript.js";
import { endsSentence, textOf, timedWords } from "../page/words.js";

const record = (word, start, end = start + 0.3, fields = {}) => ({ word, start, end, confidence: 0.9, ...fields });
const delta = (text, words, item = "a") => ({
  type: "conversation.item.input_audio_transcription.delta",
  item_id: item,
  delta: text,
  words,
});
const hypothesis = (text, words, item = "a") => ({ type: "wlk.hypothesis", item_id: item, text, words });
const completed = (item = "a") => ({
  type: "conversation.item.input_audio_transcription.completed",
  item_id: item,
  transcript: "",
  words: [],
});

function applied(...messages) {
  const transcript = new Transcript();
  for (const message of messages) transcript.apply(message);
  return transcript;
}

const texts = (transcript) => transcript.lines.map((line) => textOf(line.words));
const clauses = (line) => line.clauses.map(textOf);

test("deltas join to a line, which their item closes", () => {
  const transcript = applied(delta("one", [record("one", 0)]), delta(" two", [record("two", 0.5)]));

  assert.deepEqual(texts(transcript), ["one two"]);
  assert.ok(!transcript.lines[0].isClosed);
  transcript.apply(completed());
  assert.ok(transcript.lines[0].isClosed);
});

test("text without spaces gets none", () => {
  const transcript = applied(delta("今日は晴れ", [record("今日", 0), record("は", 0.4), record("晴れ", 0.6)]));

  assert.deepEqual(texts(transcript), ["今日は晴れ"]);
});

test("words keep white space, punctuation and text that has no word record", () => {
  const words = timedWords(" Well , yes .", [record("Well", 0), record("", 0.2), record("yes", 0.4)], 10);

  assert.deepEqual(words.map((word) => word.text), [" Well", " , yes ."]);
  assert.equal(words[0].start, 10);
});

test("a hypothesis follows the committed words and is replaced", () => {
  const transcript = applied(
    delta("one", [record("one", 0)]),
    hypothesis(" too", [record("too", 0.5)]),
    hypothesis(" two three", [record("two", 0.5), record("three", 1)]),
  );

  assert.equal(transcript.lines.length, 1);
  assert.equal(textOf(transcript.lines[0].pending), "two three");
  assert.equal(transcript.end, 1.3);
  transcript.apply(delta(" two", [record("two", 0.5)]));
  assert.deepEqual(transcript.lines[0].pending, []);
});

test("a pause is marked before the next line", () => {
  const transcript = applied(
    delta("one", [record("one", 0)]),
    completed(),
    delta("two", [record("two", 9)], "b"),
    delta("three", [record("three", 10)], "c"),
  );

  assert.deepEqual(transcript.lines.map((line) => Math.round(line.pause)), [0, 9, 0]);
});

test("a pause inside an item begins a line", () => {
  const transcript = applied(delta("one two", [record("one", 0), record("two", 5)]));

  assert.deepEqual(texts(transcript), ["one", "two"]);
});

test("another speaker begins a line", () => {
  const transcript = applied(
    delta("yes no", [record("yes", 0, 0.3, { speaker: "A" }), record("no", 0.4, 0.7, { speaker: "B" })]),
  );

  assert.deepEqual(transcript.lines.map((line) => line.speaker), ["A", "B"]);
});

test("a clause ends with its sentence, with a breath and with its line", () => {
  const words = ["Yes.", "It", "is."].map((word, i) => record(word, i * 0.3));
  const transcript = applied(
    delta("Yes. It is.", words),
    delta(" and", [record("and", 1)]),
    delta(" then", [record("then", 2.2)]),
  );

  assert.deepEqual(clauses(transcript.lines[0]), ["Yes.", "It is.", "and"]);
  assert.equal(textOf(transcript.lines[0].open), "then");
  transcript.apply(completed());
  assert.equal(clauses(transcript.lines[0]).at(-1), "then");
});

test("a long clause without punctuation ends after twenty words", () => {
  const words = Array.from({ length: 45 }, (_, i) => record("so", i * 0.3));
  const transcript = applied(delta(words.map(() => "so").join(" "), words));

  assert.deepEqual(transcript.lines[0].clauses.map((clause) => clause.length), [20, 20]);
});

test("speech without a pause becomes paragraphs of whole sentences", () => {
  const words = Array.from({ length: 100 }, (_, i) => record(i % 10 === 9 ? "so." : "so", i * 0.3));
  const transcript = applied(delta(words.map(({ word }) => word).join(" "), words));

  assert.deepEqual(transcript.lines.map((line) => line.words.length), [50, 50]);
});

test("an interruption closes a line and drops its hypothesis", () => {
  const transcript = applied(delta("one", [record("one", 0)]), hypothesis(" two", [record("two", 1)]));
  transcript.note("3 s are missing");

  assert.deepEqual(transcript.lines[0].pending, []);
  assert.equal(transcript.lines[1].note, "3 s are missing");
  assert.equal(transcript.words.length, 1);
});

test("an engine that fails leaves a note", () => {
  const failed = { type: "conversation.item.input_audio_transcription.failed", item_id: "a", error: { message: "no" } };

  assert.equal(applied(delta("one", [record("one", 0)]), failed).lines.at(-1).note, "no");
});

test("a sentence ends in any script, and not with an abbreviation", () => {
  const ends = ["Go.", "go?”", "走。", "گیا۔", "եկավ։", "ሄደ።", "មក។", "गया॥", "No.", "2024."];
  const others = ["Dr.", "U.S.", "p.m.", "4.", "J.", "go", "go,"];

  assert.deepEqual([...ends, ...others].filter(endsSentence), ends);
});

test("a line has the chosen language, and the detected one when its item is complete", () => {
  const transcript = new Transcript();
  const languages = () => transcript.lines.map((line) => line.language);
  transcript.apply(delta("one", [record("one", 0)]));
  assert.deepEqual(languages(), [""]);
  transcript.language = "en";
  transcript.apply(delta("zwei", [record("zwei", 5)], "b"));
  assert.deepEqual(languages(), ["", "en"]);
  transcript.apply({ ...completed("b"), words: [record("zwei", 5, 5.3, { speaker: "A" })], languages: [{ code: "de" }, { code: "fr" }] });
  transcript.apply(delta("drei", [record("drei", 10)], "c"));

  assert.deepEqual(languages(), ["", "de", "de"]);
});
