import assert from "node:assert/strict";
import { test } from "node:test";

import { Connection } from "../page/connection.js";

const RATE = 1000;
const created = (token) => ({ type: "session.created", session: { wlk: { resume: { token, seconds: 30 } } } });
const MODEL = { model: "base", language: "en" };
const UPDATED = {
  type: "session.updated",
  wlk_seq: 1,
  session: { audio: { input: { transcription: MODEL } } },
};
const delta = (text, end, number) => ({
  type: "conversation.item.input_audio_transcription.delta",
  item_id: "a",
  delta: text,
  end,
  wlk_seq: number,
});
const completed = (item, number) => ({
  type: "conversation.item.input_audio_transcription.completed",
  item_id: item,
  wlk_seq: number,
});
const segment = (item, number) => ({
  type: "conversation.item.input_audio_transcription.segment",
  item_id: item,
  speaker: "A",
  words: [],
  wlk_seq: number,
});
const stopped = (item, milliseconds, number) => ({
  type: "input_audio_buffer.speech_stopped",
  item_id: item,
  audio_end_ms: milliseconds,
  wlk_seq: number,
});

function live() {
  const connection = new Connection({ rate: RATE, random: () => 0.5 });
  connection.start();
  connection.admitted();
  connection.received(created("t1"), 0);
  connection.received(UPDATED, 0);
  return connection;
}

const kinds = (actions) => actions.map((action) => action.kind);
const find = (actions, kind) => actions.find((action) => action.kind === kind);
const delivered = (actions) => kinds(actions).includes("deliver");

function send(connection, samples) {
  const ranges = [];
  for (let range; (range = connection.takeRange(samples)); ) ranges.push(range);
  return ranges;
}

function reconnect(connection, message) {
  assert.deepEqual(kinds(connection.wake()), ["admit"]);
  const query = find(connection.admitted(), "connect").query;
  return [query, connection.received(message, connection.sent)];
}

test("a connection asks for resume, declares its rate, and sends audio once it is configured", () => {
  const connection = new Connection({ rate: RATE, language: "en" });

  assert.deepEqual(kinds(connection.start()), ["admit"]);
  assert.deepEqual(find(connection.admitted(), "connect").query, { wlk_resume: 1 });
  const [update] = connection.received(created("t1"), 0);
  const { input } = update.message.session.audio;
  assert.equal(update.message.type, "session.update");
  assert.deepEqual(input.format, { type: "audio/pcm", rate: RATE });
  assert.deepEqual(input.transcription, { language: "en" });
  assert.deepEqual(update.message.session.include, ["wlk.hypothesis", "wlk.translation", "wlk.lag"]);
  assert.equal(connection.takeRange(500), null);
  const actions = connection.received(UPDATED, 500);
  assert.deepEqual(find(actions, "report"), { kind: "report", state: "live", ...MODEL });
  assert.ok(kinds(actions).includes("pump"));
  assert.deepEqual(connection.takeRange(500), [0, 500]);
});

test("audio is sent once and in order, at most one second per message", () => {
  const connection = live();

  assert.deepEqual(send(connection, 2500), [[0, 1000], [1000, 2000], [2000, 2500]]);
  assert.deepEqual(send(connection, 2500), []);
  assert.deepEqual(send(connection, 2600), [[2500, 2600]]);
});

test("a cut is resumed after the last message, from the sample that the server lacks", () => {
  const connection = live();
  send(connection, 5000);
  connection.received(delta("one", 1, 2), 5000);

  const retry = connection.closed(1006);
  const [query, actions] = reconnect(connection, { type: "session.resumed", samples: 4200, messages: 6, wlk_seq: 2 });

  assert.equal(find(retry, "report").reason, "gone");
  assert.deepEqual(query, { wlk_resume: "t1", wlk_last_seq: 2 });
  assert.deepEqual(kinds(actions), ["report", "pump"]);
  assert.deepEqual(send(connection, 5100), [[4200, 5100]]);
});

test("a session whose client reads too slowly is resumed", () => {
  const connection = live();
  send(connection, 3000);
  connection.closed(1013);

  const [query] = reconnect(connection, { type: "session.resumed", samples: 3000, messages: 4, wlk_seq: 1 });

  assert.deepEqual(query, { wlk_resume: "t1", wlk_last_seq: 1 });
});

test("a session whose configuration was lost with its socket is configured again", () => {
  const connection = new Connection({ rate: RATE });
  connection.start();
  connection.admitted();
  connection.received(created("t1"), 0);
  connection.closed(1006);

  const [query, actions] = reconnect(connection, { type: "session.resumed", samples: 0, messages: 0, wlk_seq: 0 });

  assert.deepEqual(query, { wlk_resume: "t1", wlk_last_seq: 0 });
  assert.equal(find(actions, "send").message.type, "session.update");
});

test("a message that came before the loss is not delivered again", () => {
  const connection = live();
  assert.ok(delivered(connection.received(delta("one", 1, 2), 0)));
  connection.closed(1006);
  reconnect(connection, { type: "session.resumed", samples: 0, messages: 1, wlk_seq: 2 });

  assert.ok(!delivered(connection.received(delta("one", 1, 2), 0)));
  assert.ok(delivered(connection.received(delta(" two", 2, 3), 0)));
});

test("after an expired session, a new one begins where the final words end", () => {
  const connection = live();
  send(connection, 5000);
  connection.received(delta("one", 1.5, 2), 5000);
  connection.closed(1006);
  reconnect(connection, { type: "error", error: { code: "resume_expired", message: "expired" } });
  connection.closed(4404);

  const [query, actions] = reconnect(connection, created("t2"));

  assert.deepEqual(query, { wlk_resume: 1 });
  assert.equal(find(actions, "report").state, "renewed");
  assert.equal(find(actions, "report").missing, 0);
  connection.received(UPDATED, 5000);
  assert.deepEqual(send(connection, 5000)[0], [1500, 2500]);
  assert.equal(find(connection.received(delta("two", 1, 2), 5000), "deliver").seconds, 1.5);
});

test("audio that is no longer kept is reported as missing", () => {
  const connection = live();
  send(connection, 5000);
  connection.received(delta("one", 1, 2), 5000);
  connection.closed(1006);
  connection.grew(4000, 9000);
  reconnect(connection, { type: "error", error: { code: "resume_expired" } });
  connection.closed(4404);

  const [, actions] = reconnect(connection, created("t2"));

  assert.equal(find(actions, "report").missing, 3);
  assert.equal(connection.base, 4000);
});

function renew(connection) {
  connection.closed(1012);
  reconnect(connection, { type: "error", error: { code: "resume_expired" } });
  connection.closed(4404);
  reconnect(connection, created("t2"));
}

test("words that the server cut are replaced by those of the next session", () => {
  const connection = live();
  send(connection, 3000);
  connection.received(delta("one", 1.2, 2), 3000);
  connection.received({ type: "wlk.cut", wlk_seq: 3 }, 3000); // the server takes no more audio, perhaps in the middle of a word
  const forced = [delta(" tw", 3, 4), stopped("a", 3000, 5), completed("a", 6)];
  const actions = forced.flatMap((message) => connection.received(message, 3000));
  renew(connection);

  assert.deepEqual(actions, []);
  assert.equal(connection.base, 1200);
  connection.received(UPDATED, 3000);
  assert.ok(delivered(connection.received(delta("two", 2, 2), 3000)));
  assert.ok(!delivered(connection.abort()));
});

test("words that the server cut are delivered if no session follows", () => {
  const connection = live();
  send(connection, 3000);
  const last = [{ type: "wlk.cut", wlk_seq: 2 }, delta("one", 3, 3), completed("a", 4)];
  for (const message of last) assert.ok(!delivered(connection.received(message, 3000)));
  connection.closed(1012);
  connection.wake();
  const actions = connection.refused(403, "host");

  assert.deepEqual(kinds(actions), ["deliver", "deliver", "deliver", "close", "report"]);
  assert.deepEqual(actions.slice(0, 3).map((action) => action.message), last);
});

test("a silence is settled, except for its last half second, where a word may begin softly", () => {
  const connection = live();
  send(connection, 9000);
  connection.received(delta("one", 2, 2), 9000);
  connection.received(stopped("a", 3000, 3), 9000);
  connection.received(completed("a", 4), 9000);
  renew(connection);

  assert.equal(connection.base, 2500);
});

test("the wait between attempts grows, and ends when the network is back", () => {
  const connection = live();
  const waits = [];
  let actions = connection.closed(1006);
  for (let i = 0; i < 7; i++) {
    waits.push(find(actions, "wait").seconds);
    connection.wake();
    actions = connection.refused(0);
  }

  assert.deepEqual(waits, [0.5, 1, 2, 4, 8, 8, 8]);
  assert.deepEqual(kinds(connection.wake()), ["admit"]);
});

for (const [name, act, reason] of [
  ["a wrong key ends the run", (c) => c.refused(401, "key"), "key"],
  ["another refusal ends the run", (c) => c.refused(403, "host"), "refused"],
  ["a server without an answer is tried again", (c) => c.refused(0), "gone"],
  ["a proxy without a server is tried again", (c) => c.refused(502), "gone"],
  ["a full server is tried again", (c) => c.refused(503), "full"],
]) {
  test(name, () => {
    const connection = new Connection({ rate: RATE });
    connection.start();

    assert.equal(find(act(connection), "report").reason, reason);
    assert.equal(connection.state, ["key", "refused"].includes(reason) ? "ended" : "waiting");
  });
}

test("a refused handshake after admission means that the server is full", () => {
  const connection = new Connection({ rate: RATE });
  connection.start();
  connection.admitted();

  assert.equal(find(connection.closed(1006, false), "report").reason, "full");
});

test("a configuration that the server refuses ends the run with its words", () => {
  const connection = new Connection({ rate: RATE, language: "xx" });
  connection.start();
  connection.admitted();
  connection.received(created("t1"), 0);

  const actions = connection.received({ type: "error", error: { code: "invalid_value", message: "xx" } }, 0);

  const { reason, message } = find(actions, "report");
  assert.deepEqual({ reason, message }, { reason: "refused", message: "xx" });
});

test("a link without any message is given up after ten seconds of audio", () => {
  const connection = live();

  assert.deepEqual(kinds(connection.grew(0, 10 * RATE)), ["pump"]);
  const actions = connection.grew(0, 10 * RATE + 1);

  assert.deepEqual(kinds(actions), ["close", "report", "wait"]);
  assert.equal(find(actions, "close").code, 4000); // not a deliberate end, so the server keeps the session
});

test("a run ends when the server closes after its last message", () => {
  const connection = live();
  send(connection, 9000);
  connection.stop();
  const [end] = connection.drained();
  assert.equal(end.message.type, "wlk.end");
  assert.deepEqual(connection.drained(), []);

  const last = [stopped("b", 9000, 2), completed("b", 3), segment("b", 4)];
  for (const message of last) assert.deepEqual(kinds(connection.received(message, 9000)), ["deliver"]);
  const actions = connection.closed(1000);

  assert.equal(find(actions, "report").reason, "stopped");
  assert.equal(connection.state, "ended");
});

test("a session that ends before the run is followed by a new one", () => {
  const connection = live();
  send(connection, 3000);

  assert.equal(find(connection.closed(1000), "report").reason, "gone");
  assert.deepEqual(reconnect(connection, created("t2"))[0], { wlk_resume: 1 });
});

test("a run that loses its connection while it stops is resumed, and then ends", () => {
  const connection = live();
  send(connection, 3000);
  connection.stop();
  connection.drained();
  connection.closed(1006);
  reconnect(connection, { type: "session.resumed", samples: 2000, messages: 3, wlk_seq: 1 });

  assert.deepEqual(send(connection, 3000), [[2000, 3000]]);
  assert.equal(connection.drained()[0].message.type, "wlk.end");
});

test("a run that recorded nothing ends at once", () => {
  const connection = live();

  assert.deepEqual(kinds(connection.stop()), ["pump"]);
  assert.equal(find(connection.drained(), "report").reason, "stopped");
});

test("a translator that failed during the session is reported, and the session goes on", () => {
  const connection = live();
  const session = { wlk: { translation: null } };
  const actions = connection.received({ type: "session.updated", wlk_seq: 2, session }, 0);

  assert.deepEqual(actions, [{ kind: "report", state: "untranslated" }]);
  assert.equal(connection.state, "live");
});
