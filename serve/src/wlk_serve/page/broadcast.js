// Sends the newest words from the page to caption windows of the same browser.

import { joined } from "./words.js";

const NAME = "wlk-captions";
const LINES = 3;

/** Return the newest lines of a transcript, as {speaker, solid, pending, language, translation, target}. */
export function newest(transcript) {
	return transcript.lines
		.filter((line) => line.lastWord || line.pending.length)
		.slice(-LINES)
		.map(({ speaker, words, pending, language, translations }) => ({
			speaker: transcript.named(speaker) ?? "",
			solid: joined(words),
			pending: joined(pending),
			language,
			translation: translations.map(({ text }) => text).join(" "),
			target: translations[0]?.language ?? "",
		}));
}

/** Return a function that sends the newest words; a new window also requests them. */
export function sender(transcript) {
	const channel = new BroadcastChannel(NAME);
	const send = () => channel.postMessage({ lines: newest(transcript) });
	channel.onmessage = ({ data }) => data.isAsking && send();
	return send;
}

/** Call `onLines` with the newest words as they change. */
export function receive(onLines) {
	const channel = new BroadcastChannel(NAME);
	channel.onmessage = ({ data }) => data.lines && onLines(data.lines);
	channel.postMessage({ isAsking: true });
}
