// Notices that the page shows, some of them by the name of a browser error.

const NOTICES = {
	insecure: "Browsers allow microphones on https and localhost only.",
	NotFoundError: "No microphone was found. Plug one in.",
	OverconstrainedError: "That microphone is gone. Choose another one.",
	NotAllowedError: "The browser blocks the microphone. Allow it in the address bar, then press Start.",
	NotReadableError: "Another program is using the microphone. Close it, then press Start.",
	noTabAudio: "No sound is shared. Tick “Also share tab audio” when you choose the tab.",
	refusedTab: "No tab is shared. Press Start to choose one.",
	wrongRate: "This device records at more than 48 kHz. Set it to 48 kHz.",
	deviceGone: "The microphone is gone. Plug it in, then press Start.",
	otherRate: "That device has another sample rate. Press Stop before you choose it.",
	silent: "No sound is coming in. Is the microphone muted?",
	key: "The server does not accept this key.",
	refused: "The server refused:",
	gone: "The server does not answer. Audio is kept;",
	full: "The server is full, or a proxy blocks WebSockets. Audio is kept;",
	late: "The server cannot keep up, so words come late.",
	untranslated: "The server's translator failed. The words go on.",
	renewed: "The server ended the session; a new one began.",
};

/** Return the notice with a name; some end with a detail from the server or the browser. */
export function notice(name, detail = "") {
	const text = NOTICES[name] ?? "The browser gives no audio. It reports:";
	return /[:;]$/.test(text) ? `${text} ${detail}` : text;
}
