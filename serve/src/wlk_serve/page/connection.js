// One run as a state machine: events in, actions out, without sockets and clocks.

const RETRY_SECONDS = [0.5, 1, 2, 4, 8];
const FULL_SECONDS = 10; // until a full server is tried again
const STALL_SECONDS = 10; // of audio without a message: the link is dead
const APPEND_SECONDS = 1; // in a message at most
const DONE = 1000;
const BROKEN = 1011;
const OVERLOADED = 1013;
const SOFT_SECONDS = 0.5; // in which a word may begin
const CUT = 4000;

/**
 * Its methods return actions for a Channel.
 * States: idle, admitting, connecting, configuring, live, waiting, ended.
 */
export class Connection {
	state = "idle";
	base = 0; // sample 0 of the server's session, numbered as in RecentAudio
	sent = 0; // the next sample to send
	#settled = 0; // samples before this have their final words
	#forced = null; // came after wlk.cut; the next session replaces it
	#kept = 0; // the oldest sample that can be sent again
	#token = null;
	#lastNumber = 0; // of the server's messages
	#lastSign = 0; // samples recorded when it last sent one
	#attempt = 0;
	#hasSession = false;
	#isStopping = false;
	#hasEnded = false; // its audio, at the server

	constructor({ rate, language = "", random = Math.random }) {
		Object.assign(this, { rate, language, random });
	}

	start() {
		this.state = "admitting";
		return [{ kind: "admit" }];
	}

	/** The server gave a secret for a socket. */
	admitted() {
		this.state = "connecting";
		const last = { wlk_resume: this.#token, wlk_last_seq: this.#lastNumber };
		return [{ kind: "connect", query: this.#token ? last : { wlk_resume: 1 } }];
	}

	/** It gave none; status 0: no answer. */
	refused(status, message) {
		if (status === 401) return this.#end("key");
		if (status === 429 || status === 503) return this.#retry("full");
		return status && status < 500 ? this.#end("refused", message) : this.#retry("gone");
	}

	/** A message came when `captured` samples were recorded. */
	received(message, captured) {
		this.#lastSign = captured;
		const { type } = message;
		if (type === "session.created") return this.#begin(message.session.wlk?.resume?.token);
		if (type === "session.resumed") {
			this.sent = this.base + message.samples;
			return message.messages === 0 ? this.#configure() : this.#live();
		}
		const number = message.wlk_seq ?? Infinity;
		if (number <= this.#lastNumber) return []; // it came before the cut
		if (number < Infinity) this.#lastNumber = number;
		if (type === "session.updated") return this.state === "configuring" ? this.#live(message.session.audio?.input.transcription) : [];
		if (type === "error") return this.#failed(message.error);
		const delivery = { kind: "deliver", message, seconds: this.base / this.rate };
		if (type === "wlk.cut") this.#forced = [];
		if (!this.#forced) this.#settle(message);
		else this.#forced.push(delivery);
		return this.#forced ? [] : [delivery];
	}

	/** The socket closed; `wasOpen` is false for a refused handshake. */
	closed(code, wasOpen = true) {
		if (this.state === "ended") return [];
		if (code === DONE && this.#hasEnded) return this.abort();
		const isFull = code === OVERLOADED;
		if (code === DONE || code === BROKEN) this.#token = null;
		return this.#retry(wasOpen && !isFull ? "gone" : "full");
	}

	/** The wait is over, or the network came back. */
	wake() {
		return this.state === "waiting" ? this.start() : [];
	}

	/** Samples up to `captured` are recorded, and kept from `kept` on. */
	grew(kept, captured) {
		this.#kept = kept;
		if (this.state !== "live") return [];
		const isDead = this.#token && captured - this.#lastSign > STALL_SECONDS * this.rate;
		return isDead ? this.cut() : [{ kind: "pump" }];
	}

	cut() {
		if (!["connecting", "configuring", "live"].includes(this.state)) return [];
		return [{ kind: "close", code: CUT }, ...this.#retry("gone")];
	}

	/** No more audio comes: end after the last words. */
	stop() {
		this.#isStopping = true;
		if (this.state === "live") return [{ kind: "pump" }];
		return this.state === "waiting" && !this.#hasSession ? this.abort() : [];
	}

	abort() {
		return this.state === "ended" ? [] : this.#end("stopped");
	}

	/** Return [start, stop] of the next append, or null. */
	takeRange(captured) {
		if (this.state !== "live" || this.sent >= captured) return null;
		const start = this.sent;
		this.sent = Math.min(captured, start + APPEND_SECONDS * this.rate);
		return [start, this.sent];
	}

	drained() {
		if (!this.#isStopping || this.#hasEnded || this.state !== "live") return [];
		if (this.sent === this.base) return this.abort();
		this.#hasEnded = true;
		return [{ kind: "send", message: { type: "wlk.end" } }]; // the server closes after its last message
	}

	#begin(token) {
		const start = Math.max(this.#settled, this.#kept);
		const missing = (start - this.#settled) / this.rate;
		const reports = this.#hasSession ? [{ kind: "report", state: "renewed", missing }] : [];
		this.#hasSession = true;
		this.#token = token;
		this.#lastNumber = 0;
		this.base = this.sent = this.#settled = start;
		this.#forced = null;
		return [...reports, ...this.#configure()];
	}

	#configure() {
		this.state = "configuring";
		const input = { format: { type: "audio/pcm", rate: this.rate }, turn_detection: { type: "server_vad" } };
		if (this.language) input.transcription = { language: this.language };
		const session = { type: "transcription", audio: { input }, include: ["wlk.hypothesis"] };
		return [{ kind: "send", message: { type: "session.update", session } }];
	}

	#live(served) {
		this.state = "live";
		this.#attempt = 0;
		this.#hasEnded = false;
		return [{ kind: "report", state: "live", ...served }, { kind: "pump" }];
	}

	#failed({ code, message }) {
		if (code === "resume_expired") this.#token = null;
		else if (this.state === "configuring") return this.#end("refused", message);
		else return [{ kind: "report", state: "warning", message }];
		return [];
	}

	/** Note how far audio is settled. */
	#settle({ type, end = 0, audio_end_ms: milliseconds }) {
		if (type.endsWith("speech_stopped")) end = milliseconds / 1000 - SOFT_SECONDS;
		else if (!type.endsWith("transcription.delta")) return;
		const sample = this.base + Math.round(end * this.rate);
		this.#settled = Math.min(Math.max(this.#settled, sample), this.sent);
	}

	#retry(reason) {
		if (this.#isStopping && !this.#hasSession) return this.abort();
		this.state = "waiting";
		let seconds = RETRY_SECONDS[this.#attempt++] ?? RETRY_SECONDS.at(-1);
		if (reason === "full") seconds = FULL_SECONDS;
		seconds *= 0.75 + this.random() / 2; // many pages do not come back at once
		return [
			{ kind: "report", state: "waiting", reason, seconds },
			{ kind: "wait", seconds },
		];
	}

	#end(reason, message) {
		this.state = "ended";
		return [
			...(this.#forced ?? []),
			{ kind: "close", code: DONE },
			{ kind: "report", state: "ended", reason, message },
		];
	}
}
