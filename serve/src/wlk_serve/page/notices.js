// What the page shows when something is in the way, also by the name of the browser's error.

const NOTICES = {
	insecure: "Browsers give microphones to https and localhost only.",
	NotFoundError: "No microphone was found. Plug one in.",
	OverconstrainedError: "That microphone is gone. Choose another.",
	NotAllowedError: "The browser refuses the microphone. Allow it beside the address, then press Start.",
	NotReadableError: "Another program uses the microphone. Close it, then press Start.",
	noTabAudio: "No sound is shared. Tick “Also share tab audio” beside the tab.",
	refusedTab: "No tab is shared. Press Start to choose one.",
	wrongRate: "This device has more than 48 kHz. Set it to 48 kHz.",
	deviceGone: "The microphone is gone. Plug it in, then press Start.",
	otherRate: "That device has another sample rate. Press Stop before you choose it.",
	silent: "No sound comes in. Is the microphone muted?",
	key: "The server does not accept this key.",
	refused: "The server refuses:",
	gone: "The server does not answer. Audio is kept;",
	full: "The server is full, or a proxy stops WebSockets. Audio is kept;",
	renewed: "The server ended the session: a new one began.",
};

/** Return the line for a name, some with the words of the server or browser. */
export function notice(name, detail = "") {
	const text = NOTICES[name] ?? "The browser gives no audio. It reports:";
	return /[:;]$/.test(text) ? `${text} ${detail}` : text;
}
