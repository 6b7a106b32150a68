// Carries out the actions of a connection with requests, one WebSocket and timers.

const MAX_WAITING_BYTES = 500_000; // in the socket's buffer; above it, sending audio pauses
const SECRET_SECONDS = 60; // the secret is used at once to open a socket

/** Connects a Connection and its audio to the server; calls methods of `page`. */
export class Channel {
	#socket = null;
	#timer = 0; // for the next try, or for sending more audio

	constructor(connection, audio, page, key) {
		Object.assign(this, { connection, audio, page, key });
	}

	append(samples) {
		this.audio.append(samples);
		this.#carryOut(this.connection.grew(this.audio.start, this.audio.end));
	}

	/** Call a method of the connection. */
	call(name) {
		this.#carryOut(this.connection[name]());
	}

	#carryOut(actions) {
		for (const action of actions) this.#acts[action.kind](action);
	}

	#acts = {
		admit: () => this.#admit(),
		connect: ({ query }) => this.#connect(query),
		send: ({ message }) => this.#socket.send(JSON.stringify(message)),
		pump: () => this.#pump(),
		wait: ({ seconds }) => (this.#timer = setTimeout(() => this.call("wake"), seconds * 1000)),
		close: ({ code }) => this.#close(code),
		deliver: ({ message, seconds }) => this.page.deliver(message, seconds),
		report: (report) => this.page.report(report),
	};

	/** Request a client secret first: unlike a socket's, its refusal shows the reason. */
	async #admit() {
		clearTimeout(this.#timer);
		let status = 0;
		let body = {};
		try {
			const answer = await fetch("v1/realtime/client_secrets", {
				method: "POST",
				headers: this.key ? { authorization: `Bearer ${this.key}` } : {},
				body: JSON.stringify({ expires_after: { seconds: SECRET_SECONDS } }),
			});
			({ status } = answer);
			body = await answer.json();
		} catch {
			// There was no answer, or it came from a proxy.
		}
		const { connection } = this;
		if (connection.state !== "admitting") return;
		this.secret = body.value;
		this.#carryOut(body.value ? connection.admitted() : connection.refused(status, body.error?.message));
	}

	#connect({ wlk_resume: token, ...query }) {
		const protocols = ["realtime", `openai-insecure-api-key.${this.secret}`];
		if (token === 1) query.wlk_resume = 1;
		else protocols.push(`wlk-resume.${token}`); // not in the query, which proxies log
		const url = new URL("v1/realtime", document.baseURI); // a proxy may serve the page under a path
		url.protocol = url.protocol.replace("http", "ws");
		url.search = new URLSearchParams({ intent: "transcription", ...query });
		const socket = new WebSocket(url, protocols);
		this.#socket = socket;
		let wasOpen = false;
		socket.onopen = () => (wasOpen = true);
		socket.onmessage = ({ data }) => {
			if (this.#socket !== socket) return;
			this.#carryOut(this.connection.received(JSON.parse(data), this.audio.end));
		};
		socket.onclose = ({ code }) => {
			if (this.#socket !== socket) return;
			this.#socket = null;
			this.#carryOut(this.connection.closed(code, wasOpen));
		};
	}

	/** Send audio until the socket's buffer is full. */
	#pump() {
		clearTimeout(this.#timer);
		if (!this.#socket) return;
		while (this.#socket.bufferedAmount < MAX_WAITING_BYTES) {
			const range = this.connection.takeRange(this.audio.end);
			if (!range) {
				this.#carryOut(this.connection.drained());
				return;
			}
			this.#socket.send(this.audio.read(...range));
		}
		this.#timer = setTimeout(() => this.#pump(), 100);
	}

	#close(code) {
		clearTimeout(this.#timer);
		this.#socket?.close(code);
		this.#socket = null;
	}
}
