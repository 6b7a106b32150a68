// The state machine of one run: events in, actions out, without sockets or clocks.

const RETRY_SECONDS = [0.5, 1, 2, 4, 8];
const FULL_SECONDS = 10; // before a full server is tried again
const STALL_SECONDS = 10; // of audio without a message from the server: the link is dead
const APPEND_SECONDS = 1; // the most audio in one message
const DONE = 1000;
const BROKEN = 1011;
const OVERLOADED = 1013;
const SOFT_SECONDS = 0.5; // at the end of a pause, in which the next word may begin softly
const CUT = 4000;

/**
 * The methods return actions for a Channel.
 * States: idle, admitting, connecting, configuring, live, waiting, ended.
 */
export class Connection {
	state = "idle";
	base = 0; // first sample of the server's session, numbered as in RecentAudio
	sent = 0; // the next sample to send
	#settled = 0; // all words before this sample are final
	#afterCut = null; // deliveries after wlk.cut: a new session would recognise their audio again
	#kept = 0; // the oldest sample that can be sent again
	#token = null;
	#lastNumber = 0; // number of the newest message from the server
	#lastReceived = 0; // samples recorded when the last message came
	#attempt = 0;
	#hasSession = false;
	#isStopping = false;
	#sentEnd = false;

	constructor({ rate, language = "", random = Math.random }) {
		Object.assign(this, { rate, language, random });
	}

	start() {
		this.state = "admitting";
		return [{ kind: "admit" }];
	}

	/** The server granted a client secret. */
	admitted() {
		this.state = "connecting";
		const last = { wlk_resume: this.#token, wlk_last_seq: this.#lastNumber };
		return [{ kind: "connect", query: this.#token ? last : { wlk_resume: 1 } }];
	}

	/** The server refused a client secret; status 0 means that there was no answer. */
	refused(status, message) {
		if (status === 401) return this.#end("key");
		if (status === 429 || status === 503) return this.#retry("full");
		return status && status < 500 ? this.#end("refused", message) : this.#retry("gone");
	}

	/** A message came after `captured` samples had been recorded. */
	received(message, captured) {
		this.#lastReceived = captured;
		const { type } = message;
		if (type === "session.created") return this.#begin(message.session.wlk?.resume?.token);
		if (type === "session.resumed") {
			this.sent = this.base + message.samples;
			return message.messages === 0 ? this.#configure() : this.#live();
		}
		const number = message.wlk_seq ?? Infinity;
		if (number <= this.#lastNumber) return []; // already received before the connection was lost
		if (number < Infinity) this.#lastNumber = number;
		if (type === "session.updated") return this.#updated(message.session);
		if (type === "error") return this.#failed(message.error);
		const delivery = { kind: "deliver", message, seconds: this.base / this.rate };
		if (type === "wlk.cut") this.#afterCut = [];
		if (!this.#afterCut) this.#settle(message);
		else this.#afterCut.push(delivery);
		return this.#afterCut ? [] : [delivery];
	}

	/** The socket was closed; `wasOpen` is false if the handshake was refused. */
	closed(code, wasOpen = true) {
		if (this.state === "ended") return [];
		if (code === DONE && this.#sentEnd) return this.abort();
		const isFull = code === OVERLOADED;
		if (code === DONE || code === BROKEN) this.#token = null;
		return this.#retry(wasOpen && !isFull ? "gone" : "full");
	}

	/** The wait is over, or the network is back. */
	wake() {
		return this.state === "waiting" ? this.start() : [];
	}

	/** Samples up to `captured` have been recorded; those from `kept` on are still kept. */
	grew(kept, captured) {
		this.#kept = kept;
		if (this.state !== "live") return [];
		const isDead = this.#token && captured - this.#lastReceived > STALL_SECONDS * this.rate;
		return isDead ? this.cut() : [{ kind: "pump" }];
	}

	cut() {
		if (!["connecting", "configuring", "live"].includes(this.state)) return [];
		return [{ kind: "close", code: CUT }, ...this.#retry("gone")];
	}

	/** No more audio will come: end after the last words. */
	stop() {
		this.#isStopping = true;
		if (this.state === "live") return [{ kind: "pump" }];
		return this.state === "waiting" && !this.#hasSession ? this.abort() : [];
	}

	abort() {
		return this.state === "ended" ? [] : this.#end("stopped");
	}

	/** Return [start, end] of the next samples to append, or null. */
	takeRange(captured) {
		if (this.state !== "live" || this.sent >= captured) return null;
		const start = this.sent;
		this.sent = Math.min(captured, start + APPEND_SECONDS * this.rate);
		return [start, this.sent];
	}

	drained() {
		if (!this.#isStopping || this.#sentEnd || this.state !== "live") return [];
		if (this.sent === this.base) return this.abort();
		this.#sentEnd = true;
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
		this.#afterCut = null;
		return [...reports, ...this.#configure()];
	}

	#configure() {
		this.state = "configuring";
		const input = { format: { type: "audio/pcm", rate: this.rate }, turn_detection: { type: "server_vad" } };
		if (this.language) input.transcription = { language: this.language };
		const session = { type: "transcription", audio: { input }, include: ["wlk.hypothesis", "wlk.translation", "wlk.lag"] };
		return [{ kind: "send", message: { type: "session.update", session } }];
	}

	#updated({ audio, wlk }) {
		if (this.state === "configuring") return this.#live(audio?.input.transcription);
		return wlk?.translation === null ? [{ kind: "report", state: "untranslated" }] : [];
	}

	#live(served) {
		this.state = "live";
		this.#attempt = 0;
		this.#sentEnd = false;
		return [{ kind: "report", state: "live", ...served }, { kind: "pump" }];
	}

	#failed({ code, message }) {
		if (code === "resume_expired") this.#token = null;
		else if (this.state === "configuring") return this.#end("refused", message);
		else return [{ kind: "report", state: "warning", message }];
		return [];
	}

	/** Record up to which sample a message makes the words final. */
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
		seconds *= 0.75 + this.random() / 2; // so that many pages do not return at the same time
		return [
			{ kind: "report", state: "waiting", reason, seconds },
			{ kind: "wait", seconds },
		];
	}

	#end(reason, message) {
		this.state = "ended";
		return [
			...(this.#afterCut ?? []),
			{ kind: "close", code: DONE },
			{ kind: "report", state: "ended", reason, message },
		];
	}
}
