// The newest words, from the page to caption windows of the same browser.

import { joined, speakerName } from "./words.js";

const NAME = "wlk-captions";
const LINES = 3;

/** Return the newest lines of a transcript, as {speaker, solid, pending}. */
export function newest({ lines }) {
	return lines
		.slice(-2 * LINES)
		.filter((line) => line.lastWord || line.pending.length)
		.slice(-LINES)
		.map(({ speaker, words, pending }) => ({
			speaker: speaker === null ? "" : speakerName(speaker),
			solid: joined(words),
			pending: joined(pending),
		}));
}

/** Sends the newest words; a window that opens asks for them. */
export class Sender {
	#channel = new BroadcastChannel(NAME);

	constructor(lines) {
		this.#channel.onmessage = ({ data }) => data.isAsking && this.send(lines());
	}

	send(lines) {
		this.#channel.postMessage({ lines });
	}
}

/** Call `onLines` with the newest words as they change. */
export function receive(onLines) {
	const channel = new BroadcastChannel(NAME);
	channel.onmessage = ({ data }) => data.lines && onLines(data.lines);
	channel.postMessage({ isAsking: true });
}
