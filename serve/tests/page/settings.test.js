import assert from "node:assert/strict";
import { test } from "node:test";

import { notice } from "../page/notices.js";
import { SETTINGS, parse, show, stepped } from "../page/settings.js";

test("missing and invalid settings get their defaults", () => {
  const preset = parse("");

  assert.equal(preset.theme, "auto");
  for (const text of ["null", "{", "[]", '{"theme": "pink", "size": 9, "source": 1}', '{"theme": "toString"}']) {
    assert.deepEqual(parse(text), preset);
  }
});

test("settings are read as they were stored", () => {
  const settings = { ...parse(""), theme: "contrast", size: "6", language: "de", source: "abc" };

  assert.deepEqual(parse(JSON.stringify(settings)), settings);
});

test("every default is one of the choices", () => {
  for (const [, , choices, preset] of Object.values(SETTINGS)) {
    assert.ok(!choices || Object.hasOwn(choices, preset));
  }
});

test("the text size stops at the largest, and colours wrap around", () => {
  let settings = parse("");
  for (let i = 0; i < 9; i++) settings = stepped(settings, "size", 1);
  assert.equal(settings.size, "6");
  for (let i = 0; i < 9; i++) settings = stepped(settings, "size", -1);
  assert.equal(settings.size, "1");
  const themes = Array.from({ length: 5 }, () => (settings = stepped(settings, "theme", 1, true)).theme);
  assert.deepEqual(themes, ["light", "dark", "contrast", "auto", "light"]);
});

test("the style sheet gets the reading settings", () => {
  const root = { dataset: {} };
  show(parse(""), root);

  assert.deepEqual(root.dataset, { theme: "auto", font: "serif", languages: "both", size: "3", times: "on" });
});

test("a notice includes the server's message if it helps", () => {
  assert.equal(notice("refused", "no such language"), "The server refused: no such language");
  assert.equal(notice("silent", "x"), notice("silent"));
});
