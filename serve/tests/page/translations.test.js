import assert from "node:assert/strict";
import { test } from "node:test";

import { newest } from "../page/broadcast.js";
import { WRITERS } from "../page/downloads.js";
import { Transcript } from "../page/transcript.js";
import { textOf } from "../page/words.js";

const OFFSET = 0.1; // of the session in the transcript; sums with it are inexact
const record = (word, start, speaker) => ({ word, start, end: start + 0.3, confidence: 0.9, speaker });

/** Return a transcript in which each list of records is an item. */
function spoken(...items) {
  const transcript = new Transcript();
  items.forEach((words, item) => {
    const delta = words.map(({ word }) => ` ${word}`).join("");
    transcript.apply({ type: "x.delta", item_id: item, delta, words }, OFFSET);
    transcript.apply({ type: "x.completed", item_id: item, words, languages: [{ code: "en" }] }, OFFSET);
  });
  return transcript;
}

function translate(transcript, text, start) {
  transcript.apply({ type: "wlk.translation", text, start, end: start + 1, language: "de" }, OFFSET);
}

const lines = ({ lines }) => lines.map(({ words, translations }) => [textOf(words), ...translations.map(({ text }) => text)]);

test("a translation belongs to the line in which it begins, also if it comes after the next line", () => {
  const transcript = spoken([record("one", 0), record("two", 0.4)], [record("three", 5)]);
  translate(transcript, "eins", 0);
  translate(transcript, "zwei", 0.4);
  translate(transcript, "drei", 5);

  assert.deepEqual(lines(transcript), [["one two", "eins", "zwei"], ["three", "drei"]]);
});

test("translations move with their words when late speakers divide the line", () => {
  const transcript = spoken([record("one", 0), record("two", 0.4)]);
  translate(transcript, "eins", 0);
  translate(transcript, "zwei", 0.4);
  const words = [record("one", 0, "A"), record("two", 0.4, "B")];
  transcript.apply({ type: "x.segment", item_id: 0, words }, OFFSET);

  assert.deepEqual(lines(transcript), [["one", "eins"], ["two", "zwei"]]);
});

test("a translation of words that the reader has removed is dropped", () => {
  const transcript = spoken([record("one", 0)]);
  transcript.clear();
  translate(transcript, "eins", 0);
  transcript.apply({ type: "x.delta", item_id: 1, delta: "two", words: [record("two", 3)] }, OFFSET);
  translate(transcript, "eins", 0);

  assert.deepEqual(lines(transcript), [["two"]]);
});

test("every file and the caption window have both languages and the given names", () => {
  const transcript = spoken([record("one", 0, "Speaker 1")], [record("two", 5, "Speaker 1")]);
  translate(transcript, "eins", 0);
  transcript.rename("Speaker 1", "Anna");
  const { words, translations } = JSON.parse(WRITERS.json(transcript));

  assert.equal(WRITERS.txt(transcript), "Anna: one\n  eins\nAnna: two\n");
  assert.match(WRITERS.srt(transcript), /^1\n.*\nAnna: one\neins\n\n2\n.*\nAnna: two\n$/);
  assert.match(WRITERS.vtt(transcript), /\n<v Anna>one\neins\n\n.*\n<v Anna>two\n$/);
  assert.deepEqual(words.map(({ speaker }) => speaker), ["Anna", "Anna"]);
  assert.deepEqual(translations, [{ start: 0.1, end: 1.1, text: "eins", language: "de" }]);
  assert.deepEqual(newest(transcript), [
    { speaker: "Anna", solid: " one", pending: "", language: "en", translation: "eins", target: "de" },
    { speaker: "Anna", solid: " two", pending: "", language: "en", translation: "", target: "" },
  ]);
});
