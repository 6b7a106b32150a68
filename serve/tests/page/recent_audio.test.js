import assert from "node:assert/strict";
import { test } from "node:test";

import { RecentAudio } from "../page/recent_audio.js";

const RATE = 10; // samples per second, so that minutes have few samples

function counted(blocks, size = 7) {
  const audio = new RecentAudio(RATE);
  for (let i = 0; i < blocks; i++) {
    audio.append(Int16Array.from({ length: size }, (_, j) => i * size + j + 1));
  }
  return audio;
}

test("every range of kept samples is read as it was appended", () => {
  const audio = counted(6, 3);

  for (let start = 0; start < audio.end; start++) {
    for (let end = start; end <= audio.end; end++) {
      const expected = Array.from({ length: end - start }, (_, i) => start + i + 1);
      assert.deepEqual([...audio.read(start, end)], expected);
    }
  }
});

test("two minutes are kept, and older samples are read as silence", () => {
  const audio = counted(300);

  assert.ok(audio.end - audio.start <= 120 * RATE);
  assert.ok(audio.end - audio.start > 119 * RATE);
  const around = [...audio.read(audio.start - 2, audio.start + 2)];
  assert.deepEqual(around, [0, 0, audio.start + 1, audio.start + 2]);
});
