// Words {text, start, end, confidence, speaker}, where `text` includes the white space before the word.

// As in wlk_frameworks.sentences, for single words: without the word after a full stop.
const STOP = /[.!?…。！？｡．।॥۔؟։።፧။។།][)\]"'”’»」』]*$/u;
const ABBREVIATION = /(^|[\s.])(\p{L}|\d{1,2}|Mr|Mrs|Ms|Dr|Prof|St|Hr|Fr|Nr|Sr|Sra)\.$/u;

export const endsSentence = (text) => STOP.test(text) && !ABBREVIATION.test(text);

export const endsPart = (text) => /[,;:،、，；：՝፣፤፥၊៖][)\]"'”’»]*$/u.test(text);

/** Return the text of words. */
export const joined = (words) => words.map((word) => word.text).join("");

/** Return the text of words without white space around it. */
export const textOf = (words) => joined(words).trim();

/** Return words from a message's text and word records, with times shifted by `offset` seconds. */
export function timedWords(text, records = [], offset = 0) {
	const words = [];
	let position = 0;
	for (const record of records) {
		if (!record.word) continue;
		const index = text.indexOf(record.word, position);
		const before = index < 0 ? " " : text.slice(position, index);
		if (index >= 0) position = index + record.word.length;
		words.push({
			text: before + record.word,
			start: record.start + offset,
			end: record.end + offset,
			confidence: record.confidence ?? null,
			speaker: record.speaker ?? null,
		});
	}
	const rest = text.slice(position);
	if (words.length && rest.trim()) words.at(-1).text += rest.trimEnd();
	return words;
}

export const twoDigits = (number) => String(number).padStart(2, "0");

/** Format seconds as "1:02", with hours as "1:01:02". */
export function clock(seconds) {
	const whole = Math.floor(seconds);
	const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
	return `${hours ? `${hours}:${twoDigits(minutes)}` : minutes}:${twoDigits(whole % 60)}`;
}
